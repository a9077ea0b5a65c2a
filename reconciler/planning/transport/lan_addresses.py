"""Finds the addresses at which the nodes of a group reach each other without a cable."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence

from reconciler.planning.context.world import World
from reconciler.state import NodeName

LOOPBACK = "127.0.0.1"


def lan_addresses(world: World, members: Sequence[NodeName]) -> tuple[str, ...] | str:
    """Return an IPv4 address for each node; else say why there is none for one of them, and what to do.

    ``spec.address`` comes first, then the address at which the controller, or the last jump host, reaches the node.
    For nodes on the controller's own machine it is the address from which the others are reached.
    """
    if len(members) == 1 or all(_own(world, name) for name in members):
        return (LOOPBACK,) * len(members)
    found = []
    for name in members:
        address = _declared(world, name) or (
            _seen_from(world, members) if _own(world, name) else _seen_at(world, name)
        )
        if not _is_ipv4(address):
            at = (
                f"is reached at {address}, which is no IPv4 address"
                if address
                else "is reached at no known address"
            )
            return f"{name} {at}: set spec.address to the IPv4 address at which the other nodes reach it"
        found.append(address)
    return tuple(found)


def known_address(world: World, name: NodeName) -> str:
    """Return the IPv4 address at which other machines reach a node; empty if it is not known."""
    every = sorted(world.desired.nodes)
    if all(_own(world, each) for each in every):
        return _declared(world, name) or LOOPBACK
    own = _own(world, name)
    seen = _seen_from(world, every) if own else _seen_at(world, name)
    ssh = world.access(name).ssh
    return next(filter(_is_ipv4, (_declared(world, name), seen, ssh.host if ssh and not own else "")), "")


def _own(world: World, name: NodeName) -> bool:
    """Return whether it is the controller's own machine."""
    there = world.node(name).ends.there
    return world.access(name).ssh is None or (_is_ipv4(there) and ipaddress.ip_address(there).is_loopback)


def _declared(world: World, name: NodeName) -> str:
    node = world.desired.nodes.get(name)
    return (node.spec.address or "") if node else ""


def _seen_at(world: World, name: NodeName) -> str:
    ends = world.node(name).ends
    return ends.there or ends.inner[0]


def _seen_from(world: World, members: Sequence[NodeName]) -> str:
    """Return the controller's end of the connections to the others."""
    ends = (world.node(name).ends.here for name in members if not _own(world, name))
    return next((here for here in ends if here), "")


def _is_ipv4(address: str) -> bool:
    try:
        return isinstance(ipaddress.ip_address(address), ipaddress.IPv4Address)
    except ValueError:
        return False
