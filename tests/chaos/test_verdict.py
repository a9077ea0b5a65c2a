"""Each thing that must hold, in runs in which it alone does not."""

from __future__ import annotations

from dataclasses import replace

from .events import Event, detected
from .faults import KINDS, Fault, draw
from .growth import Grown, Growth, Taken, slope
from .load import Request
from .verdict import Done, Run, broken, summary, table

GROWN = Grown("gateway", 7, 6.0, 60.0, memory_mib=0.1, descriptors=0.0, descriptors_open=20)
DONE = [Done(fault, fault.at, fault.at + 1.5, "RankExited", fault.at + 9) for fault in draw(1, 9.5)]
ANSWERED = [Request(float(at), at + 0.5, at + 1.0, 200) for at in range(100)]
PUT_OFF = Request(200.0, None, 261.0, 503, "model_loading", 30.0, "no group serves")
GOOD = Run(10.0, DONE, [*ANSWERED, PUT_OFF], [GROWN])


def test_nothing_is_said_of_a_run_in_which_all_holds() -> None:
    assert list(broken(GOOD)) == []


def test_too_few_faults() -> None:
    assert "there were 59 faults" in _only(replace(GOOD, done=DONE[:59]))


def test_too_few_kinds() -> None:
    done = [replace(each, fault=replace(each.fault, kind=KINDS[n % 9].name)) for n, each in enumerate(DONE)]
    assert "9 kinds came 3 times" in _only(replace(GOOD, done=done))
    assert list(broken(replace(GOOD, done=done, minutes=9.0))) == []


def test_too_few_answers() -> None:
    cut = [replace(each, error="the stream ended without a reason") for each in ANSWERED[:10]]
    assert "91 of 101" not in _only(replace(GOOD, requests=[*ANSWERED[10:], *cut]))
    assert "90 of 100 requests were answered" in _only(replace(GOOD, requests=[*ANSWERED[10:], *cut]))
    assert "0 of 0" in _only(replace(GOOD, requests=[]))


def test_a_failure_before_any_answer_that_is_no_503() -> None:
    refused = Request(5.0, None, 5.1, 0, error="APIConnectionError: Connection error.")
    assert "Connection error" in _only(replace(GOOD, requests=[*ANSWERED, refused]))


def test_a_503_that_does_not_say_when_to_come_again() -> None:
    assert "no group serves" in _only(replace(GOOD, requests=[*ANSWERED, replace(PUT_OFF, retry_after=None)]))


def test_a_503_that_came_too_late() -> None:
    late = replace(PUT_OFF, ended_at=PUT_OFF.begun_at + 300)
    assert "only after 300 s" in _only(replace(GOOD, requests=[*ANSWERED, late]))


def test_a_503_while_another_request_was_answered() -> None:
    later = Request(230.0, 231.0, 232.0, 200)
    assert "answered 30 s before" in _only(replace(GOOD, requests=[*ANSWERED, PUT_OFF, later]))


def test_a_stream_that_was_put_off_within_itself() -> None:
    waited = replace(PUT_OFF, status=200, retry_after=None)
    assert list(broken(replace(GOOD, requests=[*ANSWERED, waited]))) == []
    assert "no group serves" in _only(
        replace(GOOD, requests=[*ANSWERED, replace(waited, code="internal_error")])
    )


def test_growth() -> None:
    assert "gateway (pid 7) grows by 1.50 MiB" in _only(replace(GOOD, grown=[replace(GROWN, memory_mib=1.5)]))
    assert "1.00 descriptors a minute" in _only(replace(GOOD, grown=[replace(GROWN, descriptors=1.0)]))
    assert "whether controller grows cannot be told" in _only(replace(GOOD, unjudged=["controller"]))


def test_something_that_is_left_and_something_that_does_not_come_back() -> None:
    assert "something is left: a rank" in _only(replace(GOOD, left="a rank"))
    assert "does not serve again" in _only(replace(GOOD, serves=False))


def _only(run: Run) -> str:
    wrong = list(broken(run))
    assert len(wrong) == 1, wrong
    return wrong[0]


# --- what it is made of ----------------------------------------------------------------------------


def test_a_slope_is_what_is_added_in_a_minute() -> None:
    assert round(slope([(second, 5.0 + second / 30) for second in range(0, 600, 5)]), 6) == 2.0
    assert slope([(0.0, 5.0)]) == slope([(3.0, 5.0), (3.0, 9.0)]) == 0.0


def test_what_a_process_takes_while_it_warms_up_is_no_growth() -> None:
    growth = Growth()
    taken = [Taken((10 + min(at, 100)) * 2**20, 20) for at in range(0, 600, 5)]
    growth.samples[("gateway", 7)] = [(float(5 * at), each) for at, each in enumerate(taken)]
    growth.samples[("agent of studio-1", 8)] = growth.samples[("gateway", 7)][:40]
    grown = growth.grown(0.0, 600.0)
    assert [(each.name, each.memory_mib, each.resident_mib) for each in grown] == [("gateway", 0.0, 110.0)]


def test_a_fault_is_detected_by_what_names_its_machine_or_its_cable_and_what_is_wrong() -> None:
    fault = Fault(3.0, "unplug", "studio-1/3", 9.0)
    events = [
        Event(99.0, "node/studio-1", "Stalled", "no cable joins studio-1/3 and studio-2/3"),
        Event(101.0, "node/studio-1", "Ready", "its agent answers"),
        Event(102.0, "node/studio-4", "Stalled", "no cable joins studio-4/3 and studio-3/3"),
        Event(103.0, "fabric/studios", "NotReady", "5 of 6 links: no cable joins studio-2/3 and studio-1/3"),
        Event(170.0, "node/studio-1", "Stalled", "no cable joins studio-1/3 and studio-2/3"),
    ]
    assert detected(events, fault, 100.0) is events[3]
    assert detected(events[4:], fault, 100.0) is None


def test_the_table_has_a_line_for_each_kind_and_class_and_fits_a_terminal() -> None:
    lines = table(replace(GOOD, done=[*DONE[:-1], replace(DONE[-1], detected_at=None)]))
    drawn = {each.fault.kind for each in DONE}
    assert len(lines) == 2 + len(drawn) + len({kind.fault for kind in KINDS if kind.name in drawn}) + 1
    assert lines[-1].split()[:5] == ["all", "63", "1", "1.5", "s"]
    many = sum(kind.fault == "C4" for kind in KINDS for each in DONE if each.fault.kind == kind.name)
    (of_class,) = [line.split() for line in lines if line.split()[0] == "C4"]
    assert of_class[1] == str(many)
    assert max(map(len, lines)) <= 110
    assert summary(GOOD)[0].startswith("requests: 101, answered 100 (99.0%), put off with 503 1")


def test_ranks_that_come_and_go_are_no_growth_and_what_is_never_given_back_is() -> None:
    growth = Growth()
    for name, leaked in (("tidy", 0), ("leaks", 1)):
        ranks = [int(at > 150) + int(at % 60 > 40) for at in range(0, 400, 5)]
        open_ = [
            11 + 4 * count + leaked * (at // 60) for count, at in zip(ranks, range(0, 400, 5), strict=True)
        ]
        growth.samples[(name, 7)] = [
            (5.0 * n, Taken(2**20, *each)) for n, each in enumerate(zip(open_, ranks, strict=True))
        ]
    leaks, tidy = growth.grown(-1000.0, 400.0)
    assert (leaks.grows, tidy.grows, tidy.descriptors) == (True, False, 0.0)
