"""Decides how long nodes keep logs, working directories and records of the ranks of jobs."""

from __future__ import annotations

from reconciler.planning.context.decision import NOTHING, Decision
from reconciler.planning.context.world import World
from reconciler.planning.nodes import leftovers
from reconciler.state import ForgetRank, JobName, NodeName, ObservedRank, RunId
from reconciler.state.jobs import Fetched, Run

from . import runs

ATTEMPTS_KEPT = 3
"""Attempts of a run whose logs stay on the nodes, the current one included."""


def forget(world: World, name: NodeName) -> Decision:
    """Remove from a node what is no longer kept of ended ranks. The record of each job's last attempt that had
    ranks stays as long as its manifest: from it, a controller without a store knows that the job has run."""
    if world.desired.stopping or not world.seen_since_last_write(name):
        return NOTHING
    steps = tuple(
        step
        for rank in world.observed.ranks_on(name)
        if not rank.alive and not leftovers.has_leftovers(rank)
        if (step := _forgotten(world, name, rank)) is not None and step.subject not in world.memory.in_flight
    )
    return Decision(steps=steps) if steps else NOTHING


def _forgotten(world: World, node: NodeName, rank: ObservedRank) -> ForgetRank | None:
    id, report = rank.workload, rank.report
    if not isinstance(id, RunId):
        return None
    job, run = world.desired.jobs.get(id.job), world.memory.runs.get(id)
    whole = ForgetRank(id, node, report.id)
    if run is None:
        return whole if job is None else None
    newest = max(each.report.id.epoch for each in world.observed.ranks_of(id))
    if run.ended is None:
        old = report.id.epoch <= _epoch(world, run) - ATTEMPTS_KEPT
        return whole if old and report.id.epoch < newest else None
    if run.artifacts.state is Fetched.PENDING:
        return None
    ttl = job.spec.ttl_after_finished if job is not None else 0.0
    if world.now - run.ended.at < ttl and id not in world.once(runs.old):
        return None
    if job is None or report.id.epoch < newest or id != world.once(_last_with_ranks)[id.job]:
        return whole
    return None if report.pruned else ForgetRank(id, node, report.id, keep_record=True)


def _last_with_ranks(world: World) -> dict[JobName, RunId]:
    """Return the newest run of each job that nodes have ranks of."""
    found = sorted({id for rank in world.observed.ranks() if isinstance(id := rank.workload, RunId)})
    return {id.job: id for id in found}


def _epoch(world: World, run: Run) -> int:
    record = world.memory.groups.get(run.id)
    return record.epoch if record is not None else max((each.epoch for each in run.attempts), default=0)
