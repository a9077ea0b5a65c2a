"""Facts about a machine from probes, in addition to its agent's report. ``None`` means unknown, which is never fine."""

from __future__ import annotations

from dataclasses import dataclass, field

from reconciler.state.identity import NodeName

THUNDERBOLT5_GBPS = 80
"""The speed of a Thunderbolt 5 link; some have 120 in one direction."""


@dataclass(frozen=True, slots=True)
class PortFacts:
    """One Thunderbolt receptacle with its interface and its RDMA device."""

    receptacle: int
    interface: str = ""
    """The interface, such as ``en3``."""
    device: str = ""
    """RDMA device, such as ``rdma_en3``; empty if there is none."""
    connected: bool | None = None
    """True if something is at the other end of its cable."""
    peer: tuple[NodeName, int] | None = None
    """Node and receptacle at the other end, where both are known."""
    gbps: int | None = None
    """The link's speed, the lower of those that macOS and the RDMA driver report: 80 and 120 are Thunderbolt 5."""
    active: bool | None = None
    verbs_up: bool | None = None
    """True if the device's port is ``PORT_ACTIVE``."""
    bridged: bool | None = None
    """True if the interface is a member of a bridge."""
    other_bridge: str = ""
    """That bridge, if it is not ``bridge0``: Internet Sharing makes ``bridge100``."""
    service: str | None = None
    """The network service of the interface, without which macOS gives it no address by itself; empty if there is
    none."""
    address: str | None = None
    """Its first IPv4 address; empty if there is none."""
    other_addresses: tuple[str, ...] = ()
    """Its further IPv4 addresses."""
    mapped_gid: bool | None = None
    """True if the device has an IPv4-mapped GID."""
    gid_index: int | None = None
    """Index of the first IPv4-mapped GID in the device's table."""
    domain: str = ""
    """UUID of its Thunderbolt domain; empty if it has none, or if that is not known."""
    peer_domain: str = ""
    """The domain UUID of the machine at the other end."""
    through: tuple[str, ...] = ()
    """Docks and hubs between here and there; without a machine, the connected devices."""
    peer_model: str = ""
    """The model of the machine at the other end, such as ``Mac16,5``; empty if unknown."""
    ceiling_gbps: int | None = None
    """The highest speed of the receptacle, which macOS tells of one without a cable."""

    @property
    def addresses(self) -> tuple[str, ...]:
        """Return all known IPv4 addresses."""
        return (self.address, *self.other_addresses) if self.address else ()

    @property
    def unusual(self) -> bool:
        """Return whether a link is up, and slower than those that were tested with RDMA, or leads through a dock."""
        slow = self.gbps is not None and self.gbps < THUNDERBOLT5_GBPS
        return bool(self.connected) and (slow or bool(self.through))


@dataclass(frozen=True, slots=True)
class Route:
    """An IPv4 network that a machine reaches, or is part of, over one of its interfaces."""

    network: str
    """The network, such as ``10.77.0.0/30``."""
    interface: str


@dataclass(frozen=True, slots=True)
class MachineFacts:
    """One machine at one moment. Facts of an earlier boot are void."""

    boot_id: str = ""
    system: str = ""
    """``uname -s``."""
    version: tuple[int, ...] = ()
    """Version of macOS, such as ``(26, 2)``."""
    jaccl: bool | None = None
    """True if the runtime's MLX has the JACCL backend."""
    rdma_enabled: bool | None = None
    """RDMA setting, from ``rdma_ctl status``."""
    ports: tuple[PortFacts, ...] = ()
    ports_named: bool | None = None
    """False if macOS lists no hardware port with the name of a receptacle, such as ``Thunderbolt 2``: no interface is known
    then."""
    verbs_answer: bool | None = None
    """False if a verbs tool did not end in time."""
    protection_domains: int | None = None
    """Number of protection domains held by processes other than our ranks."""
    wired_excess_bytes: int | None = None
    """Wired memory beyond the machine's own while none of our ranks lives there, after it had time to settle."""
    wired_beside_ranks_bytes: int | None = None
    """The lower bound of leaked wired memory while ranks run: the bytes beyond the machine's own and all that the ranks may
    hold. None without ranks, and while their share is not known."""
    launch_context: bool | None = None
    """True if ranks started here may use the local network."""
    panics: int | None = None
    """Panic reports of the last hour."""
    filevault: bool | None = None
    """True if a person must unlock the disk after a reboot."""
    model: str = ""
    """The model, such as ``Mac16,9``."""
    chip: str = ""
    """The chip, such as ``Apple M3 Ultra``."""
    crashes: int | None = None
    """Crash reports of the last hour."""
    memory_kills: int | None = None
    """Reports of the last hour that macOS has killed programs because memory was short (jetsam)."""
    rdma_panics: int | None = None
    """Those of ``panics`` whose backtrace names the driver of RDMA."""
    rdma_panics_of_day: int | None = None
    """The same of the last 24 hours."""
    memory_panics: int | None = None
    """Those of ``panics`` that are about memory."""
    stray_ranks: int | None = None
    """Number of rank processes that no agent looks after."""
    managed: bool | None = None
    """True if an organisation manages it, and may restart it."""
    firewall: bool | None = None
    """True if macOS asks before a program may accept connections; for a daemon, it does not ask."""
    updates_itself: bool | None = None
    """True if it installs updates of macOS by itself, and restarts for them."""
    weights_indexed: bool | None = None
    """True if Spotlight reads the folder of weights."""
    weights_backed_up: bool | None = None
    """True if Time Machine, when it runs, copies the folder of weights."""
    sleeps: bool | None = None
    """True if it goes to sleep while nobody uses it."""
    sleep_minutes: tuple[int, int] | None = None
    """Minutes until it goes to sleep, and until its disks do; 0 for never."""
    routes: tuple[Route, ...] | None = None
    """All routes except the default route and learnt routes to single hosts."""
    default_route: str | None = None
    """The interface of the default route; empty if there is none through a gateway."""
    throttled: bool | None = None
    """True if heat throttles it."""
    bridged_ethernet: tuple[str, ...] = ()
    """Interfaces with an Ethernet cable, such as those of USB adapters, that are members of ``bridge0``."""
    bridge_service: bool | None = None
    """True if macOS creates its Thunderbolt bridge again at every boot."""
    wired_limit_bytes: int | None = None
    """Memory that the GPU may wire; 0 means the system's own limit."""
    working_set_bytes: int | None = None
    """Memory that Metal recommends for the GPU's work, which it may wire while the limit is the system's own."""
    booted_at: float | None = field(default=None, compare=False)
    """Start of the machine's kernel, by its own clock, in seconds since the Unix epoch. A change of this and the
    following facts does not count as news, because setting the clock moves the time."""
    swap_used_bytes: int | None = field(default=None, compare=False)
    disk_free_bytes: int | None = field(default=None, compare=False)
    """Free bytes on the disk with the user's folder, or with the folder of weights, whichever has less."""
    gpu_watts: float | None = field(default=None, compare=False)
    gpu_use: float | None = field(default=None, compare=False)
    """Part of the time in which its GPU works, from 0 to 1."""
    unknown: tuple[tuple[str, str], ...] = field(default=(), compare=False)
    """Probes without a result, with the reason, for people."""

    @property
    def thunderbolt5(self) -> bool | None:
        """Return whether any of its receptacles is known to have Thunderbolt 5; None if that is unknown."""
        ceilings = [port.ceiling_gbps for port in self.ports if port.ceiling_gbps is not None]
        seen = [*ceilings, *(port.gbps for port in self.ports if port.gbps is not None)]
        return max(seen) >= THUNDERBOLT5_GBPS or (False if ceilings else None) if seen else None

    @property
    def gpu_bytes(self) -> int | None:
        """Return how much memory the GPU may wire; None if unknown."""
        return self.wired_limit_bytes or self.working_set_bytes
