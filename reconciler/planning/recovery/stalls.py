"""Finds groups that make no progress: a stopped rank is continued, one that is silent for too long is given up.

A group hangs when it makes no progress while work is pending. CPU load is no signal, because MLX spins. The node of a
rank measures its silence, so the controller's clock and restarts do not matter. Only a rank that was just continued
gets the time of a stall once more.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby

from reconciler.planning.context.deadlines import SILENCE_SECONDS, standstill_seconds, step_seconds
from reconciler.planning.context.decision import Decision
from reconciler.planning.context.view import View, WorkloadView
from reconciler.resources import Health
from reconciler.state import Cause, ContinueRank, ObservedRank, ReplicaId, RunId, WaitingFor
from reconciler.wire.launch import Phase

CONTINUATIONS_MAX = 3
"""A rank that is stopped again and again is not merely stopped."""
_COMING_UP = (Phase.STARTING, Phase.RENDEZVOUS, Phase.VERBS, Phase.LOADING, Phase.WARM)


@dataclass(frozen=True, slots=True)
class Stall:
    """A group that has made no progress for longer than it may."""

    cause: Cause
    text: str
    seconds: float


def resume(view: View) -> Decision | None:
    return continue_stopped(view, _window(view))


def continue_stopped(
    view: WorkloadView[ReplicaId] | WorkloadView[RunId], window_seconds: float
) -> Decision | None:
    """Continue ranks that are merely stopped, which costs no epoch; but not for ever, and none that a later epoch replaces.

    ``window_seconds``: how long each continuation counts.
    """
    newest = view.record.epoch if view.record is not None else 0
    steps = tuple(
        ContinueRank(view.id, rank.node, rank.report.id)
        for rank in view.alive
        if rank.report.stopped
        and rank.report.id.epoch >= newest
        and len(_continued(view, rank, window_seconds)) < CONTINUATIONS_MAX
    )
    return Decision(steps=steps) if steps else None


def _continued(
    view: WorkloadView[ReplicaId] | WorkloadView[RunId], rank: ObservedRank, window_seconds: float
) -> list[float]:
    """Return when the rank was continued, as far as it counts: within the time that the stall rule takes."""
    now = view.world.now
    return [
        at for at in view.world.memory.continued.get(rank.report.id, ()) if now - window_seconds < at <= now
    ]


def _window(view: View) -> float:
    return 2 * view.health.stall_after + 10.0


def of_group(view: View, ranks: Sequence[ObservedRank]) -> Stall | None:
    """Return the stall of ranks of one epoch, all alive; None if they have not stood still for too long."""
    if not ranks:
        return None
    coming = [rank for rank in ranks if rank.report.phase in _COMING_UP]
    return _overdue(view, coming, _since_continued(view, ranks)) if coming else _stalled(view, ranks)


def any_stalled(view: View, ranks: Iterable[ObservedRank]) -> bool:
    """Return whether the ranks of any epoch have stalled."""
    by_epoch = sorted(ranks, key=_epoch)
    return any(of_group(view, tuple(group)) is not None for _, group in groupby(by_epoch, key=_epoch))


def _epoch(rank: ObservedRank) -> int:
    return rank.report.id.epoch


def _since_continued(view: View, ranks: Sequence[ObservedRank]) -> float:
    """Return how many seconds ago a rank of the group was last continued: before that it could not do what it
    owed."""
    now, continued = view.world.now, view.world.memory.continued
    ago = [now - at for rank in ranks for at in continued.get(rank.report.id, ()) if at <= now]
    return min(ago, default=math.inf)


def _overdue(view: View, coming: Sequence[ObservedRank], since: float) -> Stall | None:
    """Judge the ranks that are furthest behind while coming up: the others wait for them."""
    phase = min((rank.report.phase for rank in coming), key=Phase.ALL.index)
    cap = view.health.progress_deadline
    for rank in (rank for rank in coming if rank.report.phase == phase):
        report = rank.report
        who = f"rank {report.id.rank} on {rank.node}"
        silent = min(report.silent_seconds, since)
        if report.age_seconds > cap:
            text = f"{who} is still {phase} after {report.age_seconds:.0f} s, at most {cap:.0f} s are allowed"
            return Stall(Cause.OVERDUE, text, silent)
        allowed = standstill_seconds(phase, report.total_bytes, cap, report.step_tokens)
        if silent > allowed:
            text = f"{who} is {phase} and shows no progress for {silent:.0f} s"
            return Stall(Cause.OVERDUE, f"{text}, at most {allowed:.0f} s are allowed", silent)
    return None


def _stalled(view: View, ranks: Sequence[ObservedRank]) -> Stall | None:
    silence = _silence(view, ranks)
    allowed = _allowed(view.health, ranks)
    if silence <= allowed:
        return None
    return Stall(Cause.STALLED, f"{_culprits(ranks, silence)}, at most {allowed:.0f} s are allowed", silence)


def _silence(view: View, ranks: Sequence[ObservedRank]) -> float:
    """Return for how many seconds a group that is up has owed its clients a step, or could not do one.

    Rank 0 alone knows what is owed, and its steps need all others. A stopped rank can do none. Requests that
    rank 0 has not read are owed too: a rank 0 that takes none counts as silent, despite its own reports.
    """
    judged = [rank.report for rank in ranks if rank.report.id.rank == 0 or rank.report.stopped]
    silence = max((max(report.silent_seconds, report.deaf_seconds) for report in judged), default=0.0)
    return min(silence, _since_continued(view, ranks))


def _allowed(health: Health, ranks: Sequence[ObservedRank]) -> float:
    return step_seconds(health.stall_after, max(rank.report.step_tokens for rank in ranks))


def _culprits(ranks: Sequence[ObservedRank], silence: float) -> str:
    """Name the ranks without progress, as far as they can be distinguished: stopped ones, else those with the fewest
    steps."""
    deaf = next((rank for rank in ranks if rank.report.deaf_seconds > rank.report.silent_seconds), None)
    if deaf is not None and deaf.report.deaf_seconds >= silence:
        return f"rank {deaf.report.id.rank} on {deaf.node} takes no requests for {silence:.0f} s"
    stopped = [rank for rank in ranks if rank.report.stopped]
    fewest = min(rank.report.steps for rank in ranks)
    blamed = stopped or [rank for rank in ranks if rank.report.steps == fewest]
    names = " and ".join(f"rank {rank.report.id.rank} on {rank.node}" for rank in blamed)
    verb = "makes" if len(blamed) == 1 else "make"
    is_stopped = f" {'is' if len(blamed) == 1 else 'are'} stopped by a signal and" if stopped else ""
    waiting = sum(rank.report.demand for rank in ranks if rank.report.id.rank == 0)
    requests = {0: "no request waits", 1: "1 request waits"}.get(waiting, f"{waiting} requests wait")
    return f"{names}{is_stopped} {verb} no progress for {silence:.0f} s ({requests})"


def report(view: View) -> Decision | None:
    ranks = tuple(rank for _, rank in sorted(view.current.items()))
    silence, allowed = _silence(view, ranks), _allowed(view.health, ranks)
    stopped = [rank for rank in ranks if rank.report.stopped]
    if silence < min(SILENCE_SECONDS, allowed / 2) and not stopped:
        return None
    again = [
        _continued(view, rank, _window(view))[0] + _window(view)
        for rank in stopped
        if _continued(view, rank, _window(view))
    ]
    text = f"{_culprits(ranks, silence)}; the group is formed again after {allowed:.0f} s"
    return view.wait(WaitingFor.PROGRESS, text, min(again, default=None))
