"""Says when a job is due for its next run."""

from __future__ import annotations

import math
from collections.abc import Sequence

from reconciler.planning.context.world import World
from reconciler.resources import Job
from reconciler.resources.operation import written_moment
from reconciler.resources.schedules import next_begin
from reconciler.state import ObjectKey
from reconciler.state.jobs import Run, RunReason

from .view import hash_of

RESOLUTION_SECONDS = 30.0
"""Less than two times of a schedule lie apart."""


def due(world: World, job: Job, runs: Sequence[Run]) -> float | None:
    """Return the newest time of the schedule that a run is due for, in seconds since the Unix epoch; None if none is.

    A time counts if it is later than the job itself and than every time of an earlier run, did not come while a run was in
    progress, and is not longer ago than ``startingDeadline``. The time of a run that never had nodes is due again if the
    spec is another one now.
    """
    spec, now = job.spec, world.now
    assert spec.schedule is not None
    if spec.suspend:
        return None
    known = [_created(world, job), now - spec.starting_deadline]
    known += [each.scheduled_at for each in runs if each.scheduled_at is not None]
    made_way = spec.concurrency_policy == "Replace"
    known += [
        each.ended.at
        for each in runs
        if each.ended is not None and not (made_way and each.ended.reason is RunReason.REPLACED)
    ]
    newest = _newest(spec.schedule, spec.time_zone, max(known), now)
    return _of_waiting(runs[-1], hash_of(world, job)) if newest is None and runs else newest


def _of_waiting(run: Run, mark: str) -> float | None:
    """Return the time of a run that has ended without nodes because its spec was changed; None of any other run."""
    changed = run.ended is not None and run.ended.reason is RunReason.REPLACED and run.fingerprint != mark
    return run.scheduled_at if changed and run.started_at is None else None


def _newest(schedule: str, zone: str, after: float, now: float) -> float | None:
    """Return the newest time of a schedule after one moment and until another; None if there is none."""
    found = next_begin(schedule, zone, after)
    if found > now:
        return None
    none_after = now
    while none_after - found > RESOLUTION_SECONDS:
        middle = (found + none_after) / 2
        at = next_begin(schedule, zone, middle)
        if at > now:
            none_after = middle
        else:
            found = at
    return found


def next_at(job: Job, now: float) -> float | None:
    """Return when a run is due next; None if never."""
    if job.spec.schedule is None or job.spec.suspend:
        return None
    at = next_begin(job.spec.schedule, job.spec.time_zone, now)
    return at if at < math.inf else None


def replaced(world: World, job: Job, run: Run, complete: bool) -> str:
    """Say why another run takes the place of this one; empty if none does.

    ``complete``: all ranks of its attempt have started. With a schedule, such an attempt goes on although the spec has
    changed, and the next run has the new spec. No rank is started for a run with another spec than its own.
    """
    changed = "" if run.fingerprint == hash_of(world, job) else "its manifest has changed"
    if job.spec.schedule is None:
        twin = next((id for id, each in world.memory.runs.items() if _runs_the_same(each, run)), None)
        if twin is not None:
            return f"{twin} runs the same: it was begun by a controller without this store"
        return changed
    if changed and not complete:
        return changed
    if job.spec.concurrency_policy != "Replace" or run.scheduled_at is None:
        return ""
    later = due(world, job, (run,))
    return "" if later is None else f"the next run is due since {written_moment(later)}"


def _runs_the_same(later: Run, run: Run) -> bool:
    same = later.id.job == run.id.job and later.fingerprint == run.fingerprint
    return same and later.id.index > run.id.index


def _created(world: World, job: Job) -> float:
    return world.desired.created.get(ObjectKey("Job", job.metadata.name), world.now)
