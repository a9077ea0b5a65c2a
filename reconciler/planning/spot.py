"""Where a group goes and how it is joined: the largest one that there are machines, memory and a transport for."""

from __future__ import annotations

from reconciler.state import NodeName, Refusal, RefusedBecause, Waiting

from . import rungs
from .placement import Placement, Request, place
from .rungs import Rung
from .view import View


def spot(view: View, without: tuple[NodeName, ...] = ()) -> tuple[Placement, Rung] | Waiting | Refusal:
    """Machines and transport for the replica, but not ``without``; else what is awaited, or why it cannot be."""
    assert view.deployment is not None
    assert view.model is not None
    bounds = view.deployment.spec.parallelism.nodes
    first: Refusal | None = None
    size = bounds.max
    while size >= bounds.min:
        request = Request(view.replica, view.deployment, view.model, size, without)
        placed = place(view.world, view.ledger, request)
        if not isinstance(placed, Placement):
            return first or placed
        rung = rungs.choose(view.world, view.replica, view.deployment, placed.members)
        if isinstance(rung, Rung):
            return placed, rung
        text = f"no transport of spec.transport can join {', '.join(placed.members)}: {rung}"
        first = first or Refusal(view.replica.key, RefusedBecause.NO_TRANSPORT, text, view.replica)
        size = len(placed.members) - 1
    assert first is not None
    return first
