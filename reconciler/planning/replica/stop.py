"""Ask the ranks of a replica to end."""

from __future__ import annotations

from reconciler.planning.context.deadlines import HUNG_GRACE_SECONDS
from reconciler.planning.context.decision import Decision
from reconciler.planning.context.ending import end
from reconciler.planning.context.view import View
from reconciler.planning.recovery import stalls
from reconciler.state import ObservedRank, Symptom


def stop(
    view: View, ranks: tuple[ObservedRank, ...], grace: float, reason: str, symptom: Symptom | None = None
) -> Decision:
    """Ask each rank to end within ``grace`` seconds, and wait for that. A group that hangs gets a shorter time."""
    if stalls.any_stalled(view, ranks):
        grace = min(grace, HUNG_GRACE_SECONDS)
    return end(view, ranks, grace, reason, symptom)
