"""Jobs whose last run has failed, although no machine and no group is at fault. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from reconciler.state import JobName, Sign
from reconciler.state.identity import ObjectKey
from reconciler.state.jobs import Run, RunReason, RunResult
from reconciler.state.subjects import JobSubject
from reconciler.wire.launch import RankId

from .job import current
from .snapshots import Snapshots


@dataclass(frozen=True, slots=True)
class FailedRun:
    """A run that has failed, and that no later one makes good. It is read as a ``Trouble`` is."""

    run: Run
    fault: RunReason
    since: float
    """Time of its end, in seconds since the Unix epoch."""
    seen: str
    doing: str
    """The next thing that happens by itself; empty if nothing does."""
    person: str
    """The steps that only a person can take; empty if another run begins by itself."""
    rank: RankId | None = None
    """None: its attempts have their own events."""

    @property
    def object(self) -> ObjectKey:
        return self.run.id.key

    @property
    def subject(self) -> JobSubject:
        return JobSubject(self.run.id.job)

    @property
    def sign(self) -> Sign:
        return self.fault.value, str(self.run.id.index)


def failed_runs(snapshots: Snapshots) -> Iterator[FailedRun]:
    """Yield the run that has failed, for each job in force.

    Without a schedule, it is the run of the manifest as it is now. With a schedule, it is the newest failed run, unless
    a later run has succeeded or has another spec.
    """
    for name, job in sorted(snapshots.desired.jobs.items()):
        runs = snapshots.memory.runs_of(name)
        failed = current(name, snapshots)
        if job.spec.schedule is not None:
            failed = next((run for run in reversed(runs) if _failed(run)), None)
        if failed is None or failed.ended is None or not _failed(failed):
            continue
        if job.spec.schedule is not None and makes_good(failed, runs) is not None:
            continue
        doing, person = _next(name, failed, runs[-1], snapshots)
        end = failed.ended
        yield FailedRun(
            failed, end.reason, end.at, f"run {failed.id.index} has failed: {end.text}", doing, person
        )


def makes_good(failed: Run, runs: Sequence[Run]) -> Run | None:
    """Return the first later run that has succeeded, or that runs another spec; None if there is none."""
    later = (run for run in runs if run.id.index > failed.id.index)
    return next((run for run in later if _succeeded(run) or run.fingerprint != failed.fingerprint), None)


def _failed(run: Run) -> bool:
    return run.ended is not None and run.ended.result is RunResult.FAILED


def _succeeded(run: Run) -> bool:
    return run.ended is not None and run.ended.result is RunResult.SUCCEEDED


def _next(name: JobName, failed: Run, newest: Run, snapshots: Snapshots) -> tuple[str, str]:
    """Return what follows by itself, and the steps for a person."""
    spec, number = snapshots.desired.jobs[name].spec, failed.id.index
    lost = failed.ended is not None and failed.ended.reason is RunReason.NODE_LOSS
    if newest.ended is None:
        return f"run {newest.id.index} is under way", ""
    if spec.schedule and not spec.suspend and not lost:
        return "its schedule begins the next run", ""
    look = f"reconciler logs job/{name} --run {number}"
    if lost:
        return "", (
            f"find out why nodes were lost while it ran: {look}, and reconciler incidents; nothing runs again by"
            f" itself; to run it: reconciler restart job/{name}"
        )
    return (
        "",
        f"read its output: {look}; then change the job, or run it again: reconciler restart job/{name}",
    )
