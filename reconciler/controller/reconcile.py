"""One pass of the loop: a table of contents of the product."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from reconciler.errors import Deposed, Unwritable
from reconciler.execution import Executor, Tools
from reconciler.inventory import Collector
from reconciler.planning import plan
from reconciler.planning.group import PORT_FIRST
from reconciler.resources import Access
from reconciler.state import Contact, Desired, GatewayObservation, Memory, NodeName, Observed, Plan
from reconciler.state.identity import CLUSTER
from reconciler.state.report import Event
from reconciler.state.weights import folder
from reconciler.status import Snapshots
from reconciler.store import Store
from reconciler.wire.footing import Footing

from .courier import Courier
from .intent import Intent
from .lapses import Lapses
from .publish import Publisher

log = logging.getLogger(__name__)


@dataclass(slots=True)
class Parts:
    """What the loop is made of; ``bootstrap`` builds it."""

    intent: Intent
    collector: Collector
    executor: Executor
    tools: Tools
    store: Store
    publisher: Publisher
    courier: Courier
    gateway: Callable[[], GatewayObservation | None]
    clock: Callable[[], float]
    lapses: Lapses
    entropy: Callable[[], str]
    reach: Callable[[Mapping[NodeName, Access]], object] = dict
    """Told with every pass how each node is reached."""
    agent_file: str = ""
    """Name of the agent's file that is put on nodes."""
    footing: tuple[Footing, ...] = ()
    """What this controller stands on: when any of it is gone, another may be in its place."""
    stopping: bool = False
    looked: bool = False
    """Every node was tried since the start and the last lapse: what is published may change from here on."""
    lapsed: bool = False
    """The lease was lost, and a new token could not be taken yet."""
    greeted: set[NodeName] = field(default_factory=set)
    """Nodes whose highest fencing token was looked at."""
    last: Snapshots = field(
        default_factory=lambda: Snapshots(Desired(""), Observed(), Memory(0, 0), Plan(), 0.0)
    )


def reconcile(parts: Parts) -> Plan:
    """Look, decide, act, tell. Nothing in here waits for a machine. Raises ``Deposed``."""
    parts.store.verify()
    parts.store.recover()
    _renew(parts)
    if _known(parts):
        _watch(parts)
    _outrank(parts)
    parts.last = decide(parts)
    parts.executor.launch(parts.last.plan.steps)
    if _ready_to_publish(parts):
        parts.publisher.publish(parts.last)
    parts.publisher.chronicle.follow(parts.last)
    parts.courier.tend(parts.last.desired)
    parts.publisher.wake()
    return parts.last.plan


def _renew(parts: Parts) -> None:
    """After a time in which nobody watched: see that nobody else has taken over, and believe nothing seen before."""
    lapse = parts.lapses.take()
    if lapse is not None:
        log.warning("%s", lapse)
        parts.executor.put_off(lapse.seconds)
        parts.collector.put_off(lapse.seconds)
        parts.publisher.tell((Event(parts.clock(), CLUSTER, False, lapse.reason, str(lapse)),))
        parts.lapsed = True
    if parts.lapsed:
        parts.store.renew()  # a look with the new token is one from after the lapse
        parts.lapsed = parts.looked = False


def _outrank(parts: Parts) -> None:
    """Where the store was lost, agents have seen tokens that it may give again: take one above theirs.

    Only at the first sight of each agent, which is a look without a token. Whoever has a higher one later obeys
    another controller: a deposed one does not come back.
    """
    reports = {name: node.report for name, node in sorted(parts.collector.nodes().items()) if node.report}
    for name, report in reports.items():
        first = name not in parts.greeted
        parts.greeted.add(name)
        if first and report.token >= parts.store.token:
            parts.store.renew(above=report.token)
        elif report.token > parts.store.token:
            raise Deposed(
                f"{name} obeys another controller (its token is {report.token}, this one's is"
                f" {parts.store.token}): this one ends"
            )
    for name, report in reports.items():
        if report.asked_with is not None and report.asked_with < parts.store.token:
            parts.collector.look(name)


def _known(parts: Parts) -> bool:
    """Whether it is known what is wanted: before that there is nothing to look for."""
    return parts.stopping or bool(parts.intent.desired.revision)


def _ready_to_publish(parts: Parts) -> bool:
    """Not before the manifests were read and every node was tried: until then the last word holds.

    One that has just started would otherwise unroute groups that serve on, and one that has just woken up route to
    those that are gone.
    """
    parts.looked = parts.looked or (_known(parts) and parts.collector.tried)
    return parts.looked


def decide(parts: Parts, wanted: Desired | None = None) -> Snapshots:
    """What is wanted, what is seen, and what follows from both. Changes nothing.

    ``wanted`` instead of the manifests in force: for looking ahead.
    """
    desired, memory, now = wanted or _desired(parts), remember(parts), parts.clock()
    observed = Observed(parts.collector.nodes(), parts.gateway())
    decided = plan(desired, observed, memory, now, parts.entropy())
    return Snapshots(desired, observed, memory, decided, now)


def _desired(parts: Parts) -> Desired:
    return parts.intent.desired.stopped() if parts.stopping else parts.intent.desired


def remember(parts: Parts) -> Memory:
    """What the store and this controller's own doings say now."""
    next_port, stored = parts.store.next_port(PORT_FIRST), parts.store.contents.read()
    return Memory(
        token=parts.store.token,
        next_port=next_port,
        groups=stored.groups,
        last_epochs=stored.last_epochs,
        agents=stored.agents,
        agent_file=parts.agent_file,
        in_flight=parts.executor.in_flight,
        writes=dict(parts.tools.writes),
        failures=dict(parts.executor.failures),
        stops=dict(parts.tools.stops),
        continued=dict(parts.tools.continued),
        leaving=stored.leaving,
        attempts=stored.attempts,
        deliveries=stored.deliveries,
        reboots=stored.reboots,
        repaired=dict(parts.tools.repaired),
        rungs=stored.rungs,
        verbs=stored.verbs,
        setbacks=stored.setbacks,
        runtimes=parts.tools.runtimes.known,
        unwritable=parts.store.problem or parts.publisher.problem,
    )


def _watch(parts: Parts) -> None:
    """Watch the nodes, also those that only an agent or old ranks tie us to, and look for the weights there."""
    desired, stored = _desired(parts), parts.store.contents.read()
    known = stored.agents
    wanted = {name: node.spec.access for name, node in desired.nodes.items()}
    accesses = {**known, **wanted}
    parts.reach(accesses)
    members = {name for group in stored.groups.values() for name in group.members}
    paths = {model.spec.source.folder for model in desired.models.values()}
    served = {group.weights for group in stored.groups.values()}
    served |= {setback.served for setback in stored.setbacks.values()}
    paths |= {folder(weights) for weights in served if weights}
    parts.collector.watch(frozenset(members | accesses.keys()), tuple(sorted(paths)))
    seen = parts.collector.nodes()
    with suppress(Unwritable):  # the next pass does it
        for name, access in wanted.items():
            has_agent = name in known or seen[name].contact is Contact.REACHED
            if has_agent and known.get(name) != access:
                parts.store.keep_agent(name, access)
