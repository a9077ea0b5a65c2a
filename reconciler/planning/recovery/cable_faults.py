"""What is wrong with cables, from the facts of the machines that they join, whether or not a group has noticed;
and the transports that failed a group for what no machine or cable tells.
"""

from __future__ import annotations

from collections.abc import Iterator

from reconciler.planning.context.view import Formed, View
from reconciler.planning.context.world import World
from reconciler.planning.diagnosis import detectors
from reconciler.planning.diagnosis.detectors import Detection
from reconciler.planning.diagnosis.evidence import Evidence, opposite
from reconciler.planning.diagnosis.rules import TABLE, Row
from reconciler.planning.transport.fallback import CABLES, RINGS, VERBS, used
from reconciler.state import FaultClass, NodeName, ObjectKey, PortFacts, Trouble
from reconciler.state.machine.cabling import HARMLESS, Cabling

from .machine_faults import SEEN_IN_FACTS, uses

Pair = tuple[NodeName, NodeName]
LinkFault = tuple[Pair, FaultClass, str, str]
"""Of the cables between two nodes: the class, what was seen, and what a person must do."""
Seen = tuple[Row, Detection]
_SIGHTS = {detectors.link_down: detectors.port_down, detectors.slow_link: detectors.slow_link}
"""Of a row of the table, what of it is seen of a cable alone."""
_DOWN = next(row for row in TABLE if row.seen is detectors.link_down)
_ROWS = tuple((row, _SIGHTS[row.seen]) for row in TABLE if row.seen in _SIGHTS)


def troubles(world: World, cabling: Cabling) -> tuple[Trouble, ...]:
    """Cables between nodes of the manifests that are down, or too slow, where a deployment would use them: each
    once, though both of its ends show it. That a link is missing altogether is a fault only where a Fabric has it,
    or a group had it.
    """
    declared = _declared(world, cabling)
    covered = {(pair, fault) for pair, fault, _, _ in declared}
    others = (each for each in _rule_matches(world) if each[:2] not in covered)
    found: dict[tuple[str, FaultClass], Trouble] = {}
    told: set[str] = set()
    for pair, fault, text, person in (*declared, *others):
        if not (world.reached(pair[0]) and world.reached(pair[1]) and uses(world, CABLES, *pair)):
            continue  # a machine that does not answer is another matter: its cables are down with it
        if text in told:
            continue  # two cables that are swapped are one fault
        told.add(text)
        key, subject = ObjectKey("Node", pair[0]), f"link/{pair[0]}/{pair[1]}"
        doing = "its groups use the next transport of their ladder"
        found.setdefault((subject, fault), Trouble(key, subject, fault, text, doing, person))
    return tuple(found.values())


def persistent_faults(world: World, cabling: Cabling) -> tuple[Trouble, ...]:
    """Those between machines that have been there for a while: nobody is to reseat a cable for a restart."""
    return tuple(
        trouble
        for trouble in troubles(world, cabling)
        if all(world.node(NodeName(name)).settled(world.now) for name in trouble.subject.split("/")[1:])
    )


def person_tasks(world: World, cabling: Cabling) -> set[tuple[FaultClass, str]]:
    """What a person is asked of cables, or will be once their machines have been there for a while: also in the words
    in which it would be asked of those that no Fabric has."""
    covered = {(pair, fault) for pair, fault, _, _ in _declared(world, cabling)}
    told = (*_rule_matches(world), *(_as_link_faults(each) for each in _missed(world))) if covered else ()
    otherwise = {(fault, person) for pair, fault, _, person in told if (pair, fault) in covered}
    return otherwise | {(trouble.fault, trouble.person) for trouble in troubles(world, cabling)}


def _declared(world: World, cabling: Cabling) -> list[LinkFault]:
    """What is wrong with the cables of Fabrics, where it matters."""
    found = []
    for sight in (sight for of_one in cabling.values() for sight in of_one if sight.state not in HARMLESS):
        one, other = sorted(NodeName(end.node) for end in sight.link)
        if not sight.verbs_only or uses(world, VERBS, one, other):
            found.append(((one, other), sight.fault, sight.text, sight.person))
    return found


def _rule_matches(world: World) -> Iterator[LinkFault]:
    """What rows of the table tell of cables, whether or not they are declared. A machine that a Fabric names is to have
    the cables of that, and not those that once were there."""
    named = {end.node for each in world.desired.fabrics.values() for link in each.spec.cables for end in link}
    missed = (each for each in _missed(world) if named.isdisjoint(each[0]))
    return (_as_link_faults(each) for each in (*_observed_ends(world), *missed))


def _as_link_faults(found: tuple[Pair, Seen]) -> LinkFault:
    pair, (row, sighting) = found
    return pair, row.fault, sighting.text, row.steps(sighting, "")


def _observed_ends(world: World) -> Iterator[tuple[Pair, Seen]]:
    """What the ends of cables tell."""
    for pair in sorted(_pairs(world)):
        ends = (world.node(pair[0]), world.node(pair[1]))
        scene = Evidence(ends, verbs=uses(world, VERBS, *pair), cables=True)
        for row, sight in _ROWS:
            sighting = sight(scene)
            if sighting is not None:
                yield pair, (row, sighting)


def _missed(world: World) -> Iterator[tuple[Pair, Seen]]:
    """Cables that a group has, or had, and that lead elsewhere now or nowhere."""
    for replica, record in sorted(world.memory.groups.items()):
        failures = world.memory.rungs.get(replica, ())
        had = [used(record), *(each.transport for each in failures if each.fault is FaultClass.LINK_DOWN)]
        wired = (transport for transport in had if transport in CABLES)
        nodes = tuple(world.node(name) for name in record.members)
        for transport in wired if world.desired.nodes.keys() >= set(record.members) else ():
            for one, other in Evidence(nodes, ring=transport in RINGS).links():
                sighting = detectors.unjoined(Evidence((one, other), cables=True))
                if sighting is not None:
                    yield (min(one.name, other.name), max(one.name, other.name)), (_DOWN, sighting)


def _pairs(world: World) -> set[tuple[NodeName, NodeName]]:
    """Nodes with a port that is known to lead to the other, and is not as it should be."""
    nodes = world.desired.nodes
    return {
        (min(name, port.peer[0]), max(name, port.peer[0]))
        for name in nodes
        for port in world.node(name).facts.ports
        if port.peer and port.peer[0] in nodes
        if False in (port.connected, port.active, port.verbs_up)
        or detectors.slow(port)
        or _alone(world, name, port, port.peer)
    }


def _alone(world: World, name: NodeName, port: PortFacts, peer: tuple[NodeName, int]) -> bool:
    """Whether the other end does not say the same of the cable."""
    end = opposite(world.node(name), world.node(peer[0]))
    return end is not None and (end.connected is False or end.peer != (name, port.receptacle))


def degraded(view: View) -> tuple[Trouble, ...]:
    """The transports that failed the replica, as long as they are left alone; what facts tell of a machine or of
    a cable is said of that."""
    if not isinstance(view, Formed):
        return ()
    doing = f"served over {used(view.record) or 'one node'} until a fact has changed"
    return tuple(
        Trouble(
            view.replica.key,
            f"replica/{view.replica}",
            failure.fault,
            failure.text,
            doing,
            failure.person,
        )
        for failure in view.world.memory.rungs.get(view.replica, ())
        if failure.transport in view.deployment.spec.transport and failure.fault not in SEEN_IN_FACTS
    )
