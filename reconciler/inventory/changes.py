"""Finds news in a node's report, beyond the passage of time."""

from __future__ import annotations

from dataclasses import fields
from operator import attrgetter

from reconciler.state import NodeObservation
from reconciler.wire.launch import ExitCode, Phase, RankId
from reconciler.wire.node import Gone, NodeReport, RankReport


def skew(report: NodeReport, asked_at: float, answered_at: float) -> float:
    """Return the seconds by which a node's clock is certainly ahead of this one (negative: behind), to a tenth.

    The node read its clock at some moment between request and answer: the result is 0 if that explains the difference.
    """
    if report.load is None:
        return 0.0
    ahead, behind = report.load.clock - answered_at, report.load.clock - asked_at
    return round(ahead if ahead > 0 else min(behind, 0.0), 1)


_GROWING = (
    "age_seconds", "idle_seconds", "ended_seconds", "cores", "resident_bytes", "tokens_per_second",
)  # fmt: skip
_standing = attrgetter(*(each.name for each in fields(RankReport) if each.name not in _GROWING))
_beside_ranks = attrgetter(*(each.name for each in fields(NodeReport) if each.name not in ("ranks", "load")))
_beside_report = attrgetter(*(each.name for each in fields(NodeObservation) if each.name != "report"))


def is_news(before: NodeObservation, seen: NodeObservation) -> bool:
    """Return whether something other than time has changed; passes for that are made regularly."""
    if before.report is None or seen.report is None or _beside_report(before) != _beside_report(seen):
        return seen != before
    return _timeless(before.report) != _timeless(seen.report)


def _timeless(report: NodeReport) -> tuple[object, ...]:
    """Return a report without values that grow while nothing happens. Silences and leftovers of ended ranks stay."""
    return (
        _beside_ranks(report),
        *map(_standing, report.ranks),
        *(rank.ended_seconds for rank in report.ranks if rank.gone in (Gone.NO, Gone.PENDING)),
    )


def failed(report: NodeReport) -> set[RankId]:
    """Return the ranks that ended without being asked to."""
    return {
        rank.id
        for rank in report.ranks
        if rank.phase == Phase.EXITED and (rank.exit is None or rank.exit.code != ExitCode.OK)
    }


def group(rank: RankId) -> tuple[str, int, int]:
    return rank.deployment, rank.replica, rank.epoch
