"""What is wrong with cables, from the facts of the machines that they join, whether or not a group has noticed;
and the transports that failed a group for what no machine or cable tells.
"""

from __future__ import annotations

from collections.abc import Iterator

from reconciler.state import FaultClass, NodeName, ObjectKey, RungFailure, Trouble

from .healing import sights
from .healing.scene import Scene
from .healing.table import TABLE
from .machines import TOLD_BY_FACTS, uses
from .rungs import CABLES, VERBS, used
from .view import View
from .world import World

_SIGHTS = {sights.link_down: sights.port_down, sights.slow_link: sights.slow_link}
"""Of a row of the table, what of it is seen of a cable alone."""
_ROWS = tuple((row, _SIGHTS[row.seen]) for row in TABLE if row.seen in _SIGHTS)


def troubles(world: World) -> tuple[Trouble, ...]:
    """Cables between nodes of the manifests that are down, or too slow, where a deployment would use them: each
    once, though both of its ends show it.

    That a link is missing of which nobody knows is no fault of it: only a group that had it can tell.
    """
    return tuple(trouble for pair in sorted(_pairs(world)) for trouble in _of(world, *pair))


def _pairs(world: World) -> set[tuple[NodeName, NodeName]]:
    """Nodes with a port that is known to lead to the other, and is not as it should be."""
    nodes = world.desired.nodes
    return {
        (min(name, port.peer[0]), max(name, port.peer[0]))
        for name in nodes
        for port in world.node(name).facts.ports
        if port.peer and port.peer[0] in nodes
        if False in (port.connected, port.active, port.verbs_up) or sights.slow(port)
    }


def _of(world: World, one: NodeName, other: NodeName) -> Iterator[Trouble]:
    """A machine that does not answer is another matter: its cables are down with it."""
    if not (world.reached(one) and world.reached(other) and uses(world, CABLES, one, other)):
        return
    ends = (world.node(one), world.node(other))
    scene = Scene(ends, verbs=uses(world, VERBS, one, other), cables=True)
    for row, sight in _ROWS:
        seen = sight(scene)
        if seen is not None:
            key, subject = ObjectKey("Node", one), f"link/{one}/{other}"
            doing = "its groups use the next transport of their ladder"
            yield Trouble(key, subject, row.fault, seen.text, doing, row.steps(seen, ""))


def degraded(view: View) -> tuple[Trouble, ...]:
    """The transports that failed the replica, as long as they are left alone; what facts tell of a machine or of
    a cable is said of that."""
    if view.record is None or view.deployment is None:
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
        if failure.transport in view.deployment.spec.transport and not _told_elsewhere(view, failure)
    )


def _told_elsewhere(view: View, failure: RungFailure) -> bool:
    """Whether what a transport failed for is said of a machine or a cable, by whose facts it is seen."""
    assert view.record is not None
    members = tuple(view.world.node(name) for name in view.record.members)
    if failure.fault is FaultClass.LINK_DOWN:
        return sights.unjoined(Scene(members, cables=True)) is None
    return failure.fault in TOLD_BY_FACTS
