"""Finds faults of a machine itself, from its own facts, whether or not a group has noticed."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from reconciler.planning.context.decision import NOTHING, Decision
from reconciler.planning.context.world import World
from reconciler.planning.diagnosis import detectors
from reconciler.planning.diagnosis.evidence import Detection, Evidence
from reconciler.planning.diagnosis.rules import TABLE, Remedy, Row, every
from reconciler.planning.nodes import repair
from reconciler.state import Desired, FaultClass, NodeName, NodeObservation, ObjectKey, RebootNode, Trouble
from reconciler.state.subjects import NodeSubject
from reconciler.transports import VERBS

from . import reboot

SEEN_IN_FACTS = (
    FaultClass.UNSUPPORTED_PLATFORM,
    FaultClass.RDMA_DISABLED,
    FaultClass.LINK_DOWN,
    FaultClass.PORT_CONFIGURATION,
    FaultClass.REBOOT,
    FaultClass.VERBS_WEDGED,
    FaultClass.LAUNCH_CONTEXT,
)
"""Classes that the facts of a machine, or of both ends of a cable, show without a group. Silence and leftovers are
matters of quarantine."""
_ROWS = tuple(
    row
    for row in TABLE
    if row.fault in SEEN_IN_FACTS
    and row.seen not in (detectors.slow_link, detectors.link_down, detectors.rdma_port_down)
)
"""Those of one machine."""


def troubles(world: World, name: NodeName) -> tuple[Trouble, ...]:
    """List the faults of a declared node. RDMA matters only if a deployment would use it there."""
    if name not in world.desired.nodes:
        return ()
    node, local = world.node(name), world.access(name).ssh is None
    key = ObjectKey("Node", name)
    return tuple(
        Trouble(
            key,
            NodeSubject(name),
            row.fault,
            seen.text,
            repair.doing(world, row, seen),
            repair.steps(world, row, seen),
            row.sign(seen),
            repair.task(world, row, seen),
        )
        for row, seen in node.once(_detected, uses(world, VERBS, name), local)
    )


def _detected(node: NodeObservation, verbs: bool, local: bool) -> list[tuple[Row, Detection]]:
    return every(Evidence((node,), verbs=verbs, local=frozenset((node.name,) if local else ())), _ROWS)


def restart(world: World, troubles: tuple[Trouble, ...]) -> Decision:
    """Restart the first machine whose own trouble asks for it, if its Node allows that and nothing runs there."""
    for trouble in () if world.desired.stopping else troubles:
        name = NodeName(trouble.object.name)
        idle = all(not rank.alive or rank.unkillable for rank in world.observed.ranks_on(name))
        free = f"node/{name}" not in world.memory.in_flight
        if trouble.object.kind == "Node" and trouble.person and idle and free:
            step = reboot.restart(world, name, trouble.fault, trouble.seen)
            if isinstance(step, RebootNode):
                return Decision(steps=(step,))
    return NOTHING


def without_pending_restart(world: World, troubles: tuple[Trouble, ...]) -> tuple[Trouble, ...]:
    """Return the same troubles, with nobody asked to fix what a restart from here is about to fix."""
    return tuple(
        replace(trouble, doing=Remedy.REBOOT.value, person="") if _restarts(world, trouble) else trouble
        for trouble in troubles
    )


def _restarts(world: World, trouble: Trouble) -> bool:
    if trouble.object.kind != "Node" or not trouble.person:
        return False
    return reboot.in_hand(world, NodeName(trouble.object.name), trouble.fault)


def uses(world: World, transports: Collection[str], *names: NodeName) -> bool:
    """Return whether a deployment would have a group over one of these transports on all of these nodes."""
    return world.desired.once(_uses, tuple(transports), names)


def _uses(desired: Desired, transports: tuple[str, ...], names: tuple[NodeName, ...]) -> bool:
    labels = [desired.nodes[name].metadata.labels.items() for name in names]
    return any(
        not set(transports).isdisjoint(listed) and all(selected <= of_node for of_node in labels)
        for selected, listed in desired.spreads
    )
