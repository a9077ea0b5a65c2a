"""One pass of the loop: a table of contents of the product."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from reconciler.execution import Executor, Tools
from reconciler.inventory import Collector
from reconciler.planning import plan
from reconciler.planning.group import PORT_FIRST
from reconciler.state import Contact, Desired, GatewayObservation, Memory, NodeName, Observed, Plan
from reconciler.status import Snapshots
from reconciler.store import Store

from .intent import Intent
from .publish import Publisher


@dataclass(slots=True)
class Parts:
    """What the loop is made of; ``bootstrap`` builds it."""

    intent: Intent
    collector: Collector
    executor: Executor
    tools: Tools
    store: Store
    publisher: Publisher
    gateway: Callable[[], GatewayObservation | None]
    clock: Callable[[], float]
    entropy: Callable[[], str]
    stopping: bool = False
    last: Snapshots = field(
        default_factory=lambda: Snapshots(Desired(""), Observed(), Memory(0, 0), Plan(), 0.0)
    )


def reconcile(parts: Parts) -> Plan:
    """Look, decide, act, tell. Nothing in here waits for a machine."""
    parts.collector.watch(*_watched(_desired(parts), remember(parts), parts.collector))
    parts.last = decide(parts)
    parts.executor.launch(parts.last.plan.steps)
    if not _looking(parts.last.observed):
        parts.publisher.publish(parts.last)
    return parts.last.plan


def _looking(observed: Observed) -> bool:
    """Whether some node has not been tried yet: what was published before stays true until it has been.

    A controller that has just started would otherwise unroute groups that serve on.
    """
    return any(node.contact is Contact.UNKNOWN for node in observed.nodes.values())


def decide(parts: Parts) -> Snapshots:
    """What is wanted, what is seen, and what follows from both. Changes nothing."""
    desired, memory, now = _desired(parts), remember(parts), parts.clock()
    observed = Observed(parts.collector.nodes(), parts.gateway())
    decided = plan(desired, observed, memory, now, parts.entropy())
    return Snapshots(desired, observed, memory, decided, now)


def _desired(parts: Parts) -> Desired:
    return parts.intent.desired.stopped() if parts.stopping else parts.intent.desired


def remember(parts: Parts) -> Memory:
    """What the store and this controller's own doings say now."""
    return Memory(
        token=parts.tools.token,
        next_port=parts.store.next_port(PORT_FIRST),
        groups=parts.store.groups(),
        last_epochs=parts.store.last_epochs(),
        in_flight=parts.executor.in_flight,
        writes=dict(parts.tools.writes),
        failures=dict(parts.executor.failures),
        stops=dict(parts.tools.stops),
    )


def _watched(
    desired: Desired, memory: Memory, collector: Collector
) -> tuple[frozenset[NodeName], tuple[str, ...]]:
    """The nodes to watch, also those that only old ranks tie us to, and the weights to look for there."""
    members = {name for group in memory.groups.values() for name in group.members}
    kept = {name for name, node in collector.nodes().items() if node.contact is not Contact.AGENT_DOWN}
    paths = sorted({model.spec.source.path for model in desired.models.values()})
    return frozenset(desired.nodes.keys() | members | kept), tuple(paths)
