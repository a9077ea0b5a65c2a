"""Finds wrong settings of a Mac, with the commands that change them and change them back. Pure.

There are five kinds, as in ``spec.repair``: the network of the Thunderbolt ports of declared links, the memory that
the GPU may have, sleep, updates, and services that read the weights for nothing. An unknown fact needs no change.
"""

from __future__ import annotations

import hashlib
import json
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from ipaddress import IPv4Address, IPv4Interface, IPv4Network
from typing import NamedTuple

from reconciler.planning.context.gpu_memory import left_to_models
from reconciler.planning.context.world import World
from reconciler.planning.transport import fallback
from reconciler.planning.transport.link_addresses import all_addresses
from reconciler.resources import End
from reconciler.resources.node import Repair
from reconciler.state import MachineFacts, NodeName, ObservedRank, PortFacts
from reconciler.wire.repair import Change, needs_root

LINK_MASK, LINK_LOCAL_MASK = "255.255.255.252", "255.255.0.0"
LINK_LOCAL = IPv4Network("169.254.0.0/16")
"""The addresses that macOS gives a port by itself if nobody answers."""
MODELS = "~/.reconciler/models"
"""The folder of weights on a machine, as a person would type it."""
_MIB = 2**20


class Kind(Enum):
    """The field of ``spec.repair`` that allows it, with the same name as here in ``Repair``."""

    NETWORK = "network"
    WIRED_LIMIT = "wiredLimit"
    SLEEP = "sleep"
    UPDATES = "updates"
    WEIGHTS = "weights"

    def allowed(self, repair: Repair) -> bool:
        allowed: bool = getattr(repair, self.name.lower())
        return allowed


@dataclass(frozen=True, slots=True)
class Need:
    """One setting that is not as it should be."""

    kind: Kind
    text: str
    """The fault, for people."""
    changes: tuple[Change, ...]
    """In this order; empty if it is not known how to undo them."""
    against: str = ""
    """Why it must not be changed as things are, for people: something else has to change first. Empty if it
    may."""
    user: str = ""
    """The replica that uses what would be changed: the change waits for its end. Empty for none."""
    undone_by: str = ""
    """The program that undoes the changes where they do not last, and the way to end it, for people; empty if none is
    known."""


def needs(world: World, name: NodeName) -> tuple[Need, ...]:
    """List everything that is wrong with a machine, whether its Node allows a change or not, the network first."""
    return world.once_as_decided(_needs, name)


def _needs(world: World, name: NodeName) -> tuple[Need, ...]:
    node = world.node(name)
    if name not in world.desired.nodes or node.report is None or node.report.system != "Darwin":
        return ()
    return (
        *_network(world, name),
        *_wired_limit(world, name),
        *_sleep(world, name),
        *_updates(world, name),
        *_weights(world, name),
    )


def identity(boot_id: str, changes: Sequence[Change]) -> str:
    written = json.dumps([boot_id, *(change.argv for change in changes)])
    return hashlib.sha256(written.encode()).hexdigest()[:12]


def commands(needs: Sequence[Need]) -> str:
    """Write the commands that a person would type; empty if none helps."""
    return "; ".join(_typed(change.argv) for need in needs for change in need.changes)


def _typed(argv: Sequence[str]) -> str:
    words = " ".join(argv).replace("{models}", MODELS)
    return f"sudo {words}" if needs_root(argv) else words


_MADE: Mapping[str, Callable[[MachineFacts], bool | None]] = {
    "pmset": lambda facts: facts.sleeps,
    "defaults": lambda facts: facts.updates_itself,
    "touch": lambda facts: facts.weights_indexed,
    "tmutil": lambda facts: facts.weights_backed_up,
}
"""By tool, the fact that it makes False."""


def confirmed(change: Change, facts: MachineFacts) -> bool:
    """Return whether the facts show that a change was made. An unknown fact does not."""
    tool, *words = change.argv
    if tool == "sysctl":
        megabytes = int(words[0].partition("=")[2])
        return facts.wired_limit_bytes == megabytes * _MIB
    if tool in _MADE:
        return _MADE[tool](facts) is False
    interface = words[-1] if words[0] == "bridge0" else words[0]
    port = next((port for port in facts.ports if port.interface == interface), None)
    if port is None:
        return False
    if words[0] == "bridge0":
        return port.bridged is False
    address = words[2]
    if words[-1] == "delete":
        return port.address is not None and address not in port.addresses
    return address in port.addresses


# --- the network -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Plug:
    """One end of a declared link, as observed."""

    port: PortFacts
    other: End
    planned: IPv4Interface | None
    """Its address; None if its Fabric has no pool."""


def _network(world: World, name: NodeName) -> Iterator[Need]:
    plugs = tuple(_plugs(world, name))
    moving = {plug.port.interface for plug in plugs if previous_mask(world, plug.port.address or "")}
    for plug in plugs:
        need = _of_port(world, name, plug, moving)
        if need is not None:
            yield need


def _plugs(world: World, name: NodeName) -> Iterator[_Plug]:
    """Yield the ports with the cable that is declared for them."""
    planned = world.desired.once(all_addresses)
    ports = {port.receptacle: port for port in world.node(name).facts.ports}
    for end, other in world.once(ends_of_links).get(name, ()):
        port = ports.get(end.receptacle)
        if port and port.interface and port.connected and port.peer == other:
            yield _Plug(port, End(*other), planned.get(end))


def ends_of_links(world: World) -> dict[str, list[tuple[End, End]]]:
    """Return the ends of all declared links by their nodes, each with the other end of its link."""
    found: dict[str, list[tuple[End, End]]] = {}
    for _, fabric in sorted(world.desired.fabrics.items()):
        for link in fabric.spec.cables:
            for end, other in ((link.one, link.other), (link.other, link.one)):
                found.setdefault(end.node, []).append((end, other))
    return found


def _of_port(world: World, name: NodeName, plug: _Plug, moving: set[str]) -> Need | None:
    port = plug.port
    if port.bridged is None or port.other_bridge:
        return None
    flaws = [f"{port.interface} is a member of bridge0"] if port.bridged else []
    changes = [bridge(port)] if port.bridged else []
    cut = world.node(name).facts.bridged_ethernet if port.bridged else ()
    if cut:
        return Need(Kind.NETWORK, f"{name}/{port.receptacle}: {flaws[0]}", (), _would_cut(name, port, cut))
    against = ""
    if plug.planned and port.address is not None and str(plug.planned.ip) not in port.addresses:
        has = f"has {port.address or 'no IPv4 address'}"
        flaws.append(f"{port.interface} {has} and is to have {plug.planned.ip}")
        against = _obstacle(world, name, plug, plug.planned.network, moving)
        changes += [] if against else _addresses(world, port, plug.planned.ip)
    if not flaws:
        return None
    user = _user(world, name, NodeName(plug.other.node))
    text = f"{name}/{port.receptacle}: {', '.join(flaws)}"
    return Need(Kind.NETWORK, text, tuple(changes), against, user, _undone_by(name, plug))


def _would_cut(name: NodeName, port: PortFacts, ethernet: Sequence[str]) -> str:
    others = "; ".join(_typed(taken_out(each)) for each in ethernet)
    return (
        f"bridge0 of {name} also has {' and '.join(ethernet)}, with an Ethernet cable that a change of the bridge may cut"
        f" off: take that out first, on {name}: {others}; or, if nothing is reached that way: {_typed(bridge(port).argv)}"
    )


_OTHERS = (
    "where they come undone by themselves, end what sets the network there, such as exo's io.exo.networksetup: sudo"
    " launchctl list"
)


def _undone_by(name: NodeName, plug: _Plug) -> str:
    """Name what sets a port otherwise: only macOS gives an address of ``LINK_LOCAL``, and only to a port with a
    service."""
    port = plug.port
    own = bool(port.address) and IPv4Address(port.address or "") in LINK_LOCAL
    if not (own and port.service and plug.planned):
        return _OTHERS
    service = shlex.quote(port.service)
    return (
        f"macOS gives {port.interface} of {name} {port.address} by itself, as its network service {service} asks:"
        f" sudo networksetup -setmanual {service} {plug.planned.ip} {LINK_MASK}; {_OTHERS}"
    )


def bridge(port: PortFacts) -> Change:
    """Take a port out of the bridge."""
    return Change(taken_out(port.interface), ("ifconfig", "bridge0", "addm", port.interface))


def taken_out(interface: str) -> tuple[str, ...]:
    """Return the command that takes an interface out of the bridge."""
    return ("ifconfig", "bridge0", "deletem", interface)


def _addresses(world: World, port: PortFacts, wanted: IPv4Address) -> list[Change]:
    """Change an address: the old one is removed first, so that each step is undone exactly."""
    found = []
    if port.address:
        mask = previous_mask(world, port.address)
        found.append(Change(remove(port, port.address), set_address(port, port.address, mask)))
    found.append(Change(set_address(port, str(wanted), LINK_MASK), remove(port, str(wanted))))
    return found


def set_address(port: PortFacts, address: str, mask: str) -> tuple[str, ...]:
    """Return the command that gives a port an address."""
    return ("ifconfig", port.interface, "inet", address, "netmask", mask)


def remove(port: PortFacts, address: str) -> tuple[str, ...]:
    """Return the command that removes a port's address."""
    return ("ifconfig", port.interface, "inet", address, "delete")


def previous_mask(world: World, address: str) -> str:
    """Return the mask of an address that macOS or this controller has given; empty for any other."""
    if not address:
        return ""
    if IPv4Address(address) in LINK_LOCAL:
        return LINK_LOCAL_MASK
    pools = [fabric.spec.addressing.network for fabric in world.desired.fabrics.values()]
    return LINK_MASK if any(pool and IPv4Address(address) in pool for pool in pools) else ""


class ForeignAddress(NamedTuple):
    """An address of a port that neither macOS nor this controller has given, such as a lease of the other end."""

    port: PortFacts
    address: str
    other: End
    """The other end of its cable."""


def foreign_addresses(world: World, name: NodeName) -> tuple[ForeignAddress, ...]:
    """List those of the ports that have an address in a Fabric."""
    return tuple(
        ForeignAddress(plug.port, address, plug.other)
        for plug in _plugs(world, name)
        for address in plug.port.addresses
        if plug.planned and not previous_mask(world, address)
    )


def _obstacle(world: World, name: NodeName, plug: _Plug, planned: IPv4Network, moving: set[str]) -> str:
    """Say why a port must not have its address, from the ``planned`` network; empty if it may."""
    facts, port = world.node(name).facts, plug.port
    if port.address and not previous_mask(world, port.address):
        return (
            f"{port.interface} of {name} has the address {port.address} from somebody else: remove it"
            f" (sudo {' '.join(remove(port, port.address))}), or take the link out of its Fabric; if it comes back,"
            f" switch off Internet Sharing on {plug.other.node} (System Settings, General, Sharing)"
        )
    if facts.routes is None:
        return f"it is not known which networks {name} reaches, and so whether its address is free"
    for route in facts.routes:
        if IPv4Network(route.network).overlaps(planned) and route.interface not in {port.interface, *moving}:
            return (
                f"{planned} overlaps {route.network}, which {name} reaches over {route.interface}: give the Fabric"
                " another addressing.pool"
            )
    return ""


def _user(world: World, name: NodeName, other: NodeName) -> str:
    """Name the replica whose group uses, or is about to use, the cable between two nodes; empty for none."""
    for replica, record in sorted(world.memory.groups.items()):
        if not fallback.crosses(record, name, other):
            continue
        ranks = world.observed.group(record)
        if any(rank.alive for rank in ranks.values()):
            return str(replica)
        begun = any(not rank.alive for rank in ranks.values())
        if not begun and fallback.wiring(world, fallback.used(record), record.members) is not None:
            return str(replica)
    alive = (rank for rank in world.observed.ranks_on(name) if rank.alive)
    strays = [str(rank.workload) for rank in alive if not _of_group(world, rank)]
    return strays[0] if strays else ""


def _of_group(world: World, rank: ObservedRank) -> bool:
    """Return whether a rank belongs to its replica's current group. The needs of an earlier group are unknown."""
    record = world.memory.groups.get(rank.workload)
    return record is not None and record.epoch == rank.report.id.epoch


# --- the machine itself ------------------------------------------------------------------------------


def _wired_limit(world: World, name: NodeName) -> Iterator[Need]:
    """Yield the memory that ``spec.memory`` leaves to models; nothing if it says nothing."""
    memory, facts, report = (
        world.desired.nodes[name].spec.memory,
        world.node(name).facts,
        world.node(name).report,
    )
    configured = memory.limit is not None or memory.reserve
    if report is None or facts.wired_limit_bytes is None or not configured:
        return
    wanted = left_to_models(memory, report) // _MIB
    if wanted <= 0 or facts.wired_limit_bytes == wanted * _MIB:
        return
    before = facts.wired_limit_bytes // _MIB
    text = f"the GPU of {name} may wire {before or 'what macOS lets it'} and is to have {wanted} MiB"
    change = Change(wire(wanted), wire(before))
    yield Need(Kind.WIRED_LIMIT, text, (change,), user=_living(world, name))


def wire(megabytes: int) -> tuple[str, ...]:
    """Return the command that sets how much the GPU may wire; 0 leaves it to macOS."""
    return ("sysctl", f"iogpu.wired_limit_mb={megabytes}")


def _living(world: World, name: NodeName) -> str:
    alive = [str(rank.workload) for rank in world.observed.ranks_on(name) if rank.alive]
    return alive[0] if alive else ""


def _sleep(world: World, name: NodeName) -> Iterator[Need]:
    """Yield a machine that falls asleep: RDMA does not wake it (Apple TN3205)."""
    facts = world.node(name).facts
    if not facts.sleeps or facts.sleep_minutes is None:
        return
    sleep, disk = facts.sleep_minutes
    text = f"{name} falls asleep after {sleep} min"
    yield Need(Kind.SLEEP, text, (Change(sleep_after(0, 0), sleep_after(sleep, disk), lasting=True),))


def sleep_after(minutes: int, disk_minutes: int) -> tuple[str, ...]:
    """Return the command that sets when a machine and its disks fall asleep; 0 for never."""
    return ("pmset", "-a", "sleep", str(minutes), "disksleep", str(disk_minutes))


def _updates(world: World, name: NodeName) -> Iterator[Need]:
    """Yield a machine that restarts by itself for an update, and then has another build than the others."""
    if not world.node(name).facts.updates_itself:
        return
    text = f"{name} installs updates of macOS by itself"
    yield Need(Kind.UPDATES, text, (Change(update_itself("false"), update_itself("true"), lasting=True),))


def update_itself(value: str) -> tuple[str, ...]:
    """Return the command that sets whether macOS installs its updates by itself: ``true`` or ``false``."""
    key = ("/Library/Preferences/com.apple.SoftwareUpdate", "AutomaticallyInstallMacOSUpdates")
    return ("defaults", "write", *key, "-bool", value)


def _weights(world: World, name: NodeName) -> Iterator[Need]:
    """Yield the services that read hundreds of gigabytes for nothing while ranks load."""
    facts = world.node(name).facts
    if facts.weights_indexed:
        mark = "{models}/.metadata_never_index"
        change = Change(("touch", mark), ("unlink", mark), lasting=True)
        yield Need(Kind.WEIGHTS, f"Spotlight reads the weights of {name}", (change,))
    if facts.weights_backed_up:
        change = Change(
            ("tmutil", "addexclusion", "{models}"), ("tmutil", "removeexclusion", "{models}"), lasting=True
        )
        yield Need(Kind.WEIGHTS, f"Time Machine copies the weights of {name}", (change,))
