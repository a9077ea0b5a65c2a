"""Finds faults of cables, from the facts of the machines that they join, whether or not a group has noticed; and the
transports that failed a group for a reason that no machine or cable shows."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import NamedTuple

from reconciler.planning.context.view import Formed, View
from reconciler.planning.context.world import World
from reconciler.planning.diagnosis import detectors
from reconciler.planning.diagnosis.evidence import Detection, Evidence, opposite
from reconciler.planning.diagnosis.rules import TABLE, Row
from reconciler.planning.transport.fallback import retried_at, used
from reconciler.state import FaultClass, NodeName, ObjectKey, PortFacts, Sign, TransportFailure, Trouble
from reconciler.state.machine.links import HARMLESS, Cabling
from reconciler.state.subjects import LinkSubject, ReplicaSubject
from reconciler.transports import CABLES, RINGS, VERBS

from .machine_faults import SEEN_IN_FACTS, uses

Pair = tuple[NodeName, NodeName]
Seen = tuple[Row, Detection]
_DETECTORS = {
    detectors.link_down: detectors.port_down,
    detectors.rdma_port_down: detectors.rdma_port_down,
    detectors.slow_link: detectors.slow_link,
}
"""For a row of the table, the part of its detector that looks at a cable alone."""
_DOWN = next(row for row in TABLE if row.seen is detectors.link_down)
_ROWS = tuple((row, _DETECTORS[row.seen]) for row in TABLE if row.seen in _DETECTORS)


class LinkFault(NamedTuple):
    """A fault of the cables between two nodes."""

    pair: Pair
    fault: FaultClass
    text: str
    person: str
    """The steps for a person."""
    sign: Sign
    """The key of both: cables that are swapped are one fault."""


def troubles(world: World, cabling: Cabling) -> tuple[Trouble, ...]:
    """List the cables between declared nodes that are down, too slow or not tested, if a deployment would use them.

    Each is listed once, although both of its ends show it. A missing link is a fault only if a Fabric has it, or a
    group had it.
    """
    declared = _declared(world, cabling)
    covered = {(each.pair, each.fault) for each in declared}
    others = (each for each in world.once_as_decided(_rule_matches) if (each.pair, each.fault) not in covered)
    found: dict[tuple[Pair, FaultClass], Trouble] = {}
    named: set[Sign] = set()
    for pair, fault, text, person, sign in (*declared, *others):
        if not (world.reached(pair[0]) and world.reached(pair[1]) and uses(world, CABLES, *pair)):
            continue  # a machine that does not answer is another matter: its cables are down with it
        if sign in named:
            continue
        named.add(sign)
        key, doing = ObjectKey("Node", pair[0]), "its groups use their next transport"
        trouble = Trouble(key, LinkSubject(*pair), fault, text, doing, person, sign, sign)
        found.setdefault((pair, fault), trouble)
    return tuple(found.values())


def persistent_faults(world: World, cabling: Cabling) -> tuple[Trouble, ...]:
    """Keep the faults between machines that have been up for a while: nobody should reseat a cable because of a
    restart."""
    return tuple(
        trouble
        for trouble in troubles(world, cabling)
        if isinstance(trouble.subject, LinkSubject)
        and all(world.node(name).settled(world.now) for name in trouble.subject.nodes)
    )


def person_tasks(world: World, cabling: Cabling) -> set[tuple[FaultClass, Sign]]:
    """Collect what people are asked to do about cables, or will be once the machines have been up for a while: also
    as the rules see cables without a Fabric."""
    covered = {(each.pair, each.fault) for each in _declared(world, cabling)}
    matches = (
        (*world.once_as_decided(_rule_matches), *(_as_link_faults(each) for each in _missed(world)))
        if covered
        else ()
    )
    otherwise = {(each.fault, each.sign) for each in matches if (each.pair, each.fault) in covered}
    return otherwise | {(trouble.fault, trouble.task) for trouble in troubles(world, cabling)}


def _declared(world: World, cabling: Cabling) -> list[LinkFault]:
    """List the faults of the cables of Fabrics that matter."""
    found = []
    for status in (
        status for of_one in cabling.values() for status in of_one if status.state not in HARMLESS
    ):
        one, other = sorted(NodeName(end.node) for end in status.link)
        if not status.verbs_only or uses(world, VERBS, one, other):
            found.append(LinkFault((one, other), status.fault, status.text, status.person, status.sign))
    return found


def _rule_matches(world: World) -> tuple[LinkFault, ...]:
    """List the faults that rows of the table detect in cables, declared or not. A machine that a Fabric names should
    have the cables of the Fabric, not those that were there before."""
    named = {end.node for each in world.desired.fabrics.values() for link in each.spec.cables for end in link}
    missed = (each for each in _missed(world) if named.isdisjoint(each[0]))
    return tuple(_as_link_faults(each) for each in (*_observed_ends(world), *missed))


def _as_link_faults(found: tuple[Pair, Seen]) -> LinkFault:
    pair, (row, detection) = found
    return LinkFault(pair, row.fault, detection.text, row.steps(detection, ""), row.sign(detection))


def _observed_ends(world: World) -> Iterator[tuple[Pair, Seen]]:
    """Yield what the ends of cables show."""
    for pair in sorted(_pairs(world)):
        ends = (world.node(pair[0]), world.node(pair[1]))
        evidence = Evidence(
            ends, verbs=uses(world, VERBS, *pair), cables=True, untested=world.desired.untested_ends
        )
        for row, detect in _ROWS:
            detection = detect(evidence)
            if detection is not None:
                yield pair, (row, detection)


def _missed(world: World) -> Iterator[tuple[Pair, Seen]]:
    """Yield cables that a group has, or had, and that now lead elsewhere or nowhere."""
    for workload, record in sorted(world.memory.groups.items()):
        failures = world.memory.transport_failures.get(workload, ())
        had = [used(record), *(each.transport for each in failures if each.fault is FaultClass.LINK_DOWN)]
        wired = (transport for transport in had if transport in CABLES)
        nodes = tuple(world.node(name) for name in record.members)
        for transport in wired if world.desired.nodes.keys() >= set(record.members) else ():
            for one, other in Evidence(nodes, ring=transport in RINGS).links():
                detection = detectors.unjoined(Evidence((one, other), cables=True))
                if detection is not None:
                    yield (min(one.name, other.name), max(one.name, other.name)), (_DOWN, detection)


def _pairs(world: World) -> set[tuple[NodeName, NodeName]]:
    """Return pairs of nodes with a faulty port that leads to the other node."""
    nodes = world.desired.nodes
    return {
        (min(name, port.peer[0]), max(name, port.peer[0]))
        for name in nodes
        for port in world.node(name).facts.ports
        if port.peer and port.peer[0] in nodes and not _moved(world, name, port, port.peer)
        if False in (port.connected, port.active, port.verbs_up)
        or port.unusual
        or _alone(world, name, port, port.peer)
    }


def _alone(world: World, name: NodeName, port: PortFacts, peer: tuple[NodeName, int]) -> bool:
    """Return whether the other end does not say the same of the cable."""
    end = opposite(world.node(name), world.node(peer[0]))
    return end is not None and (end.connected is False or end.peer != (name, port.receptacle))


def _moved(world: World, name: NodeName, port: PortFacts, peer: tuple[NodeName, int]) -> bool:
    """Return whether the other end leads elsewhere, and no group needs this cable. Then the report of this end is older than
    the move of its cable, and there is nothing to reseat."""
    if any({name, peer[0]} <= {*record.members} for record in world.memory.groups.values()):
        return False
    ends = {end.receptacle: end for end in world.node(peer[0]).facts.ports}
    end = ends.get(peer[1])
    return end is not None and end.connected is True and end.peer not in (None, (name, port.receptacle))


def degraded(view: View) -> tuple[Trouble, ...]:
    """List the transports that failed the replica, until one serves again. Faults that facts show are reported for the
    machine or cable instead."""
    if not isinstance(view, Formed):
        return ()
    return tuple(
        Trouble(
            view.replica.key,
            ReplicaSubject(view.replica),
            failure.fault,
            failure.text,
            _doing(view, failure),
            failure.person,
            (failure.transport, str(failure.at)),
        )
        for failure in view.world.memory.transport_failures.get(view.replica, ())
        if failure.transport in view.deployment.spec.transport and failure.fault not in SEEN_IN_FACTS
    )


def _doing(view: Formed, failure: TransportFailure) -> str:
    """Say what is done about a transport that failed, for people."""
    now_used, until = used(view.record) or "one node", retried_at(failure)
    if now_used == failure.transport:
        return f"it is tried again over {now_used}"
    text = f"served over {now_used} until a fact has changed"
    if until is None:
        return text
    at = datetime.fromtimestamp(until, UTC).strftime("%Y-%m-%d %H:%M UTC")
    return f"{text}; {failure.transport} is tried again at a quiet moment after {at}"
