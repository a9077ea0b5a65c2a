"""Decides about a job: when a run begins, and what is done about the one that has."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from reconciler.errors import few_names
from reconciler.planning.context.decision import NOTHING, Decision, wait
from reconciler.planning.context.lost_nodes import is_lost, unreported
from reconciler.planning.context.reservations import Reservations
from reconciler.planning.context.world import World
from reconciler.resources import Job
from reconciler.resources.operation import written_moment
from reconciler.state import GroupRecord, JobName, ObjectKey, Refusal, RefusedBecause, RunId, WaitingFor
from reconciler.state.job_steps import CreateRun, FetchArtifacts, RemoveRuns
from reconciler.state.jobs import AttemptEnd, Fetched, Run, RunAttempt, RunReason

from . import adopt, ladder, schedule
from .view import hash_of, look

ARTIFACTS_SECONDS = 900.0
"""Time after the end of a run for which its artifacts are waited for on nodes that give no answer."""
RUNS_KEPT = 100
"""Runs of a job that are remembered after their end: a spec that ran longer ago than these may run again."""


def names(world: World) -> list[JobName]:
    """List the jobs that are wanted, that have a run that has not ended or whose artifacts are not fetched, or that nodes
    have ranks of."""
    unfinished = (run for run in world.memory.runs.values() if run.ended is None or _unfetched(run))
    found = {run.id.job for run in unfinished}
    found |= {id.job for id in world.memory.groups if isinstance(id, RunId)}
    found |= {
        id.job for rank in world.observed.ranks() if isinstance(id := rank.workload, RunId) and rank.alive
    }
    return sorted(found | world.desired.jobs.keys())


def decide(taken: Reservations, name: JobName) -> Decision:
    """Decide about the runs of one job."""
    world = taken.world
    runs = of_job(world, name)
    if any(f"job/{name}/{index}" in world.memory.in_flight for index in _unknown(world, name)):
        return wait(ObjectKey("Job", name), WaitingFor.STEP, f"job/{name}: a step is being executed")
    for unknown in adopt.unknown(world, name):
        return adopt.adopt(world, unknown)
    active = [run for run in runs if run.ended is None]
    found = NOTHING
    for run in active:
        found += ladder.decide(look(world, taken.ledger, run))
    for run in runs:
        found += _artifacts(world, run)
    return found + _forgotten(world, name, runs) + (NOTHING if active else _next(taken, name, runs))


def of_job(world: World, name: JobName) -> list[Run]:
    """Return the runs of a job, oldest first."""
    return world.once(_by_job).get(name, [])


def old(world: World) -> frozenset[RunId]:
    """Return the runs that are not remembered any longer: all that have ended but the newest of each job."""
    ended = ([run.id for run in runs if run.ended is not None] for runs in world.once(_by_job).values())
    return frozenset(id for ids in ended for id in ids[:-RUNS_KEPT])


def _by_job(world: World) -> dict[JobName, list[Run]]:
    found: dict[JobName, list[Run]] = {}
    for id, run in sorted(world.memory.runs.items()):
        found.setdefault(id.job, []).append(run)
    return found


def _unknown(world: World, name: JobName) -> list[int]:
    return [each.index for each in adopt.unknown(world, name)]


def _next(taken: Reservations, name: JobName, runs: Sequence[Run]) -> Decision:
    """Begin the next run, if one is due."""
    world = taken.world
    job = world.desired.jobs.get(name)
    if job is None or world.desired.stopping or job.spec.suspend:
        return NOTHING
    mark = hash_of(world, job)
    if job.spec.schedule is None:
        if any(run.fingerprint == mark for run in runs):
            return NOTHING
        return _begin(taken, job, runs, None)
    last = runs[-1] if runs else None
    if (
        last is not None
        and last.ended
        and last.ended.reason is RunReason.NODE_LOSS
        and last.fingerprint == mark
    ):
        return Decision(refused=(_harmful(job, last),))
    due = schedule.due(world, job, runs)
    return NOTHING if due is None else _begin(taken, job, runs, due)


def _begin(taken: Reservations, job: Job, runs: Sequence[Run], due: float | None) -> Decision:
    """Write the next run, with its first attempt if there are nodes for it."""
    world, name = taken.world, JobName(job.metadata.name)
    key = ObjectKey("Job", name)
    silent = world.once(unreported)
    if silent:
        text = f"job/{name}: no answer yet from {few_names(silent)}, which may know of an earlier run"
        return wait(key, WaitingFor.AGENT, text)
    known = [id.index for id in world.memory.last_epochs if isinstance(id, RunId) and id.job == name]
    index = max([0, *(run.id.index for run in runs), *known]) + 1
    run = Run(RunId(name, index), hash_of(world, job), world.now, due)
    why = "its manifest asks for it" if due is None else f"scheduled for {written_moment(due)}"
    found = ladder.place(look(world, taken.ledger, run), job)
    if not isinstance(found, GroupRecord):
        return Decision(steps=(CreateRun(run, why),)) + ladder.without_nodes(found)
    return Decision(steps=(CreateRun(replace(run, started_at=world.now), why, found),))


def _harmful(job: Job, last: Run) -> Refusal:
    assert last.ended is not None
    name = job.metadata.name
    text = f"job/{name}: nodes were lost twice while {last.id} ran ({last.ended.text}); it is not scheduled again"
    person = f"correct the program, or run it again: reconciler restart job/{name}"
    return Refusal(ObjectKey("Job", name), RefusedBecause.NODE_LOSS, text, None, person)


def _unfetched(run: Run) -> bool:
    return run.artifacts.state is Fetched.PENDING and bool(run.attempts)


def _had_ranks(attempt: RunAttempt) -> bool:
    """Return whether ranks of an attempt have started. One without was ended while it waited."""
    lost = (AttemptEnd.NODE_LOST, AttemptEnd.RANK_MISSING, AttemptEnd.STORE_LOST)
    return attempt.end in lost or any(rank.exit is not None for rank in attempt.ranks)


def _artifacts(world: World, run: Run) -> Decision:
    """Fetch what an ended run has left on its nodes."""
    if run.ended is None or not _unfetched(run):
        return NOTHING
    last = next(filter(_had_ranks, reversed(run.attempts)), run.attempts[-1])
    nodes = tuple(each.node for each in last.ranks)
    waits = world.now - run.ended.at < ARTIFACTS_SECONDS and not any(is_lost(world, name) for name in nodes)
    step = FetchArtifacts(run, nodes, last.epoch, waits)
    return NOTHING if step.subject in world.memory.in_flight else Decision(steps=(step,))


def _forgotten(world: World, name: JobName, runs: Sequence[Run]) -> Decision:
    """Forget old runs, but none that a node would bring back: its ranks are forgotten first."""
    gone = tuple(run.id for run in runs if run.id in world.once(old) and not world.observed.ranks_of(run.id))
    if not gone or f"runs/{name}" in world.memory.in_flight:
        return NOTHING
    return Decision(steps=(RemoveRuns(gone),))
