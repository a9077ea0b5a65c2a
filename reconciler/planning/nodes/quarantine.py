"""Nodes that are kept out: silent for too long, or with leftovers of old ranks.

Computed in each pass, never stored. During it, nothing new is placed on such a node, and no group that misses a
rank there waits for it. A rank that may run there stays charged, and is not part of a new group.
"""

from __future__ import annotations

from reconciler.planning.context import reboot_requests
from reconciler.planning.context.lost_nodes import cut_off, is_lost
from reconciler.planning.context.world import World
from reconciler.state import Contact, FaultClass, NodeName, NodeObservation, ObjectKey, Quarantine, Trouble

from . import leftovers


def reason(world: World, name: NodeName) -> str:
    """Say why a node is kept out, for people; empty where it may be used."""
    found = quarantine_of(world, name)
    return found.text if found else ""


def quarantine_of(world: World, name: NodeName) -> Quarantine | None:
    """Return the first rule that keeps a node out; None where none does."""
    return _lost(world, name) or _holding(world, name)


def troubles(world: World, names: list[NodeName]) -> tuple[Trouble, ...]:
    """List what is wrong with these nodes themselves, from the first moment that it is seen."""
    found = [_silent_trouble(world, name) for name in names] + [
        _leftover_trouble(world, name) for name in names
    ]
    return tuple(trouble for trouble in found if trouble is not None)


# --- nodes that are lost ---------------------------------------------------------------------------


def _lost(world: World, name: NodeName) -> Quarantine | None:
    if not is_lost(world, name):
        return None
    node = world.node(name)
    if node.contact is Contact.AGENT_DOWN:
        text = f"its agent cannot be started: {node.problem}"
        return Quarantine(name, FaultClass.HOST_UNREACHABLE, "AgentCannotStart", text, _person(node))
    text = f"it does not answer: {node.problem}"
    return Quarantine(name, FaultClass.HOST_UNREACHABLE, "NotAnswering", text, _person(node))


def _silent_trouble(world: World, name: NodeName) -> Trouble | None:
    node = world.node(name)
    if reboot_requests.away(world, name):
        return None  # it is meant to
    if not cut_off(world, node) or (name not in world.desired.nodes and name not in world.memory.agents):
        return None
    gone = is_lost(world, name)
    doing = "its groups are formed elsewhere" if gone else "it is waited for; its groups get no requests"
    if node.contact is Contact.AGENT_DOWN:
        doing = f"start its agent{'; its groups are formed elsewhere' if gone else ''}"
    key = ObjectKey("Node", name)
    seen = f"{name} does not answer: {node.problem}"
    person = _person(node) if gone else ""
    return Trouble(key, f"node/{name}", FaultClass.HOST_UNREACHABLE, seen, doing, person)


def _person(node: NodeObservation) -> str:
    if node.contact is Contact.AGENT_DOWN:
        return f"make what the agent's last words name right on {node.name}; it is started again by itself"
    return (
        f"see that {node.name} is switched on, unlocked and on the network, and that its agent is not stopped"
        f" (ps: state T; kill -CONT continues it); if it is gone for good: reconciler delete node {node.name}"
    )


# --- nodes that keep what ranks held ---------------------------------------------------------------


def _holding(world: World, name: NodeName) -> Quarantine | None:
    for kept in leftovers.leftovers(world, name):
        if kept.seconds >= leftovers.SETTLE_SECONDS:
            return Quarantine(name, kept.fault, kept.reason, kept.text, kept.person)
    return None


def _leftover_trouble(world: World, name: NodeName) -> Trouble | None:
    for kept in leftovers.leftovers(world, name):
        if kept.seconds < leftovers.REPORT_AFTER_SECONDS:
            continue
        settled = kept.seconds >= leftovers.SETTLE_SECONDS
        doing = "nothing new is started there" if settled else "wait until it is freed"
        person = kept.person if settled else ""
        return Trouble(
            ObjectKey("Node", name), f"node/{name}", kept.fault, f"{name}: {kept.text}", doing, person
        )
    return None
