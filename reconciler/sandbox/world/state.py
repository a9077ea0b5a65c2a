"""Emulated machines and the cables between them at one moment, and the derived facts. Pure.

The output of a machine's tools and the success of a group both follow from this state, so that they cannot disagree.
"""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass, field

from reconciler.errors import Invalid
from reconciler.source.yaml.field_errors import suggest

from .launchd import Service

TB5_GBPS = 80
"""A Thunderbolt 5 cable; slower ones have no RDMA."""
TB4_GBPS = 40
DOMAINS_MAX = 11
"""Protection domains of one device."""
GIB = 2**30
LAN = "127.0.0.1"
"""The common network, which is loopback."""
BRIDGE, SHARING_BRIDGE = "bridge0", "bridge100"
"""The bridge of Thunderbolt ports, and the one of the ports over which a Mac shares its internet."""
SHARED = ipaddress.IPv4Network("192.168.2.0/24")
"""The network of Internet Sharing: the Mac that shares has the first address, and leases the others."""

End = tuple[str, int]
"""A machine and one of its receptacles."""


class NoSuchThing(Invalid):
    """An unknown machine, receptacle or cable; the text suggests the nearest."""


@dataclass(frozen=True, slots=True)
class Kept:
    """The settings of a port that macOS, or a program on it, restores after each change of them."""

    seconds: float
    """The time from a change until they are restored."""
    bridge: str = ""
    addresses: tuple[str, ...] = ()
    """IPv4 addresses, as those of a port."""


@dataclass(frozen=True, slots=True)
class Port:
    """One Thunderbolt receptacle with its interface, and its RDMA device if it has one."""

    receptacle: int
    interface: str
    """Such as ``en3``."""
    domain: str
    """UUID of its Thunderbolt domain, which plugging does not change."""
    mac: str
    thunderbolt5: bool = True
    bridge: str = BRIDGE
    """The bridge that the interface is a member of; empty for none."""
    addresses: tuple[str, ...] = ()
    """IPv4 with the length of the prefix, such as ``10.77.0.1/30``, in the order of ``ifconfig``."""
    gid_index: int = 1
    """Index of the first IPv4-mapped GID in the device's table, while it has one."""
    hardware_port: str = ""
    """Name of its hardware port; empty for that of its receptacle, such as ``Thunderbolt 2``."""
    service: bool = True
    """True if there is a network service of it, without which macOS gives it no address."""
    kept: Kept | None = None
    """The settings that come back; None if all stay."""

    @property
    def device(self) -> str:
        """Return the RDMA device, such as ``rdma_en3``; empty if the hardware has none."""
        return f"rdma_{self.interface}" if self.thunderbolt5 else ""

    @property
    def label(self) -> str:
        """Return the name of its hardware port."""
        return self.hardware_port or f"Thunderbolt {self.receptacle}"

    @property
    def bridged(self) -> bool:
        return bool(self.bridge)

    @property
    def address(self) -> str | None:
        """Return the first address with its prefix."""
        return next(iter(self.addresses), None)

    @property
    def ips(self) -> tuple[str, ...]:
        """Return the addresses without prefixes; none for a member of a bridge."""
        return () if self.bridged else tuple(str(ipaddress.IPv4Interface(each).ip) for each in self.addresses)

    @property
    def ip(self) -> str:
        """Return the first of ``ips``; empty if there is none."""
        return next(iter(self.ips), "")

    @property
    def lease(self) -> str:
        """Return its address of another Mac that shares its internet; empty if there is none."""
        return next((ip for ip in self.ips if ipaddress.IPv4Address(ip) in SHARED), "")

    @property
    def undone(self) -> bool:
        """Return whether its settings are to be restored: a service brings an address back, and no bridge needs one."""
        kept = self.kept
        differs = kept is not None and (self.bridge, self.addresses) != (kept.bridge, kept.addresses)
        return kept is not None and differs and (self.service or bool(kept.bridge))

    @property
    def has_mapped_gid(self) -> bool:
        """Return whether its device has an IPv4-mapped GID: only while the interface itself has an address."""
        return bool(self.device and self.ip)


@dataclass(frozen=True, slots=True)
class Faults:
    """Faults of a machine other than its settings and cables; none by default."""

    privacy: bool = False
    """Local network privacy: connections to other machines fail at once with errno 65."""
    hung: bool = False
    """True if its ranks hang without ending."""
    unkillable_seconds: float = 0.0
    """Above 0: its kernel holds every rank at its exit, and needs this much more time for a shutdown."""
    verbs_wedged: bool = False
    """The verbs tools never return."""
    gpu: str = ""
    """Result of the GPU's next work: ``timeout`` (once) or ``oom`` (each time)."""
    ports_held: int = 0
    """The number of further ranks that find their port in use."""
    pairs_busy: bool = False
    """Queue pairs fail with errno 16 until the machine restarts, as after the driver has lost track of some."""
    leaked_per_kill: int = 0
    """Protection domains of each device that a killed rank leaves behind."""
    wired_per_kill: int = 0
    """Bytes that such a rank leaves wired."""
    panic_percent: float = 0.0
    """The percentage of killed ranks over RDMA, and of unplugged cables in use, after which its kernel panics."""
    panic_seconds: float = 0.0
    """Time of the restart after that."""
    pairs_refused: bool = False
    """None of its queue pairs can be connected, without any other sign."""
    decayed: bool = False
    """Queue pairs that were made before this fault fail at their next use."""
    idle_seconds: float = 0.0
    """Smallest idle time of its ranks, for its agent."""
    alone: bool = False
    """Groups of its ranks have a size of one, without an error."""
    mute: str = ""
    """While rank 0 makes progress, its answers get lost (``silent``) or break off (``broken``), or its requests get
    lost (``deaf``)."""
    garbage: str = ""
    """Kind of wrong sums that its ranks get over RDMA, without an error: those of large arrays (``sums``), with nothing
    received in the second half of large arrays (``zeros``), or those for long prompts (``long``)."""
    partitioned: bool = False
    """True if it is cut off from the network, except for its Thunderbolt cables."""
    ssh_seconds: float = 0.0
    """Delay of each command over SSH."""


@dataclass(frozen=True, slots=True)
class Machine:
    """One emulated Mac."""

    name: str
    product: str
    """Name for people, such as ``Mac Studio``."""
    model: str
    """Such as ``Mac15,14``."""
    chip: str
    memory_bytes: int
    ports: tuple[Port, ...]
    """Ports by receptacle."""
    boot_id: str
    """UUID of this boot."""
    boot_at: float
    """Seconds since the Unix epoch."""
    version: str = "26.3"
    build: str = "25D125"
    rdma_enabled: bool = True
    jaccl: bool = True
    """True if its runtime's MLX has the JACCL backend."""
    wired_bytes: int = 3 * GIB
    """The memory that it wires itself while no rank runs."""
    leaked_bytes: int = 0
    """The memory that is wired for processes that are gone."""
    wired_limit_mb: int = 0
    """0: the system's default; see ``working_set_bytes``."""
    sleep_minutes: int = 0
    """The time after which it falls asleep; 0 for never."""
    shutdown_seconds: float = 0.0
    """The time of a shutdown, before it starts again."""
    filevault: bool = False
    firewall: bool = False
    """True if its application firewall is on, which lets nobody connect to its ranks."""
    lan: str = LAN
    """Its address in the common network."""
    updates: bool = False
    """True if it installs updates of macOS by itself."""
    weights_indexed: bool = False
    """True if Spotlight reads the folder of weights."""
    weights_backed_up: bool = False
    """True if Time Machine copies the folder of weights."""
    managed: bool = False
    sudo: bool = True
    """True if its user may run tools as root without a password."""
    services: tuple[Service, ...] = ()
    """The services that launchd has a definition of, or has disabled."""
    background: bool = True
    """False if a person has switched its services off under "Allow in the Background"."""
    bridge: bool = True
    """True if there is a ``bridge0``."""
    adapter: bool = False
    """True if ``bridge0`` has a USB adapter with an Ethernet cable as a member too."""
    domains_held: int = 0
    """Protection domains of processes that are gone, on each of its devices."""
    panics: tuple[str, ...] = ()
    """File names of its panic reports."""
    rdma_panics: tuple[str, ...] = ()
    """Those of panics in the driver of RDMA."""
    crashes: tuple[str, ...] = ()
    away_until: float = 0.0
    """The time when it answers again after a restart, in seconds since the Unix epoch; infinite while it waits for a
    person."""
    gids_from: float = 0.0
    """The time when its devices publish the GIDs of their addresses, in seconds since the Unix epoch."""
    faults: Faults = field(default_factory=Faults)

    @property
    def working_set_bytes(self) -> int:
        """Return the memory that Metal lets its GPU wire: two thirds of small memories, three quarters of large
        ones."""
        own = self.memory_bytes * 3 // 4 if self.memory_bytes > 36 * GIB else self.memory_bytes * 2 // 3
        return self.wired_limit_mb * 2**20 or own

    def port(self, receptacle: int) -> Port:
        """Return a port. Raises ``NoSuchThing``."""
        for each in self.ports:
            if each.receptacle == receptacle:
                return each
        numbers = ", ".join(str(each.receptacle) for each in self.ports)
        raise NoSuchThing(f"{self.name} has no receptacle {receptacle}; it has {numbers}")

    def port_of(self, device: str) -> Port | None:
        """Return a port by interface (``en3``) or RDMA device (``rdma_en3``)."""
        return next((each for each in self.ports if device in (each.interface, each.device)), None)

    def service(self, label: str) -> Service:
        return next((each for each in self.services if each.label == label), Service(label))

    def is_up(self, now: float) -> bool:
        """Return whether it has booted; ``now`` in seconds since the Unix epoch."""
        return now >= self.away_until


@dataclass(frozen=True, slots=True)
class Cable:
    """A Thunderbolt cable, possibly with a dock."""

    a: End
    b: End
    gbps: int = TB5_GBPS
    dock: str = ""
    """Name of a dock that it goes through; empty for none."""
    dock_seen_by: End | None = None
    """The only end that reports the dock, and to which its other end is known; None if both report it."""
    slow_rdma: bool = False
    """True if RDMA works over it although it is slow."""
    plugged: bool = True
    """False if it is out of both receptacles; it is remembered, so that it can be plugged in again."""

    @property
    def ends(self) -> tuple[End, End]:
        return self.a, self.b

    @property
    def carries_rdma(self) -> bool:
        return self.plugged and (self.gbps >= TB5_GBPS or self.slow_rdma)

    def docks(self, end: End) -> tuple[str, ...]:
        """Return the docks that this end reports."""
        return (self.dock,) if self.dock and self.dock_seen_by in (None, end) else ()

    @property
    def named(self) -> bool:
        """Return whether each end reports the domain of the other."""
        return not self.dock or self.dock_seen_by is not None

    def other(self, end: End) -> End:
        return self.b if end == self.a else self.a


@dataclass(frozen=True, slots=True)
class World:
    """All machines and cables."""

    machines: tuple[Machine, ...]
    cables: tuple[Cable, ...] = ()
    controller_private: bool = False
    """True if macOS forbids the controller the local network: see ``emulated.controller``."""

    def machine(self, name: str) -> Machine:
        """Return a machine. Raises ``NoSuchThing``."""
        for each in self.machines:
            if each.name == name:
                return each
        names = [each.name for each in self.machines]
        meant = suggest(name, names)
        hint = f"did you mean {meant}?" if meant else f"expected one of {', '.join(names)}"
        raise NoSuchThing(f"there is no emulated machine {name!r}; {hint}")

    def port(self, end: End) -> Port:
        """Return a port. Raises ``NoSuchThing``."""
        return self.machine(end[0]).port(end[1])

    def cable_of(self, end: End) -> Cable | None:
        """Return the cable that is, or was last, in this receptacle."""
        return next((each for each in self.cables if end in each.ends), None)

    def link_of(self, end: End) -> Cable | None:
        """Return the cable in this receptacle if both its ends are plugged in."""
        cable = self.cable_of(end)
        return cable if cable is not None and cable.plugged else None

    def peer_of(self, end: End) -> End | None:
        """Return machine and receptacle at the other end of the cable."""
        cable = self.link_of(end)
        return cable.other(end) if cable else None

    def is_active(self, end: End, now: float) -> bool:
        """Return whether the interface has a carrier: a cable, and a booted machine at its other end."""
        peer = self.peer_of(end)
        return peer is not None and self.machine(end[0]).is_up(now) and self.machine(peer[0]).is_up(now)

    def devices(self, name: str) -> tuple[str, ...]:
        """Return the RDMA devices of a machine; none while RDMA is disabled."""
        machine = self.machine(name)
        return tuple(port.device for port in machine.ports if port.device) if machine.rdma_enabled else ()

    def is_verbs_up(self, end: End, now: float) -> bool:
        """Return whether the port of its device is ``PORT_ACTIVE``: RDMA enabled at both ends of a Thunderbolt 5
        cable."""
        cable = self.link_of(end)
        if cable is None or not cable.carries_rdma or not self.is_active(end, now):
            return False
        return all(self.port(each).device and self.machine(each[0]).rdma_enabled for each in cable.ends)

    def has_mapped_gid(self, end: End, now: float) -> bool:
        """Return whether a port's device publishes an IPv4-mapped GID."""
        return self.port(end).has_mapped_gid and now >= self.machine(end[0]).gids_from

    def in_one_network(self, end: End, other: End) -> bool:
        """Return whether two ports have addresses of one network, without which nothing sent over a cable arrives."""
        networks = {
            ipaddress.IPv4Interface(each).network for each in self.port(end).addresses if self.port(end).ips
        }
        theirs = self.port(other)
        return any(
            ipaddress.IPv4Interface(each).network in networks for each in theirs.addresses if theirs.ips
        )

    def end_of_address(self, ip: str) -> End | None:
        found = ((m.name, port.receptacle) for m in self.machines for port in m.ports if ip in port.ips)
        return next(found, None)


def read_end(text: str) -> End:
    """Parse ``studio-1/3`` as machine and receptacle. Raises ``NoSuchThing``."""
    name, slash, number = text.rpartition("/")
    if not (slash and name and number.isdecimal() and len(number) <= 2):
        raise NoSuchThing(f"{text!r} is not a receptacle; expected NODE/RECEPTACLE, such as studio-1/3")
    return name, int(number)


def shown(end: End) -> str:
    """Return an end as ``studio-1/3``."""
    return f"{end[0]}/{end[1]}"
