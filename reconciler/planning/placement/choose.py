"""Chooses the machines and the transport of a group: the largest one that machines, memory and transports allow."""

from __future__ import annotations

from reconciler.planning.context.memory_ledger import Ledger, Placed
from reconciler.planning.context.workload import Workload
from reconciler.planning.context.world import World
from reconciler.planning.transport import fallback
from reconciler.planning.transport.fallback import Transport
from reconciler.state import Refusal, Waiting

from .place import Joined, place


def choose(
    world: World, ledger: Ledger, workload: Workload, without: Placed = ()
) -> Joined | Waiting | Refusal:
    """Choose machines and transport for a replica, but none of ``without``; else say what it waits for, or why it
    cannot be placed."""

    def join(members: Placed) -> Transport | str:
        return fallback.choose(world, workload.replica, workload.deployment, members)

    return place(world, ledger, workload, join, without)
