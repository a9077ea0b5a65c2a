"""Runs that the store does not know, because it was lost, replaced by an older copy, or never had them.

Nodes keep the records of the ranks of each job's last attempt. From their reports a run is known again: one that has ended
does not begin again, and one that goes on is not disturbed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from reconciler.planning.context.decision import NOTHING, Decision
from reconciler.planning.context.world import World
from reconciler.state import GroupRecord, JobName, ObservedRank, RunId
from reconciler.state.job_steps import CreateRun
from reconciler.state.jobs import AttemptEnd, RankEnd, Run, RunAttempt


def unknown(world: World, name: JobName) -> list[RunId]:
    """List the runs of a job that nodes have ranks of and the store does not know, oldest first."""
    seen = {rank.workload for rank in world.observed.ranks()}
    return sorted(
        each
        for each in seen
        if isinstance(each, RunId) and each.job == name and each not in world.memory.runs
    )


def adopt(world: World, run: RunId) -> Decision:
    """Write a run that nodes know, and its attempt if all of its ranks are known; later rules judge how it ended."""
    if not all(world.seen_since_last_write(rank.node) for rank in world.observed.ranks_of(run)):
        return NOTHING
    ranks = _newest(world.observed.ranks_of(run))
    first = ranks[0].report
    begun = min(rank.report.started_at - rank.skew_seconds for rank in ranks)
    found = Run(run, first.group, begun, started_at=begun)
    why = f"nodes know of it, and the store does not: {', '.join(rank.title for rank in ranks)}"
    if [rank.report.id.rank for rank in ranks] == list(range(first.size)) and first.port:
        group = _group(world, run, ranks, begun)
        return Decision(steps=(CreateRun(found, why, group),))
    attempt = RunAttempt(
        first.id.epoch,
        begun,
        world.now,
        AttemptEnd.STORE_LOST,
        f"{len(ranks)} of {first.size} ranks are known",
        tuple(RankEnd(rank.node, rank.report.exit) for rank in ranks),
        first.transport,
    )
    return Decision(steps=(CreateRun(replace(found, attempts=(attempt,)), why),))


def _newest(ranks: Iterable[ObservedRank]) -> list[ObservedRank]:
    """Return the ranks of the newest attempt, in order. Of two with one number, the living one counts."""
    ranks = tuple(ranks)
    newest = max(rank.report.id.epoch for rank in ranks)
    by_number: dict[int, ObservedRank] = {}
    for rank in sorted(ranks, key=lambda each: each.alive):
        if rank.report.id.epoch == newest:
            by_number[rank.report.id.rank] = rank
    return [by_number[number] for number in sorted(by_number)]


def _group(world: World, run: RunId, ranks: Sequence[ObservedRank], begun: float) -> GroupRecord:
    first, needs = ranks[0].report, tuple(rank.report.memory_bytes for rank in ranks)
    members = tuple(rank.node for rank in ranks)
    return GroupRecord(
        workload=run,
        epoch=first.id.epoch,
        members=members,
        port=first.port,
        secret="",
        fingerprint=first.group,
        created_at=begun,
        rank_bytes=max(needs),
        needs=needs if len(set(needs)) > 1 else (),
        transport=first.transport,
        boots=tuple(world.boot(name) for name in members),
    )
