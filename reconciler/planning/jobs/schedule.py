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

MISSED_MAX = 200
"""Most missed beginnings to look at: with more, the one that is found is late, and the next one comes soon."""


def due(world: World, job: Job, runs: Sequence[Run]) -> float | None:
    """Return the newest time of the schedule that a run is due for, in seconds since the Unix epoch; None if none is.

    A time counts if it is later than the job itself and than every time of an earlier run, did not come while a run was in
    progress, and is not longer ago than ``startingDeadline``.
    """
    spec, now = job.spec, world.now
    assert spec.schedule is not None
    if spec.suspend:
        return None
    known = [_created(world, job), now - spec.starting_deadline]
    known += [each.scheduled_at for each in runs if each.scheduled_at is not None]
    known += [
        each.ended.at
        for each in runs
        if each.ended is not None and each.ended.reason is not RunReason.REPLACED
    ]
    found: float | None = None
    at = max(known)
    for _ in range(MISSED_MAX):
        at = next_begin(spec.schedule, spec.time_zone, at)
        if at > now:
            break
        found = at
    return found


def next_at(job: Job, now: float) -> float | None:
    """Return when a run is due next; None if never."""
    if job.spec.schedule is None or job.spec.suspend:
        return None
    at = next_begin(job.spec.schedule, job.spec.time_zone, now)
    return at if at < math.inf else None


def replaced(world: World, job: Job, run: Run) -> str:
    """Say why another run takes the place of this one; empty if none does."""
    if job.spec.schedule is None:
        twin = next((id for id, each in world.memory.runs.items() if _runs_the_same(each, run)), None)
        if twin is not None:
            return f"{twin} runs the same: it was begun by a controller without this store"
        return "" if run.fingerprint == hash_of(world, job) else "its manifest has changed"
    if job.spec.concurrency_policy != "Replace" or run.scheduled_at is None:
        return ""
    later = due(world, job, (run,))
    return "" if later is None else f"the next run is due since {written_moment(later)}"


def _runs_the_same(later: Run, run: Run) -> bool:
    same = later.id.job == run.id.job and later.fingerprint == run.fingerprint
    return same and later.id.index > run.id.index


def _created(world: World, job: Job) -> float:
    return world.desired.created.get(ObjectKey("Job", job.metadata.name), world.now)
