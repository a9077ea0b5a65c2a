"""Waits for nodes that have not reported since the last change to them. Older reports decide nothing."""

from __future__ import annotations

from collections.abc import Iterable

from reconciler.state import Contact, NodeName, WaitingFor, WorkloadId

from .decision import Decision, waiting
from .lost_nodes import is_lost, lost_at
from .world import World


def unseen(world: World, nodes: Iterable[NodeName]) -> list[NodeName]:
    """List those of these nodes that were not seen since, in the order of names. Lost ones are not waited for."""
    return sorted(n for n in set(nodes) if not world.seen_since_last_write(n) and not is_lost(world, n))


def report_awaited(world: World, workload: WorkloadId, nodes: Iterable[NodeName]) -> Decision | None:
    """Wait for these nodes of a workload, as far as they were not seen since; None if all were."""
    awaited = unseen(world, nodes)
    if not awaited:
        return None
    down = [n for n in awaited if not world.reached(n)]
    if not down:
        reason, text = WaitingFor.OBSERVATION, f"waiting for a newer report from {', '.join(awaited)}"
        return Decision(waiting=(waiting(workload, reason, text),))
    until = max(
        (lost_at(world, n) for n in down if world.node(n).contact is Contact.UNREACHABLE), default=None
    )
    text = f"no answer from {', '.join(down)}"
    return Decision(waiting=(waiting(workload, WaitingFor.AGENT, text, until),))
