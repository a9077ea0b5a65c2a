"""A run that has failed is an incident of its job, until a later one is well or runs another spec."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import pytest

from reconciler import incidents
from reconciler.resources import Job
from reconciler.state import Desired, FaultClass, Memory, Observed, Outcome, Plan, RefusedBecause
from reconciler.state.job_steps import EndAttempt
from reconciler.state.jobs import Run, RunReason
from reconciler.state.reports.incident import EntryKind, Incident, title
from reconciler.state.subjects import JobSubject, read
from reconciler.status import Snapshots
from reconciler.store.tables.incidents import _read
from tests.status.jobs import OTHER, TRAIN, failed, job, run, succeeded

SUBJECT = JobSubject(TRAIN)


@dataclass
class Log:
    """The incidents of one job, pass by pass."""

    known: dict[int, Incident] = field(default_factory=dict)
    outcomes: list[tuple[float, Outcome]] = field(default_factory=list)
    now: float = 1_000.0

    def follow(self, *runs: Run, of: Job | None = None, gone: bool = False) -> Incident | None:
        self.now += 1.0
        desired = Desired.of("1", [] if gone else [of or job()])
        memory = Memory(token=0, runs={each.id: each for each in runs})
        snapshots = Snapshots(desired, Observed(), memory, Plan(), self.now)
        self.known = incidents.follow(
            self.known, max(self.known, default=0), snapshots, self.outcomes, statuses={}
        )
        self.outcomes = []
        return next(iter(self.known.values()), None)


def the(found: Incident | None) -> Incident:
    assert found is not None
    return found


def test_a_failed_run_is_one_since_its_end_and_asks_a_person_once() -> None:
    log = Log()
    assert log.follow(run()) is None
    found = the(log.follow(failed()))
    assert (found.fault, found.subject, found.opened_at) == (RunReason.BACKOFF_LIMIT, SUBJECT, 140.0)
    assert "reconciler logs job/train --run 1" in found.person
    assert "reconciler restart job/train" in found.person
    for _ in range(3):
        found = the(log.follow(failed()))
    assert len(found.entries) == 2, "it is told once, and a person is asked once"
    assert len(log.known) == 1


def test_lost_nodes_are_its_own_class_which_later_failures_do_not_hide() -> None:
    log = Log()
    lost = the(log.follow(failed(1, RunReason.NODE_LOSS)))
    assert (lost.fault, title(lost.fault)) == (RunReason.NODE_LOSS, "job that nodes were lost with")
    assert "why nodes were lost" in lost.person
    nightly = job(schedule="0 3 * * *")
    assert the(Log().follow(failed(1, RunReason.NODE_LOSS), of=nightly)).person, "nothing runs by itself"
    later = the(log.follow(failed(1, RunReason.NODE_LOSS), failed(2)))
    assert (later.id, later.fault) == (lost.id, RunReason.NODE_LOSS)


def test_the_next_run_of_a_schedule_needs_nobody_and_ends_it_when_it_succeeds() -> None:
    log, nightly = Log(), job(schedule="0 3 * * *")
    found = the(log.follow(failed(1), of=nightly))
    assert (found.person, found.doing) == ("", "its schedule begins the next run")
    found = the(log.follow(failed(1), run(2), of=nightly))
    assert (found.open, found.doing) == (True, "run 2 is under way")
    found = the(log.follow(failed(1), failed(2), of=nightly))
    assert found.open
    assert [entry.text[:16] for entry in found.entries if entry.kind is EntryKind.SEEN] == [
        "run 1 has failed",
        "run 2 has failed",
    ]
    found = the(log.follow(failed(1), failed(2), succeeded(3), of=nightly))
    assert (found.open, found.closed_at) == (False, 340.0)
    assert the(log.follow(failed(1), failed(2), succeeded(3), of=nightly)).id == found.id


def test_a_run_of_another_spec_ends_it() -> None:
    log = Log()
    log.follow(failed(1))
    nightly = job(schedule="0 3 * * *")
    found = the(log.follow(failed(1), run(2, fingerprint=OTHER), of=nightly))
    assert not found.open
    assert found.entries[-1].text == "run 2 runs another spec"


def test_a_changed_spec_ends_it_although_its_run_has_not_begun_and_setting_it_back_does_too() -> None:
    for change in ((failed(1, fingerprint=OTHER),), (succeeded(1), failed(2, fingerprint=OTHER))):
        log = Log()
        log.follow(failed(change[-1].id.index))
        found = the(log.follow(*change))
        assert (found.open, found.entries[-1].text) == (False, "its spec has changed")


@pytest.mark.parametrize(
    ("gone", "text"), [(True, "job/train is no longer wanted"), (False, "the failed run is forgotten")]
)
def test_it_ends_with_its_job_and_with_what_is_known_of_the_run(gone: bool, text: str) -> None:
    log = Log()
    log.follow(failed())
    found = the(log.follow(*([failed()] if gone else []), gone=gone))
    assert (found.open, found.entries[-1].text) == (False, text)


def test_what_is_done_about_its_runs_is_told() -> None:
    log = Log()
    log.follow(failed(1), of=job(schedule="0 3 * * *"))
    log.outcomes = [(log.now, Outcome(EndAttempt(failed(2)), 0.5))]
    found = the(log.follow(failed(1), failed(2), of=job(schedule="0 3 * * *")))
    assert [entry.text[:27] for entry in found.entries if entry.kind is EntryKind.TRIED] == [
        "end attempt 1 of job/train/"
    ]


def test_subjects_and_classes_are_read_as_they_were_written(tmp_path: Path) -> None:
    from reconciler.store.bodies import written

    found = the(Log().follow(failed(1, RunReason.NODE_LOSS)))
    assert _read((written(found),)) == found
    assert read(str(SUBJECT)) == SUBJECT
    names = [{each.value for each in of} for of in (FaultClass, RefusedBecause, RunReason)]
    shared = (names[0] & names[1]) | (names[0] & names[2]) | (names[1] & names[2])
    assert shared <= {RunReason.NODE_LOSS.value}, (
        "a job is refused for it too, which is no incident of its own"
    )
