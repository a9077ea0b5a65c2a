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


SILENCE_SECONDS = 2.0
"""A silence of this length is news, at any time; agents push it from the same length on. A step of a healthy rank
seldom takes as long."""
_GROWING = (
    "age_seconds", "idle_seconds", "ended_seconds", "cores", "resident_bytes", "tokens_per_second",
)  # fmt: skip
"""Values of a rank that grow with time."""
_PROGRESS = ("steps", "demand", "step_tokens", "silent_seconds", "deaf_seconds")
"""Values of a rank that change with each step. A plan depends on one of them only if it stands still."""
_RESTLESS = ("sequence", "load", "models_free_bytes")
"""Values of a node that change all the time."""
_standing = attrgetter(
    *(each.name for each in fields(RankReport) if each.name not in (*_GROWING, *_PROGRESS))
)
_beside_ranks = attrgetter(
    *(each.name for each in fields(NodeReport) if each.name not in ("ranks", *_RESTLESS))
)
_beside_report = attrgetter(
    *(each.name for each in fields(NodeObservation) if each.name not in ("report", "skew_seconds"))
)


def is_news(before: NodeObservation, seen: NodeObservation) -> bool:
    """Return whether there is a change that may affect a plan, other than the passage of time and the progress of
    healthy ranks. Regular passes see these."""
    if before.report is None or seen.report is None or _beside_report(before) != _beside_report(seen):
        return seen != before
    return _lasting(before.report) != _lasting(seen.report)


def _lasting(report: NodeReport) -> tuple[object, ...]:
    """Return a report without values that change by themselves. Silences and leftovers of ended ranks stay."""
    return (
        _beside_ranks(report),
        *map(_standing, report.ranks),
        *(
            silence if silence >= SILENCE_SECONDS else 0.0
            for rank in report.ranks
            for silence in (rank.silent_seconds, rank.deaf_seconds)
        ),
        *(rank.ended_seconds for rank in report.ranks if rank.gone in (Gone.NO, Gone.PENDING)),
    )


def failed(report: NodeReport) -> set[RankId]:
    """Return the ranks that ended unasked."""
    return {
        rank.id
        for rank in report.ranks
        if rank.phase == Phase.EXITED and (rank.exit is None or rank.exit.code != ExitCode.OK)
    }


def group(rank: RankId) -> tuple[str, int, int]:
    return rank.deployment, rank.replica, rank.epoch
