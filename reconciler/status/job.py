"""The readiness of a Job, its conditions, and its runs with their attempts."""

from __future__ import annotations

import math

from reconciler.resources import Job
from reconciler.resources.schedules import next_begin
from reconciler.state import Desired, GroupRecord, JobName, Observed, WaitingFor
from reconciler.state.identity import ObjectKey
from reconciler.state.job_fingerprint import fingerprint
from reconciler.state.jobs import COUNTED, Run, RunAttempt, RunResult
from reconciler.wire import objects
from reconciler.wire.launch import Exit, Phase
from reconciler.wire.objects import JobState

from .snapshots import ConditionState, Readiness, Snapshots

RUNS_SHOWN = 20
"""The newest runs of a job that its status has."""
ATTEMPTS_SHOWN = 10
"""The newest attempts of a run that its status has."""

COMPLETE, FAILED, SUSPENDED = "Complete", "Failed", "Suspended"
"""Types of conditions that only Jobs have."""


class _Attempt(objects.AttemptFields):
    """As the store keeps it, with times in seconds since the Unix epoch."""

    startedAt: float  # noqa: N815 - a field of the wire
    endedAt: float | None  # noqa: N815 - a field of the wire


class _Run(objects.RunFields):
    """The same of a run."""

    createdAt: float  # noqa: N815 - a field of the wire
    scheduledAt: float | None  # noqa: N815 - a field of the wire
    startedAt: float | None  # noqa: N815 - a field of the wire
    endedAt: float | None  # noqa: N815 - a field of the wire
    attempts: list[_Attempt]


class _Fields(objects.JobSummary):
    """The same of a job."""

    startedAt: float | None  # noqa: N815 - a field of the wire
    endedAt: float | None  # noqa: N815 - a field of the wire
    nextSchedule: float | None  # noqa: N815 - a field of the wire
    runs: list[_Run]


def readiness(name: str, snapshots: Snapshots) -> Readiness:
    """Return ready for a job that runs, has succeeded, or ended or waits as a person has asked."""
    job, run = snapshots.desired.jobs[JobName(name)], current(JobName(name), snapshots)
    state = _state(run, job, snapshots)
    known = snapshots.memory.runs_of(JobName(name))[-RUNS_SHOWN:]
    extra = _fields(job, state, _run(run, job, snapshots) if run else None, snapshots.now)
    extra["runs"] = [_run(each, job, snapshots) for each in known]
    ready = state not in (JobState.PENDING, JobState.FAILED)
    if run is None:
        return Readiness(ready, state, _NO_RUN[state], extra)
    text = f"run {run.id.index} {_sentence(run, state, snapshots)}"
    failed = run.ended is not None and state == JobState.FAILED
    return Readiness(ready, run.ended.reason.value if failed and run.ended else state, text, extra)


_NO_RUN = {
    JobState.PENDING: "its run has not begun yet",
    JobState.SCHEDULED: "its schedule begins its next run",
    JobState.SUSPENDED: "spec.suspend is true",
}
"""The texts of a job that has no run, or whose next one has not begun."""


def conditions(name: str, snapshots: Snapshots) -> tuple[ConditionState, ...]:
    """Return the conditions that only Jobs have. They are about its current run."""
    job = snapshots.desired.jobs.get(JobName(name))
    if ObjectKey("Job", name) in snapshots.memory.leaving or job is None:
        return ()
    run = current(JobName(name), snapshots)
    state = _state(run, job, snapshots)
    ended = run.ended if run is not None else None
    reason, text = (ended.reason.value, f"run {run.id.index}: {ended.text}") if run and ended else (state, "")
    return (
        ConditionState(COMPLETE, state == JobState.SUCCEEDED, reason, text),
        ConditionState(FAILED, state == JobState.FAILED, reason, text),
        ConditionState(SUSPENDED, state == JobState.SUSPENDED, state, ""),
    )


def exit_text(ended: Exit | None) -> str | None:
    """Return an end as Slurm writes it, ``code:signal``; None if it is not known."""
    return None if ended is None else f"{ended.code or 0}:{ended.signal or 0}"


# --- its runs ----------------------------------------------------------------------------------------


def current(name: JobName, snapshots: Snapshots) -> Run | None:
    """Return the run that a job is judged by: with a schedule the newest; without one, that of its manifest as it is now.
    None if there is none yet."""
    job, runs = snapshots.desired.jobs[name], snapshots.memory.runs_of(name)
    if job.spec.schedule is not None:
        return runs[-1] if runs else None
    mark = snapshots.desired.once(_fingerprint, name)
    return next((run for run in reversed(runs) if run.fingerprint == mark), None)


def _fingerprint(desired: Desired, name: JobName) -> str:
    return fingerprint(desired.jobs[name])


def _state(run: Run | None, job: Job, snapshots: Snapshots) -> str:
    if run is None:
        if job.spec.suspend:
            return JobState.SUSPENDED
        return JobState.SCHEDULED if job.spec.schedule else JobState.PENDING
    if run.ended is not None:
        return run.ended.result.value
    if _runs(run, snapshots):
        return JobState.RUNNING
    return JobState.SUSPENDED if run.suspended_at is not None or job.spec.suspend else JobState.PENDING


_UNKNOWN = (WaitingFor.AGENT, WaitingFor.OBSERVATION, WaitingFor.STEP)
"""Waits that tell nothing of whether ranks run."""


def _runs(run: Run, snapshots: Snapshots) -> bool:
    """Return whether an attempt runs. One that was placed may still wait, such as after a failure, or for others to leave."""
    record = snapshots.memory.groups.get(run.id)
    if record is None:
        return False
    own = (each.reason for each in snapshots.plan.waiting if each.workload == run.id)
    return bool(snapshots.observed.group(record)) or all(reason in _UNKNOWN for reason in own)


def _sentence(run: Run, state: str, snapshots: Snapshots) -> str:
    """Return the state of a run, for people."""
    record = snapshots.memory.groups.get(run.id)
    if run.ended is not None:
        verb = {RunResult.SUCCEEDED: "has succeeded", RunResult.FAILED: "has failed"}
        said = verb.get(run.ended.result, "was cancelled")
        return f"{said}: {run.ended.text}" if run.ended.text else said
    if record is not None and state == JobState.RUNNING:
        return f"runs on {', '.join(record.members)}"
    if state == JobState.SUSPENDED:
        return "is suspended"
    if run.attempts:
        return f"waits for its next attempt: {run.attempts[-1].text}"
    on = f" {', '.join(record.members)}" if record is not None else ""
    return f"waits for its nodes{on}"


def _fields(job: Job, state: str, run: _Run | None, now: float) -> _Fields:
    """Return the fields of a job, which are those of a run if there is one."""
    spec = job.spec
    begin = next_begin(spec.schedule, spec.time_zone, now) if spec.schedule and not spec.suspend else math.inf
    attempts = run["attempts"] if run else []
    return {
        "state": state,
        "run": run["run"] if run else 0,
        "attempt": run["attempt"] if run else 0,
        "attemptsMax": spec.backoff_limit + 1,
        "nodes": [each["node"] for each in attempts[-1]["ranks"]] if attempts else [],
        "exit": run["exit"] if run else None,
        "seconds": run["seconds"] if run else None,
        "startedAt": run["startedAt"] if run else None,
        "endedAt": run["endedAt"] if run else None,
        "nextSchedule": None if math.isinf(begin) else begin,
        "runs": [],
    }


def _run(run: Run, job: Job, snapshots: Snapshots) -> _Run:
    record, ended = snapshots.memory.groups.get(run.id), run.ended
    attempts = [_ended(number, each) for number, each in enumerate(run.attempts, 1)]
    if record is not None:
        unseen = Phase.STARTING if _runs(run, snapshots) else objects.WAITING
        attempts.append(_running(len(attempts) + 1, record, snapshots.observed, unseen))
    state = _state(run, job, snapshots)
    took = round(ended.at - run.started_at, 3) if ended and run.started_at is not None else None
    return {
        "run": run.id.index,
        "state": state,
        "reason": ended.reason.value if ended else state,
        "text": ended.text if ended else _sentence(run, state, snapshots),
        "attempt": _tries(run, record),
        "exit": _exit(run.attempts[-1]) if run.attempts and record is None else None,
        "seconds": took,
        "artifacts": {
            "state": run.artifacts.state.value,
            "files": run.artifacts.files,
            "bytes": run.artifacts.size,
            "text": run.artifacts.text,
        },
        "createdAt": run.created_at,
        "scheduledAt": run.scheduled_at,
        "startedAt": run.started_at,
        "endedAt": ended.at if ended else None,
        "attempts": attempts[-ATTEMPTS_SHOWN:],
        "attemptsLeftOut": max(0, len(attempts) - ATTEMPTS_SHOWN),
    }


def _tries(run: Run, record: GroupRecord | None) -> int:
    """Return the number of the attempt that counts against ``backoffLimit``: one that ended because of a drain or a lost
    node is the same as the one after it."""
    uncounted = record is not None or any(each.end not in COUNTED for each in run.attempts[-1:])
    return run.failures + uncounted


def _ended(number: int, attempt: RunAttempt) -> _Attempt:
    ranks: list[objects.JobRank] = [
        {
            "rank": rank,
            "node": each.node,
            "phase": Phase.EXITED,
            "exit": exit_text(each.exit),
            "text": each.exit.detail if each.exit else "",
        }
        for rank, each in enumerate(attempt.ranks)
    ]
    return {
        "number": number,
        "epoch": attempt.epoch,
        "end": attempt.end.value,
        "text": attempt.text,
        "transport": attempt.transport,
        "ranks": ranks,
        "startedAt": attempt.started_at,
        "endedAt": attempt.ended_at,
    }


def _running(number: int, record: GroupRecord, observed: Observed, unseen: str) -> _Attempt:
    """Return the attempt that has not ended. ``unseen``: the phase of ranks that no node has reported."""
    seen = observed.group(record)
    ranks: list[objects.JobRank] = [
        {
            "rank": rank,
            "node": node,
            "phase": seen[rank].report.phase if rank in seen else unseen,
            "exit": exit_text(seen[rank].report.exit) if rank in seen else None,
            "text": seen[rank].report.detail if rank in seen else "",
        }
        for rank, node in enumerate(record.members)
    ]
    return {
        "number": number,
        "epoch": record.epoch,
        "end": None,
        "text": "",
        "transport": record.transport,
        "ranks": ranks,
        "startedAt": record.created_at,
        "endedAt": None,
    }


def _exit(attempt: RunAttempt) -> str | None:
    """Return the exit of the rank to blame: the first one that failed by itself, or else the first one that failed."""
    known = [rank.exit for rank in attempt.ranks if rank.exit is not None]
    failed = [each for each in known if each.code != 0]
    first = min(failed or known, key=lambda each: (each.killed_after is not None, each.at), default=None)
    return exit_text(first)
