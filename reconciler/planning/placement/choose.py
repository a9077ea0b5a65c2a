"""Where a group goes and how it is joined: the largest one that there are machines, memory and a transport for."""

from __future__ import annotations

from reconciler.planning.context.view import View
from reconciler.planning.nodes.eligible import Request
from reconciler.planning.transport import fallback
from reconciler.planning.transport.fallback import Transport
from reconciler.state import NodeName, Refusal, Waiting

from .place import Joined, place


def choose(view: View, without: tuple[NodeName, ...] = ()) -> Joined | Waiting | Refusal:
    """Machines and transport for the replica, but not ``without``; else what is awaited, or why it cannot be."""
    deployment, model = view.deployment, view.model
    assert deployment is not None
    assert model is not None

    def join(members: tuple[NodeName, ...]) -> Transport | str:
        return fallback.choose(view.world, view.replica, deployment, members)

    return place(view.world, view.ledger, Request(view.replica, deployment, model, without), join)
