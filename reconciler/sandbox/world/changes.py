"""Changes of emulated machines and cables, and how to undo each. Pure: each function returns the next world.

Every function raises ``NoSuchThing`` for missing things, and ``Invalid`` for impossible changes.
"""

from __future__ import annotations

import hashlib
import ipaddress
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from reconciler.errors import Invalid

from .launchd import Service
from .state import (
    BRIDGE,
    DOMAINS_MAX,
    LAN,
    SHARED,
    SHARING_BRIDGE,
    TB4_GBPS,
    TB5_GBPS,
    Cable,
    End,
    Faults,
    Kept,
    Machine,
    NoSuchThing,
    Port,
    World,
    shown,
)

POOL = "10.77.0.0/16"
"""Addresses for cables of which no manifest says what they are to have."""
DOCK, HUB = "ThunderBay Flex 8", "iVANKY Fusiondock Ultra"
"""A Thunderbolt 3 dock, and a Thunderbolt 5 hub."""
LEAK_BYTES = 64 * 2**30
BOOT_SECONDS = 8.0
"""Time of a restart until SSH answers again."""
PANIC_SECONDS = 90.0
"""Time of a restart after a panic, which first writes its report: longer than the silence of a node before others take
over."""
WATCHDOG_SECONDS = 253.0
"""Time until the watchdog ends the shutdown of a Mac with a process that nothing ends, from an observation."""
AT_THE_LOCK = float("inf")
"""``Machine.away_until`` of a machine whose disk a person has to unlock."""


# --- cables ---


def unplug(world: World, end: End) -> World:
    """Remove the cable in this receptacle, with its other end."""
    if _cable(world, end).plugged:
        return _with_cable(world, end, plugged=False)
    raise Invalid(
        f"nothing is plugged in at {shown(end)}; plug a cable in with: reconciler sandbox plug {shown(end)}"
    )


def pull(world: World, end: End, now: float, boot_id: str, report: str, seconds: float) -> World:
    """Remove the cable in this receptacle while it is used: the kernel of the machine at its other end panics."""
    peer = world.peer_of(end)
    after = unplug(world, end)
    assert peer is not None
    return panic_over_rdma(after, peer[0], now, boot_id, report, seconds)


def plug(world: World, end: End, other: End | None = None) -> World:
    """Plug in the last cable again; or a new cable between two free receptacles."""
    if other is None:
        return _with_cable(world, end, plugged=True)
    for each in (end, other):
        world.port(each)
        if world.link_of(each) is not None:
            raise Invalid(
                f"{shown(each)} already has a cable; unplug it with: reconciler sandbox unplug {shown(each)}"
            )
    if end[0] == other[0]:
        raise Invalid(f"a cable from {end[0]} to itself joins nothing; give two machines")
    fast = world.port(end).thunderbolt5 and world.port(other).thunderbolt5
    kept = tuple(each for each in world.cables if not {end, other} & set(each.ends))
    return replace(world, cables=(*kept, Cable(end, other, TB5_GBPS if fast else TB4_GBPS)))


def swap(world: World, a: End, b: End) -> World:
    """Swap the cables of two receptacles; a second swap restores them."""
    one, other = _cable(world, a), _cable(world, b)
    if one == other:
        raise Invalid(f"{shown(a)} and {shown(b)} are the ends of one cable; give ends of two cables")
    moved = {a: b, b: a}
    cables = tuple(
        replace(each, a=moved.get(each.a, each.a), b=moved.get(each.b, each.b)) for each in world.cables
    )
    for each in cables:
        if each.a[0] == each.b[0]:
            raise Invalid(f"after this swap, a cable would lead from {each.a[0]} to itself")
    return replace(world, cables=cables)


def slow(world: World, end: End, slowly: bool = True) -> World:
    """Replace this cable by a Thunderbolt 4 cable, or by one that is as fast as both machines."""
    fast = all(world.port(each).thunderbolt5 for each in _cable(world, end).ends)
    return _with_cable(world, end, gbps=TB5_GBPS if fast and not slowly else TB4_GBPS, slow_rdma=False)


def slow_rdma(world: World, end: End) -> World:
    """Replace this cable by a Thunderbolt 4 cable, over which RDMA works nevertheless."""
    for each in _cable(world, end).ends:
        if not world.port(each).thunderbolt5:
            raise Invalid(f"{shown(each)} has no Thunderbolt 5, and so no RDMA")
    return _with_cable(slow(world, end), end, slow_rdma=True)


def dock(world: World, end: End, name: str = DOCK) -> World:
    """Put a dock in between, or remove it if the name is empty."""
    return _with_cable(slow(world, end, bool(name)), end, dock=name, dock_seen_by=None)


def hub(world: World, end: End, name: str = HUB) -> World:
    """Put a Thunderbolt 5 hub in between, which this end alone reports, or remove it if the name is empty."""
    return _with_cable(world, end, dock=name, dock_seen_by=end if name else None)


# --- settings of machines ---


def rdma(world: World, name: str, on: bool) -> World:
    """Enable or disable RDMA as ``rdma_ctl`` does in Recovery, which restarts the machine: see ``reboot``."""
    machine = world.machine(name)
    if on and not any(port.thunderbolt5 for port in machine.ports):
        raise Invalid(f"{name} ({machine.model}) has no Thunderbolt 5, and so no RDMA")
    return with_machine(world, name, rdma_enabled=on)


def bridge(world: World, name: str, receptacle: int | None = None, on: bool = True) -> World:
    """Make all ports, or one, members of ``bridge0``, or of no bridge. A member has no address."""
    machine = world.machine(name)
    numbers = _numbers(machine, receptacle)
    ports = tuple(
        replace(port, bridge=BRIDGE if on else "", addresses=() if on else port.addresses)
        if port.receptacle in numbers
        else port
        for port in machine.ports
    )
    return with_machine(world, name, ports=ports, bridge=machine.bridge or on)


def drop_bridge(world: World, name: str) -> World:
    """Take ``bridge0`` away, until the next boot."""
    for port in world.machine(name).ports:
        if port.bridge == BRIDGE:
            world = bridge(world, name, port.receptacle, False)
    return with_machine(world, name, bridge=False, adapter=False)


def set_addresses(world: World, name: str, receptacle: int, *addresses: str) -> World:
    """Give a port these IPv4 addresses (``10.77.0.1/30``), and take all others away."""
    for address in addresses:
        try:
            ipaddress.IPv4Interface(address)
        except ValueError:
            raise Invalid(
                f"{address!r} is not an IPv4 address with its prefix, such as 10.77.0.1/30"
            ) from None
    world.machine(name).port(receptacle)
    return _with_port(world, name, receptacle, addresses=addresses)


def add_address(world: World, name: str, receptacle: int, address: str, first: bool = False) -> World:
    """Give a port one more IPv4 address, before or after the others; one that it has stays where it is."""
    had = world.port((name, receptacle)).addresses
    if address in had:
        return world
    return set_addresses(world, name, receptacle, *((address, *had) if first else (*had, address)))


def lose_ipv4(world: World, name: str, receptacle: int | None = None) -> World:
    for number in _numbers(world.machine(name), receptacle):
        world = _with_port(world, name, number, addresses=())
    return world


def find_ipv4(world: World, name: str, receptacle: int | None = None) -> World:
    """Give ports without an address the one that macOS assigns automatically."""
    machine = world.machine(name)
    for number in _numbers(machine, receptacle):
        port = machine.port(number)
        if not port.bridged and port.address is None:
            world = _with_port(world, name, number, addresses=(self_assigned(port),))
    return world


def readdress(world: World, name: str, receptacle: int | None = None, back: bool = False) -> World:
    """Give ports another automatic address, as macOS does after a conflict or a replug; ``back``: the first again."""
    machine = world.machine(name)
    for number in _numbers(machine, receptacle):
        own = self_assigned(machine.port(number))
        other = str(ipaddress.IPv4Interface(own) + 1)
        world = _with_port(world, name, number, bridge="", addresses=(own if back else other,))
    return world


def second_address(world: World, name: str, receptacle: int | None, first: bool = False) -> World:
    """Give ports their automatic address beside the others."""
    for number in _numbers(world.machine(name), receptacle):
        own = self_assigned(world.port((name, number)))
        world = add_address(world, name, number, own, first)
    return world


def drop_second_address(world: World, name: str, receptacle: int | None) -> World:
    """Take the automatic address of ports away."""
    for number in _numbers(world.machine(name), receptacle):
        port = world.port((name, number))
        left = (each for each in port.addresses if each != self_assigned(port))
        world = _with_port(world, name, number, addresses=tuple(left))
    return world


def keep(world: World, name: str, receptacle: int | None, kept: Callable[[Port], Kept | None]) -> World:
    """Give ports settings, and restore them after each later change; None lets the settings of a port stay."""
    for number in _numbers(world.machine(name), receptacle):
        world = _with_port(world, name, number, kept=kept(world.port((name, number))))
        world = restore(world, name, number)
    return world


def restore(world: World, name: str, receptacle: int) -> World:
    """Restore the settings of a port that were changed, where something keeps them."""
    port = world.port((name, receptacle))
    if port.kept is None or not port.undone:
        return world
    changed = _with_port(world, name, receptacle, bridge=port.kept.bridge, addresses=port.kept.addresses)
    return bridge(changed, name, receptacle) if port.kept.bridge == BRIDGE else changed


def share(world: World, end: End, seconds: float) -> World:
    """Share the internet of a machine over a cable: its port is a member of ``bridge100``, and the port at the other end
    has a lease instead of its addresses, again some time after each change."""
    peer = world.peer_of(end)
    if peer is None:
        raise Invalid(f"nothing is plugged in at {shown(end)}, and so nobody shares its internet")
    world = _with_port(world, *end, bridge=SHARING_BRIDGE, addresses=())
    lease = Kept(seconds, addresses=(f"{SHARED[1 + peer[1]]}/{SHARED.prefixlen}",))
    return keep(world, *peer, lambda _: lease)


def unshare(world: World, end: End) -> World:
    """Share no internet over a cable any more: its ports have no address."""
    ends = world.cable_of(end)
    for each in ends.ends if ends else (end,):
        world = _with_port(world, *each, bridge="", addresses=(), kept=None)
    return world


def move_gid(world: World, name: str, receptacle: int | None, index: int) -> World:
    """Publish the mapped GIDs of all ports of a machine, or of one, at another index, as with more addresses."""
    if not 1 <= index <= 15:
        raise Invalid(f"a mapped GID has an index from 1 to 15, not {index}")
    for number in _numbers(world.machine(name), receptacle):
        world = _with_port(world, name, number, gid_index=index)
    return world


def move(world: World, name: str, back: bool = False) -> World:
    """Give a machine another address in the common network, as a DHCP server does; ``back``: the first again."""
    world.machine(name)
    number = 1 + [machine.name for machine in world.machines].index(name)
    return with_machine(world, name, lan=LAN if back else f"127.0.1.{number}")


def self_assigned(port: Port) -> str:
    """Return the automatic address in 169.254/16 (RFC 3927), which is always the same for a port."""
    digest = hashlib.sha256(port.mac.encode()).digest()
    return f"169.254.{1 + digest[0] % 254}.{digest[1]}/16"


def addressed(world: World, declared: Mapping[End, str] | None = None) -> World:
    """Give every plugged cable a /30 of its own, and take its ports out of the bridge, so that the network is ready.

    ``declared``: the addresses that ends are to have, such as ``10.77.0.1/30``; cables without them get others.
    """
    declared = declared or {}
    taken = {ipaddress.IPv4Interface(each).network for each in declared.values()}
    free = (net for net in ipaddress.IPv4Network(POOL).subnets(new_prefix=30) if net not in taken)
    for cable in (cable for cable in world.cables if cable.plugged):
        named = [declared[end] for end in cable.ends if end in declared]
        addresses = named if len(named) == len(cable.ends) else [f"{host}/30" for host in next(free).hosts()]
        for (name, receptacle), address in zip(cable.ends, addresses, strict=True):
            world = set_addresses(bridge(world, name, receptacle, False), name, receptacle, address)
    return world


def leak_wired(world: World, name: str, leaked_bytes: int = LEAK_BYTES) -> World:
    """Wire memory that belongs to no process; only a restart frees it."""
    free = world.machine(name).memory_bytes - world.machine(name).wired_bytes
    if not 0 <= leaked_bytes < free:
        raise Invalid(f"{name} can have {free / 2**30:g} GiB wired at most")
    return with_machine(world, name, leaked_bytes=leaked_bytes)


def exhaust_pd(world: World, name: str, held: int = DOMAINS_MAX) -> World:
    """Hold protection domains of each device without an owner; only a restart frees them."""
    if not 0 <= held <= DOMAINS_MAX:
        raise Invalid(f"a device has {DOMAINS_MAX} protection domains")
    return with_machine(world, name, domains_held=held)


def leak_killed(world: World, name: str) -> World:
    """Keep the domains of each device and the memory that a killed rank leaks."""
    machine = world.machine(name)
    held = min(DOMAINS_MAX, machine.domains_held + machine.faults.leaked_per_kill)
    wired = machine.leaked_bytes + machine.faults.wired_per_kill
    return with_machine(world, name, domains_held=held, leaked_bytes=min(wired, machine.memory_bytes // 2))


def fault(world: World, name: str, **faults: Any) -> World:
    return with_machine(world, name, faults=replace(world.machine(name).faults, **faults))


# --- boots ---


def panic_over_rdma(world: World, name: str, now: float, boot_id: str, report: str, seconds: float) -> World:
    """Panic in the driver of RDMA; a machine that is fragile stays so."""
    faults = world.machine(name).faults
    after = panic(world, name, now, boot_id, report, seconds)
    after = fault(after, name, panic_percent=faults.panic_percent, panic_seconds=faults.panic_seconds)
    return with_machine(after, name, rdma_panics=(*after.machine(name).rdma_panics, report))


def reboot(world: World, name: str, now: float, boot_id: str, seconds: float = BOOT_SECONDS) -> World:
    """Restart a machine: a new boot id, ``bridge0`` with every port again, no address, no wired limit, and nothing
    held. Settings of its network, and settings that need a person, stay. It shuts down first, then boots for
    ``seconds``."""
    machine = world.machine(name)
    seconds += max(machine.shutdown_seconds, machine.faults.unkillable_seconds)
    kept = Faults(privacy=machine.faults.privacy, partitioned=machine.faults.partitioned)
    return with_machine(
        world, name,
        boot_id=boot_id, boot_at=now + seconds, away_until=AT_THE_LOCK if machine.filevault else now + seconds,
        ports=tuple(replace(port, bridge=BRIDGE, addresses=(), kept=None) for port in machine.ports),
        bridge=True, wired_limit_mb=0, leaked_bytes=0, domains_held=0,
        services=tuple(each.after_boot(machine.background) for each in machine.services),
        faults=replace(kept, ssh_seconds=machine.faults.ssh_seconds),
    )  # fmt: skip


def panic(
    world: World, name: str, now: float, boot_id: str, report: str, seconds: float = PANIC_SECONDS
) -> World:
    """Restart like ``reboot``, and leave a panic report."""
    panics = (*world.machine(name).panics, report)
    return with_machine(reboot(world, name, now, boot_id, seconds), name, panics=panics)


def lock(world: World, name: str, now: float, boot_id: str) -> World:
    """Restart a machine with FileVault: it waits for the password of its disk."""
    return reboot(with_machine(world, name, filevault=True), name, now, boot_id)


def unlock(world: World, name: str, now: float) -> World:
    if world.machine(name).away_until != AT_THE_LOCK:
        raise Invalid(f"{name} does not wait for the password of its disk")
    return with_machine(world, name, away_until=now)


# --- parts ---


def with_service(world: World, name: str, service: Service) -> World:
    others = (each for each in world.machine(name).services if each.label != service.label)
    return with_machine(world, name, services=(*others, service))


def with_machine(world: World, name: str, **changed: Any) -> World:
    return replace_machine(world, name, lambda machine: replace(machine, **changed))


def replace_machine(world: World, name: str, change: Callable[[Machine], Machine]) -> World:
    world.machine(name)
    return replace(
        world, machines=tuple(change(each) if each.name == name else each for each in world.machines)
    )


def with_ports(world: World, name: str, receptacle: int | None, **changed: Any) -> World:
    """Change fields of all ports of a machine, or of one."""
    for number in _numbers(world.machine(name), receptacle):
        world = _with_port(world, name, number, **changed)
    return world


def _with_port(world: World, name: str, receptacle: int, **changed: Any) -> World:
    ports = tuple(
        replace(port, **changed) if port.receptacle == receptacle else port
        for port in world.machine(name).ports
    )
    return with_machine(world, name, ports=ports)


def _numbers(machine: Machine, receptacle: int | None) -> tuple[int, ...]:
    if receptacle is not None:
        return (machine.port(receptacle).receptacle,)
    return tuple(port.receptacle for port in machine.ports)


def _cable(world: World, end: End) -> Cable:
    world.port(end)
    cable = world.cable_of(end)
    if cable is None:
        known = ", ".join(
            sorted(shown(each) for other in world.cables for each in other.ends if each[0] == end[0])
        )
        raise NoSuchThing(f"there is no cable at {shown(end)}; {end[0]} has: {known or 'none'}")
    return cable


def _with_cable(world: World, end: End, **changed: Any) -> World:
    cable = _cable(world, end)
    return replace(
        world, cables=tuple(replace(each, **changed) if each == cable else each for each in world.cables)
    )
