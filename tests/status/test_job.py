"""The status of a Job: what its newest run does, and how its runs went."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest

from reconciler import status
from reconciler.resources import Job
from reconciler.state import (
    Contact,
    Desired,
    GroupRecord,
    Memory,
    NodeName,
    NodeObservation,
    ObjectKey,
    Observed,
    Outcome,
    Plan,
    Refusal,
    RefusedBecause,
    RunId,
    Waiting,
    WaitingFor,
)
from reconciler.state.job_steps import CreateRun, EndAttempt, RunStep, SuspendRun
from reconciler.state.jobs import AttemptEnd, Run, RunEnd, RunReason, RunResult
from reconciler.state.reports.status import ObjectStatus
from reconciler.status import Snapshots, event, transitions
from reconciler.status.job import ATTEMPTS_SHOWN, RUNS_SHOWN
from tests.status.jobs import (
    NODES,
    OTHER,
    TRAIN,
    attempt,
    failed,
    failed_attempt,
    good_attempt,
    job,
    record,
    run,
    succeeded,
)

KEY = ObjectKey("Job", TRAIN)
NOW = 1_000_000.0


def snapshots(
    runs: Iterable[Run] = (), group: GroupRecord | None = None, of: Job | None = None, **more: Any
) -> Snapshots:
    memory = Memory(
        token=0,
        runs={each.id: each for each in runs},
        groups={group.workload: group} if group else {},
        in_flight=frozenset(more.pop("in_flight", ())),
    )
    return Snapshots(
        Desired.of("1", [of or job()]), more.pop("observed", Observed()), memory, Plan(**more), NOW
    )


def found(*runs: Run, **more: Any) -> ObjectStatus:
    return status.statuses(snapshots(runs, **more), {})[KEY]


def conditions(seen: ObjectStatus) -> dict[str, tuple[bool, str]]:
    return {each.type: (each.status, each.reason) for each in seen.conditions}


STATES = {
    "new": (found(), "Pending", False, (False, False, False)),
    "waits": (found(run()), "Pending", False, (False, False, False)),
    "runs": (found(run(), group=record(epoch=1)), "Running", True, (False, False, False)),
    "succeeded": (found(succeeded()), "Succeeded", True, (True, False, False)),
    "failed": (found(failed()), "Failed", False, (False, True, False)),
    "suspended": (found(run(suspended_at=60.0)), "Suspended", True, (False, False, True)),
    "never begun": (found(of=job(suspend=True)), "Suspended", True, (False, False, True)),
    "scheduled": (found(of=job(schedule="0 3 * * *")), "Scheduled", True, (False, False, False)),
    "cancelled": (
        found(run(ended=RunEnd(RunResult.CANCELLED, RunReason.CANCELLED, 90.0, "Ada"))),
        "Cancelled",
        True,
        (False, False, False),
    ),
    "runs again": (found(failed(1), run(2), group=record(2, 2)), "Running", True, (False, False, False)),
}


@pytest.mark.parametrize("case", STATES)
def test_its_state_and_conditions_are_those_of_its_newest_run(case: str) -> None:
    seen, state, ready, own = STATES[case]
    assert seen.extra["state"] == state
    told = conditions(seen)
    assert told["Ready"][0] is ready
    assert tuple(told[each][0] for each in ("Complete", "Failed", "Suspended")) == own


def test_a_failure_is_told_with_its_reason() -> None:
    told = conditions(found(failed(reason=RunReason.EXIT_CODE)))
    assert told["Ready"] == (False, "FailOnExitCode")
    assert told["Failed"] == (True, "FailOnExitCode")
    assert not told["Stalled"][0], "nothing is waited for"


def test_a_job_that_cannot_be_placed_has_the_reason_of_the_refusal() -> None:
    refused = Refusal(KEY, RefusedBecause.NO_NODES, "no node allows it", RunId(TRAIN, 1))
    told = conditions(found(run(), refused=(refused,)))
    assert told["Ready"] == (False, "NotEnoughNodes")
    assert told["Stalled"] == (True, "NotEnoughNodes")


def test_the_result_of_an_earlier_spec_does_not_count() -> None:
    seen = found(succeeded(1, fingerprint=OTHER))
    assert conditions(seen)["Complete"][0] is False
    assert (seen.extra["state"], seen.extra["run"], seen.extra["exit"]) == ("Pending", 0, None)
    assert [each["run"] for each in seen.extra["runs"]] == [1]


def test_a_spec_that_is_set_back_has_the_result_of_its_own_run() -> None:
    seen = found(succeeded(1), failed(2, fingerprint=OTHER))
    assert (seen.extra["state"], seen.extra["run"], seen.extra["exit"]) == ("Succeeded", 1, "0:0")
    assert [each["run"] for each in seen.extra["runs"]] == [1, 2]


def test_with_a_schedule_the_newest_run_counts_until_the_next_one() -> None:
    seen = found(failed(1, fingerprint=OTHER), of=job(schedule="0 3 * * *"))
    assert seen.extra["state"] == "Failed"


def test_the_fields_of_a_run_that_is_in_its_second_attempt() -> None:
    seen = found(run(1, failed_attempt(1)), group=record(1, 2)).extra
    assert (seen["run"], seen["attempt"], seen["attemptsMax"], seen["exit"]) == (1, 2, 7, None)
    assert (seen["nodes"], seen["startedAt"], seen["endedAt"]) == (list(NODES), 100.0, None)
    (only,) = seen["runs"]
    first, second = only["attempts"]
    assert [rank["exit"] for rank in first["ranks"]] == ["0:9", "3:0"]
    assert (first["end"], first["text"]) == ("RankFailed", "rank 1 on node-b exited with 3")
    assert (second["end"], second["epoch"], second["transport"]) == (None, 2, "ring-lan")
    assert [rank["phase"] for rank in second["ranks"]] == ["starting", "starting"]


def test_the_exit_is_that_of_the_rank_to_blame_and_not_of_one_that_was_ended_for_it() -> None:
    assert found(failed()).extra["exit"] == "3:0"
    assert found(succeeded()).extra["exit"] == "0:0"
    assert found(run(1, attempt(1, AttemptEnd.NODE_LOST, None, None))).extra["exit"] is None


def test_attempts_that_do_not_count_have_the_number_of_the_next_one() -> None:
    drained = attempt(2, AttemptEnd.DRAINED, None, None)
    assert found(run(1, failed_attempt(1), drained)).extra["attempt"] == 2
    assert found(run(1, failed_attempt(1), drained), group=record(1, 3)).extra["attempt"] == 2
    assert found(run(1, failed_attempt(1), drained, failed_attempt(3))).extra["attempt"] == 2


def test_the_newest_runs_and_attempts_are_shown() -> None:
    many = [succeeded(number) for number in range(1, RUNS_SHOWN + 5)]
    shown = found(*many).extra["runs"]
    assert [each["run"] for each in shown] == list(range(5, RUNS_SHOWN + 5))
    tries = [failed_attempt(number) for number in range(1, ATTEMPTS_SHOWN + 4)]
    (only,) = found(run(1, *tries)).extra["runs"]
    assert (len(only["attempts"]), only["attemptsLeftOut"]) == (ATTEMPTS_SHOWN, 3)
    assert only["attempts"][0]["number"] == 4


def test_the_next_time_of_a_schedule_is_told_unless_it_is_suspended() -> None:
    nightly = job(schedule="0 3 * * *")
    assert found(of=nightly).extra["nextSchedule"] == 1_047_600.0
    assert found(of=job(schedule="0 3 * * *", suspend=True)).extra["nextSchedule"] is None


def test_nothing_of_its_status_changes_while_it_runs_on() -> None:
    before = snapshots([run()], record(epoch=1))
    first = status.statuses(before, {})
    later = status.statuses(replace(before, now=NOW + 60.0), first)
    assert later[KEY] == first[KEY]


def test_steps_about_runs_are_events_and_failures_are_warnings() -> None:
    kinds: list[tuple[RunStep, str, bool]] = [
        (CreateRun(run(), "it is new"), "RunCreated", False),
        (EndAttempt(run(1, good_attempt(1))), "AttemptEnded", False),
        (EndAttempt(run(1, failed_attempt(1))), "AttemptEnded", True),
        (EndAttempt(failed()), "AttemptEnded", True),
        (SuspendRun(run(suspended_at=1.0)), "RunSuspended", False),
        (SuspendRun(run()), "RunContinued", False),
    ]
    for step, reason, warning in kinds:
        told = event(Outcome(step, 0.1), NOW)
        assert told is not None
        assert (told.object, told.reason, told.warning) == (KEY, reason, warning)


def test_a_job_that_waits_for_its_nodes_is_no_warning_and_one_that_has_failed_is() -> None:
    before = status.statuses(snapshots([run()], record(epoch=1)), {})
    for runs, warning in (([run()], False), ([failed()], True)):
        now = snapshots(runs)
        events = transitions(before, status.statuses(now, before), now)
        assert [each.warning for each in events if each.reason == "NotReady"] == [warning]


def test_ranks_of_a_running_attempt_are_told_as_they_are_seen() -> None:
    group = record(epoch=1)
    nodes = {name: NodeObservation(NodeName(name), Contact.REACHED, 0.0) for name in NODES}
    (only,) = found(run(), group=group, observed=Observed(nodes)).extra["runs"]
    assert [(rank["node"], rank["phase"]) for rank in only["attempts"][0]["ranks"]] == [
        (node, "starting") for node in NODES
    ]


@pytest.mark.parametrize(
    ("reason", "state"),
    [
        (WaitingFor.BACK_OFF, "Pending"),
        (WaitingFor.LEFTOVERS, "Pending"),
        (WaitingFor.AGENT, "Running"),
        (WaitingFor.STEP, "Running"),
    ],
)
def test_an_attempt_that_was_placed_and_waits_does_not_run_yet(reason: WaitingFor, state: str) -> None:
    again = run(1, failed_attempt(1))
    seen = found(
        again, group=record(1, 2), waiting=(Waiting(KEY, reason, "later", workload=RunId(TRAIN, 1)),)
    ).extra
    phase = {"Pending": "waiting", "Running": "starting"}[state]
    assert seen["state"] == state
    assert [rank["phase"] for rank in seen["runs"][0]["attempts"][-1]["ranks"]] == [phase, phase]
