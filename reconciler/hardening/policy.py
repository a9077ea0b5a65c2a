"""Decides which machines may connect to a machine: the others of the cluster, over the cables that a Fabric declares
and over the network that joins them. Pure.

Ports of a group are chosen when it is formed, so the rules name machines and interfaces. SSH stays open for everybody,
because the controller uses it, and so does a person who has to undo a mistake.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from ipaddress import IPv4Address

from reconciler.planning.context.world import World
from reconciler.planning.nodes import settings
from reconciler.planning.transport.lan_addresses import known_address
from reconciler.planning.transport.link_addresses import all_addresses
from reconciler.resources import End
from reconciler.state import NodeName

SSH_PORT = 22
_INTERFACE = re.compile("[a-zA-Z][a-zA-Z0-9._-]{0,14}")


@dataclass(frozen=True, slots=True)
class CablePort:
    """One end of a declared cable."""

    interface: str
    own: str
    """Its IPv4 address."""
    peer: str
    """The IPv4 address of the other end."""
    name: str
    """``node-a/3 - node-b/4``, from here to there."""


@dataclass(frozen=True, slots=True)
class Policy:
    """The permitted connections to one machine."""

    node: str
    system: str
    """``uname -s``."""
    user: str
    """The user who runs the ranks."""
    machines: tuple[str, ...]
    """IPv4 addresses of the cluster's machines."""
    cables: tuple[CablePort, ...]
    ports: tuple[int, ...]
    """TCP ports of SSH, which stay open for everybody."""
    unknown: tuple[str, ...]
    """Parts that are left out because they are not known yet, for people."""


def policy(world: World, name: NodeName, own_user: str) -> Policy:
    """Return the policy of a machine that was seen; ``own_user`` runs the ranks of the controller's own machine."""
    report = world.node(name).report
    spec = world.desired.nodes[name].spec
    unknown: list[str] = []
    machines = tuple(_machines(world, unknown))
    cables = tuple(_cables(world, name, unknown))
    return Policy(
        node=name,
        system=report.system if report else "",
        user=spec.ssh.user if spec.ssh else own_user,
        machines=machines,
        cables=cables,
        ports=tuple(sorted({SSH_PORT, spec.ssh.port if spec.ssh else SSH_PORT})),
        unknown=tuple(unknown),
    )


def _machines(world: World, unknown: list[str]) -> Iterator[str]:
    found: set[IPv4Address] = set()
    for name in sorted(world.desired.nodes):
        address = known_address(world, name)
        if address:
            found.add(IPv4Address(address))
        else:
            unknown.append(f"the address of {name} is not known: set spec.address")
    yield from map(str, sorted(found))


def _cables(world: World, name: NodeName, unknown: list[str]) -> Iterator[CablePort]:
    ports = {port.receptacle: port for port in world.node(name).facts.ports}
    for end, other in world.once(settings.ends_of_links).get(name, ()):
        port = ports.get(end.receptacle)
        own, peer = _address(world, end), _address(world, other)
        if port is None or not _INTERFACE.fullmatch(port.interface):
            unknown.append(f"the interface of {end} is not known")
        elif not (own and peer):
            unknown.append(
                f"the addresses of {end} - {other} are not known: set addressing.pool of its Fabric"
            )
        else:
            yield CablePort(port.interface, own, peer, f"{end} - {other}")


def _address(world: World, end: End) -> str:
    """Return the address that an end should have; without a pool, the one that it has."""
    planned = world.desired.once(all_addresses).get(end)
    if planned is not None:
        return str(planned.ip)
    seen = world.node(NodeName(end.node)).facts.ports
    return next((port.address or "" for port in seen if port.receptacle == end.receptacle), "")
