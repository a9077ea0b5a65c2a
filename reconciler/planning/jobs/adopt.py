"""Runs that the store does not know, because it was lost, replaced by an older copy, or never had them.

Nodes keep the records of the ranks of each job's last attempt. From their reports a run is known again: one that has ended
does not begin again, and one that goes on is not disturbed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from reconciler.errors import few_names
from reconciler.planning.context.decision import Decision, wait
from reconciler.planning.context.lost_nodes import unreported
from reconciler.planning.context.unseen import report_awaited
from reconciler.planning.context.world import World
from reconciler.state import GroupRecord, JobName, ObservedRank, RunId, WaitingFor
from reconciler.state.job_steps import CreateRun
from reconciler.state.jobs import AttemptEnd, RankEnd, Run, RunAttempt, RunEnd, RunReason, RunResult

from .history import History
from .verdict import verdict


def unknown(world: World, name: JobName) -> list[RunId]:
    """List the runs of a job that nodes have ranks of, or that have a group, and that the store does not know, oldest first."""
    seen = {rank.workload for rank in world.observed.ranks()} | world.memory.groups.keys()
    return sorted(
        each
        for each in seen
        if isinstance(each, RunId) and each.job == name and each not in world.memory.runs
    )


def adopt(world: World, run: RunId) -> Decision:
    """Write a run that nodes know, and its attempt if all of its ranks are known; later rules judge how it ended. Nodes
    that are lost are not waited for."""
    seen = world.observed.ranks_of(run)
    awaited = report_awaited(world, run, (rank.node for rank in seen))
    if awaited is not None:
        return awaited
    record = world.memory.groups.get(run)
    if record is not None:
        return Decision(
            steps=(CreateRun(_of_group(world, record, run), "its group is known, and it is not"),)
        )
    ranks = _newest(seen)
    first = ranks[0].report
    begun = _begun(ranks)
    history = History.parse(first.formed_for) or History(begun)
    found = history.run(run, first.group, first.id.epoch)
    why = f"nodes know of it, and the store does not: {', '.join(rank.title for rank in ranks)}"
    if (known := group(world, run, seen)) is not None:
        return Decision(steps=(CreateRun(found, why, known),))
    if silent := world.once(unreported):
        text = f"{run}: no answer yet from {few_names(silent)}, which may know the other ranks of its attempt"
        return wait(run.key, WaitingFor.AGENT, text)
    return Decision(steps=(CreateRun(_partly_known(world, found, ranks, begun), why),))


def _partly_known(world: World, run: Run, ranks: Sequence[ObservedRank], begun: float) -> Run:
    """Return a run with an attempt of which some ranks are known. If these have ended with 0, the run has succeeded: it is not
    run twice because a node is gone. If one has failed, it failed."""
    first, over = ranks[0].report, not any(rank.alive for rank in ranks)
    bad = next((rank for rank in ranks if not rank.orderly), None)
    text = f"{len(ranks)} of {first.size} ranks are known"
    end = AttemptEnd.STORE_LOST
    if over:
        text += f"; {bad.ending}" if bad else ", and ended with 0"
        end = AttemptEnd.RANK_FAILED if bad else AttemptEnd.COMPLETED
    ends = tuple(RankEnd(rank.node, rank.report.exit) for rank in ranks)
    attempt = RunAttempt(first.id.epoch, begun, world.now, end, text, ends, first.transport)
    run = replace(run, attempts=(*run.attempts, attempt))
    if not over:
        return run
    result = (
        verdict(world.desired.jobs.get(run.id.job), run)
        if bad
        else (RunResult.SUCCEEDED, RunReason.COMPLETED)
    )
    if result is None and any(rank.report.pruned for rank in ranks):  # which nothing but an ended run is
        result = RunResult.FAILED, RunReason.BACKOFF_LIMIT
    return run if result is None else replace(run, ended=RunEnd(*result, world.now, text))


def _of_group(world: World, record: GroupRecord, run: RunId) -> Run:
    """Return the run of an attempt that the store knows."""
    texts = (rank.report.formed_for for rank in world.observed.group(record).values())
    history = next(filter(None, map(History.parse, texts)), History(record.created_at))
    return history.run(run, record.fingerprint, record.epoch)


def group(world: World, run: RunId, seen: Iterable[ObservedRank]) -> GroupRecord | None:
    """Return the record of the newest attempt among these ranks; None unless nodes know all of its ranks."""
    ranks = _newest(seen)
    if not ranks:
        return None
    first, needs = ranks[0].report, tuple(rank.report.memory_bytes for rank in ranks)
    if [rank.report.id.rank for rank in ranks] != list(range(first.size)) or not first.port:
        return None
    history, members = History.parse(first.formed_for), tuple(rank.node for rank in ranks)
    return GroupRecord(
        workload=run,
        epoch=first.id.epoch,
        members=members,
        port=first.port,
        secret="",
        fingerprint=first.group,
        created_at=_begun(ranks),
        rank_bytes=max(needs),
        needs=needs if len(set(needs)) > 1 else (),
        transport=first.transport,
        boots=history.boots if history else tuple(world.boot(name) for name in members),
    )


def _newest(seen: Iterable[ObservedRank]) -> list[ObservedRank]:
    """Return the ranks of the newest attempt, in order. Of two with one number, the living one counts."""
    ranks = tuple(seen)
    newest = max((rank.report.id.epoch for rank in ranks), default=0)
    by_number: dict[int, ObservedRank] = {}
    for rank in sorted(ranks, key=lambda each: each.alive):
        if rank.report.id.epoch == newest:
            by_number[rank.report.id.rank] = rank
    return [by_number[number] for number in sorted(by_number)]


def _begun(ranks: Sequence[ObservedRank]) -> float:
    return min(rank.report.started_at - rank.skew_seconds for rank in ranks)
