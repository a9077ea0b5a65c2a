"""Nodes that have not answered for too long. Unreachable is not dead: their ranks may continue, unseen."""

from __future__ import annotations

from reconciler.resources import Node, NodeSpec
from reconciler.state import Contact, NodeName, NodeObservation, ObjectKey

from .world import CLOCK_JUMP_SECONDS, World

LOST_AFTER_SECONDS = float(NodeSpec.model_fields["lost_after"].default)


def is_lost(world: World, name: NodeName) -> bool:
    """Return whether a node has not answered for longer than its ``lostAfter``, or its agent could not be started."""
    node = world.node(name)
    if not cut_off(world, node):
        return False
    return lost_at(world, name) <= world.now or node.since - world.now > CLOCK_JUMP_SECONDS


def lost_at(world: World, name: NodeName) -> float:
    """Return when a node that is cut off counts as lost, by the controller's clock."""
    return world.node(name).since + _lost_after(world, name)


def _lost_after(world: World, name: NodeName) -> float:
    """Return ``lostAfter`` of the node's manifest, also while the node is being removed."""
    leaving = world.memory.leaving.get(ObjectKey("Node", name))
    manifest = world.desired.nodes.get(name) or (leaving.manifest if leaving else None)
    return manifest.spec.lost_after if isinstance(manifest, Node) else LOST_AFTER_SECONDS


def cut_off(world: World, node: NodeObservation) -> bool:
    """Return whether a node cannot be used. An agent that is merely down does not count: it is started, and its
    ranks continue."""
    if node.contact is Contact.AGENT_DOWN:
        return world.memory.unstarted(node.name)
    return node.contact is Contact.UNREACHABLE


def unreported(world: World) -> list[str]:
    """List the nodes that may know of later epochs and have not reported; lost ones are not waited for.

    One failed start of an agent says nothing: the next attempt may find ranks of the very next epoch.
    """
    return sorted(
        name
        for name in world.desired.nodes.keys() | world.memory.agents
        if world.node(name).report is None and not is_lost(world, name)
    )
