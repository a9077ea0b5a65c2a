"""For how long a repair speaks against trying the same again in one boot."""

from __future__ import annotations

from reconciler.agent.repairs import script
from reconciler.agent.repairs.script import Acts, Answer, Await, Failure, Record, Run
from reconciler.wire.repair import Change

CHANGE = Change(("ifconfig", "bridge0", "deletem", "en3"), ("ifconfig", "bridge0", "addm", "en3"))


def begun() -> Record:
    return script.begin(None, Record("r1", "boot", (CHANGE,), 60.0), now=0.0)


def end(acts: Acts, confirmed: bool = False, failure: Failure | None = None) -> Record:
    """Its last record, when its commands succeed or fail so, and it is confirmed or not."""
    answer: Answer = None
    try:
        while True:
            act = acts.send(answer)
            answer = confirmed if isinstance(act, Await) else failure if isinstance(act, Run) else None
    except StopIteration as ended:
        record: Record = ended.value
        return record


def test_what_has_failed_or_was_not_confirmed_speaks_against_it_for_the_boot() -> None:
    for record in (end(script.carry_out(begun()), failure=Failure("no")), end(script.carry_out(begun()))):
        assert script.report(record, 1e9, stays=False).tried == ("r1",)


def test_what_helped_and_did_not_last_speaks_against_it_for_an_hour() -> None:
    record = end(script.carry_out(begun()), confirmed=True)
    assert script.report(record, script.CONFIRMED_SECONDS - 1, stays=False).tried == ("r1",)
    assert script.report(record, script.CONFIRMED_SECONDS, stays=False).tried == ()


def test_what_was_broken_off_is_told_apart_for_it_was_seldom_its_own_doing() -> None:
    report = script.report(end(script.finish_abandoned(begun(), "boot", confirmed=False)), 1.0, stays=False)
    assert (report.tried, report.broken_off) == ((), ("r1",))
