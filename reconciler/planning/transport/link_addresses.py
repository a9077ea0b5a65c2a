"""The addresses of both ends of each declared link: a /30 of the Fabric's pool for each link.

The network of a link follows from its name alone, unless another link has the same place: then the one whose name
comes later takes the next free one. So adding or removing a link moves no other, except rarely one that shares its
place. In a /16 that is one pair of links in 16,384.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from ipaddress import IPv4Interface, IPv4Network

from reconciler.resources import End, Fabric, Link
from reconciler.resources.fabric import LINK_PREFIX
from reconciler.state import Desired

_SIZE = 2 ** (32 - LINK_PREFIX)


def networks(pool: IPv4Network, links: Iterable[Link]) -> dict[Link, IPv4Network]:
    """Return the network of each link. Raises ``ValueError`` if the pool has too little room for them."""
    ordered = sorted(set(links))
    slots = pool.num_addresses // _SIZE
    if len(ordered) > slots:
        raise ValueError(f"{pool} has room for {slots} links, and there are {len(ordered)}")
    wanted = {link: _place(link, slots) for link in ordered}
    taken: dict[int, Link] = {}
    for link, slot in wanted.items():
        taken.setdefault(slot, link)
    for link, slot in wanted.items():
        while taken.setdefault(slot, link) != link:
            slot = (slot + 1) % slots
    base = int(pool.network_address)
    found = {link: IPv4Network((base + slot * _SIZE, LINK_PREFIX)) for slot, link in taken.items()}
    return {link: found[link] for link in ordered}


def fabric_addresses(fabric: Fabric) -> dict[End, IPv4Interface]:
    """Return the address of each end of a Fabric's links, with its /30; empty if it has no pool."""
    pool = fabric.spec.addressing.network
    found: dict[End, IPv4Interface] = {}
    for link, network in networks(pool, fabric.spec.cables).items() if pool else ():
        one, other = network.hosts()
        found[link.one] = IPv4Interface((one, LINK_PREFIX))
        found[link.other] = IPv4Interface((other, LINK_PREFIX))
    return found


def all_addresses(desired: Desired) -> Mapping[End, IPv4Interface]:
    """Return the address of every end that is declared in any Fabric."""
    return {
        end: address
        for _, fabric in sorted(desired.fabrics.items())
        for end, address in fabric_addresses(fabric).items()
    }


def _place(link: Link, slots: int) -> int:
    return int.from_bytes(hashlib.sha256(link.name.encode()).digest()[:8], "big") % slots
