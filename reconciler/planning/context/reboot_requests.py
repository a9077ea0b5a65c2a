"""Requests to restart machines, by the boot that is to end, and the progress of each."""

from __future__ import annotations

from dataclasses import replace

from reconciler.resources import Node
from reconciler.state import NodeName, Reboot

from .world import World

AWAY_SECONDS = 900.0
"""Longest time of a restart, shutdown of some minutes included. A machine that answers this long after it was asked to
restart, and still runs in the same boot, was never restarted; one that does not answer by then needs a person."""


def pending(world: World) -> list[NodeName]:
    """List the nodes that are to be restarted and still run in the boot that is to end, in the order of names."""
    if world.desired.stopping:
        return []
    return [name for name, node in sorted(world.desired.nodes.items()) if _is_pending(world, name, node)]


def begun(world: World, name: NodeName) -> Reboot | None:
    """Return the record of a requested restart that has begun; None if none has."""
    node, noted = world.desired.nodes.get(name), world.memory.reboots.get(name)
    if node is None or noted is None or not _is_pending(world, name, node):
        return None
    return noted if noted.boot_id == node.spec.reboot_from else None


def away(world: World, name: NodeName) -> bool:
    """Return whether a requested restart of a machine has begun, and may still be in progress."""
    noted = begun(world, name)
    return noted is not None and _recent(world, noted)


def restarting(world: World, name: NodeName) -> bool:
    """Return whether a machine was asked to restart, for whatever reason, and may still be on its way: a process that
    nothing ends holds up its shutdown for minutes (253 s were seen)."""
    noted = world.memory.reboots.get(name)
    return noted is not None and _recent(world, noted) and world.boot(name) in ("", noted.boot_id)


def _recent(world: World, noted: Reboot) -> bool:
    return noted.requested and abs(world.now - noted.at) < AWAY_SECONDS


def with_reboots_drained(world: World) -> World:
    """Return the world in which the nodes whose restart has begun are drained."""
    nodes = {name: _drained(world.desired.nodes[name]) for name in pending(world) if begun(world, name)}
    if not nodes:
        return world
    return replace(world, desired=replace(world.desired, nodes={**world.desired.nodes, **nodes}))


def _is_pending(world: World, name: NodeName, node: Node) -> bool:
    from_boot, noted = node.spec.reboot_from, world.memory.reboots.get(name)
    if from_boot is None:
        return False
    # A restart is not over just because this controller has not seen the machine yet.
    return world.boot(name) == from_boot or (
        not world.boot(name) and noted is not None and noted.boot_id == from_boot
    )


def _drained(node: Node) -> Node:
    return node.model_copy(update={"spec": node.spec.model_copy(update={"drain": True})})
