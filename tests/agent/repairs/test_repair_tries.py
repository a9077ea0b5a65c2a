"""For how long a repair speaks against trying the same again in one boot."""

from __future__ import annotations

from dataclasses import replace

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


def _sets(interface: str) -> Change:
    tool = ("ifconfig", interface, "inet", "10.77.0.1")
    return Change((*tool, "netmask", "255.255.255.252"), (*tool, "delete"))


def test_a_port_that_got_an_address_by_two_repairs_of_a_boot_is_told_for_all_of_it() -> None:
    first = Record("r1", "boot", (CHANGE, _sets("en3"), _sets("en4")), 60.0)
    second = replace(first, id="r2", changes=(_sets("en3"),))
    once = script.begin(None, first, now=0.0)
    assert script.report(once, 1.0, stays=False).readdressed == ()
    twice = script.begin(end(script.carry_out(once), confirmed=True), second, now=1.0)
    assert script.report(twice, 1e9, stays=False).readdressed == ("en3",)
    booted = script.begin(twice, replace(second, boot_id="another"), now=2.0)
    assert script.report(booted, 3.0, stays=False).readdressed == ()


def test_a_port_gets_no_address_by_a_repair_that_sudo_refuses() -> None:
    refused = Failure("sudo: a password is required", barred=True)
    record = Record("r1", "boot", (_sets("en3"),), 60.0)
    barred = end(script.carry_out(script.begin(None, record, now=0.0)), failure=refused)
    again = end(script.carry_out(script.begin(barred, record, now=1.0)), confirmed=True)
    assert script.report(again, 2.0, stays=False).readdressed == ()
