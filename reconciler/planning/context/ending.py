"""Ask the ranks of a workload to end, and wait until they have."""

from __future__ import annotations

from collections.abc import Sequence

from reconciler.state import (
    ObservedRank,
    ReplicaId,
    RequestedStop,
    RunId,
    Step,
    StopRank,
    Symptom,
    WaitingFor,
)
from reconciler.state.observed import KILL_SECONDS

from .decision import Decision
from .view import WorkloadView
from .world import CLOCK_JUMP_SECONDS

IMPATIENCE_SECONDS = 1.0
"""A stop is requested again when it has to be over this much sooner than before."""


def end(
    view: WorkloadView[ReplicaId] | WorkloadView[RunId],
    ranks: Sequence[ObservedRank],
    grace: float,
    reason: str,
    symptom: Symptom | None = None,
) -> Decision:
    """Ask each rank to end, once; then wait until all are gone, or are known not to end.

    ``grace`` is in seconds; ``symptom``: why the group is as good as dead.
    """
    requested = view.world.memory.stops
    now = view.world.now
    steps: tuple[Step, ...] = tuple(
        StopRank(view.id, r.node, r.report.id, grace, reason, symptom)
        for r in ranks
        if not r.killed and _ask_again(requested.get(r.report.id), now, grace)
    )
    names = ", ".join(f"rank {r.report.id.rank} of epoch {r.report.id.epoch} on {r.node}" for r in ranks)
    ends = [requested[r.report.id].void_at for r in ranks if r.report.id in requested and not r.killed]
    ends += [
        now + KILL_SECONDS - r.report.killed_seconds for r in ranks if r.report.killed_seconds is not None
    ]
    until = min((at for at in ends if at > now), default=None)
    return Decision(steps) + view.wait(WaitingFor.STOPPING, f"waiting for the end of {names}", until)


def _ask_again(before: RequestedStop | None, now: float, grace: float) -> bool:
    """Return whether a stop was never requested, was lost, or has to be over sooner now."""
    if before is None or before.void_at <= now:
        return True
    set_back = before.void_at - now > grace + CLOCK_JUMP_SECONDS
    return set_back or now + grace < before.gone_by - IMPATIENCE_SECONDS
