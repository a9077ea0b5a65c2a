"""Fallback: which transport of a deployment's list the facts allow, and why those before it are skipped.

From the fastest down: ``jaccl`` and ``jaccl-ring`` are RDMA over Thunderbolt, as a mesh and as a ring; ``ring`` is
TCP over the Thunderbolt cables; ``ring-lan`` is TCP over whatever network there is. Every transport but the last
needs facts that say that it works: an unknown fact is never fine. One that failed is left alone until a fact that
it failed under has changed. A fact may also have changed and changed back before anybody looked, so such a transport is
tried again after an hour, and later each time that fails.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from ipaddress import IPv4Address

from reconciler.planning.context import attempt_facts
from reconciler.planning.context.memory_ledger import Placed
from reconciler.planning.context.world import CLOCK_JUMP_SECONDS, World
from reconciler.planning.diagnosis import detectors
from reconciler.planning.diagnosis.evidence import Evidence, rank_pairs, towards
from reconciler.resources import End, ModelDeployment
from reconciler.state import FaultClass, GroupRecord, NodeName, PortFacts, TransportFailure, WorkloadId
from reconciler.state.machine.facts import THUNDERBOLT5_GBPS
from reconciler.transports import (
    BACKENDS,
    CABLES,
    GID_INDEX,
    LAN,
    MESH,
    RINGS,
    VERBS,
    VERBS_ATTEMPTS_MAX,
    WIRES_MAX,
)
from reconciler.wire.launch import DEVICES_JOINT

from . import lan_addresses
from .link_addresses import all_addresses

RETRY_SECONDS_MIN = 3600.0
RETRY_SECONDS_MAX = 86_400.0
"""A transport that failed is left alone for an hour, doubled with each trial that fails, up to a day."""
_MACHINE_DETECTORS = (
    detectors.old_system,
    detectors.old_runtime,
    detectors.no_thunderbolt5,
    detectors.rdma_disabled,
    detectors.wedged,
    detectors.slow_link,
    detectors.rdma_panicking,
    detectors.shared_port,
    detectors.port_configuration,
    detectors.no_gid,
    detectors.gid_index,
    detectors.link_down,
    detectors.rdma_port_down,
)


@dataclass(frozen=True, slots=True)
class Transport:
    """A transport for a group, and why those before it were skipped, for people; both empty for a single rank."""

    name: str
    why: str


@dataclass(frozen=True, slots=True)
class Wiring:
    """The ways in which the ranks of a group reach each other, in the order of ranks."""

    backend: str
    """MLX's name of it."""
    hosts: tuple[str, ...]
    """The address at which each rank's neighbour finds it."""
    devices: tuple[tuple[str, ...], ...] = ()
    """For each rank, by peer, its RDMA devices as ``RankConfig.devices`` has them."""
    ring: bool = False
    """True if RDMA is used as a ring."""
    controls: tuple[str, ...] = ()
    """The address at which each other rank finds rank 0, in the order of ranks from 1 on; empty if all find it at
    the first of ``hosts``."""

    def addresses(self, port: int) -> tuple[str, ...]:
        """Return the address of each rank, as in ``RankConfig.addresses``; ``port`` is the first of the group's."""
        return tuple(f"{host}:{port + rank}" for rank, host in enumerate(self.hosts))

    def controls_at(self, port: int) -> tuple[str, ...]:
        """Return the address at which each rank finds rank 0's control channel, and for rank 0 where it listens first.

        The channel's port is the one after the ports of the ranks; ``port`` is the first of the group's.
        """
        size = len(self.hosts)
        hosts = self.controls or self.hosts[:1] * max(1, size - 1)
        return tuple(f"{host}:{port + size}" for host in (hosts[0], *hosts)[:size])

    def accepted_at(self, port: int) -> tuple[str, ...]:
        """Return all addresses at which rank 0 listens, each once."""
        return tuple(dict.fromkeys(self.controls_at(port)))


def choose(world: World, workload: WorkloadId, transports: Sequence[str], members: Placed) -> Transport | str:
    """Choose the first of the wanted transports that may be used now; else say why none may."""
    if len(members) == 1:
        return Transport("", "")
    skipped: list[tuple[str, str]] = []
    for transport in transports:
        why = obstacle(world, workload, transport, members)
        if not why:
            return Transport(transport, _skipped_text(skipped))
        skipped.append((transport, why))
    return _skipped_text(skipped)


def obstacle(world: World, workload: WorkloadId, transport: str, members: Placed) -> str:
    """Say why a transport may not be used by a group on these nodes; empty if it may."""
    failed = failure(world, workload, transport)
    if failed is not None and not may_be_tried(failed, world.now):
        return failed.text
    if transport in CABLES:
        flaw = next(_flaws(world, transport, members), "") or _carried(world, workload, transport, members)
        found = _controls(world, members)
        return flaw or (found if isinstance(found, str) else "")
    hosts = lan_addresses.lan_addresses(world, members)
    return hosts if isinstance(hosts, str) else ""


def failure(world: World, workload: WorkloadId, transport: str) -> TransportFailure | None:
    """Return the failure of a transport that has not served the workload since; None if there is none. With no kernel
    objects left for RDMA, or wrong results over it, both its shapes have failed."""

    def concerns(failed: TransportFailure) -> bool:
        both = retried_at(failed) is None and {failed.transport, transport} <= set(VERBS)
        return failed.transport == transport or both

    return next((f for f in world.memory.transport_failures.get(workload, ()) if concerns(f)), None)


def retried_at(failed: TransportFailure) -> float | None:
    """Return when a transport may be tried again under the same facts, in seconds of the controller's clock; None if
    only a restart of the machine frees what it needs, or only another version gives right results."""
    if failed.fault in (FaultClass.KERNEL_OBJECTS, FaultClass.WRONG_RESULTS):
        return None
    return failed.at + min(RETRY_SECONDS_MAX, RETRY_SECONDS_MIN * 2.0 ** min(failed.trials, 10))


def may_be_tried(failed: TransportFailure, now: float) -> bool:
    """Return whether a transport has been left alone for long enough. A time that lies ahead was written before the
    clock was set back, and is over."""
    until = retried_at(failed)
    return until is not None and (now >= until or now < failed.at - CLOCK_JUMP_SECONDS)


def used(record: GroupRecord) -> str:
    """Return the transport of a group; one from before there was a choice uses the last.

    Empty for a single rank, and for an adopted group, whose ranks do not say.
    """
    before = LAN if record.secret else ""
    return record.transport or before if len(record.members) > 1 else ""


def crosses(record: GroupRecord, one: NodeName, other: NodeName) -> bool:
    """Return whether a group has connections over the cables between two nodes.

    These are the cables of its transport, and those over which its other ranks have found rank 0, as in
    ``_controls``; if its transport is not known, all of them.
    """
    members, transport = record.members, used(record) or MESH
    if one not in members or other not in members or transport not in CABLES:
        return False
    pair = (min(one, other), max(one, other))
    found = members[0] in pair and attempt_facts.carried(record.facts, one, other)
    return pair in _joined(transport, members) or found


def lower(deployment: ModelDeployment, transport: str) -> bool:
    """Return whether the deployment's list has a transport after this one."""
    transports = deployment.spec.transport
    return transport in transports and transports.index(transport) + 1 < len(transports)


def wiring(world: World, transport: str, members: Placed) -> Wiring | None:
    """Return how a group on this transport is wired; None while facts that it needs are not known."""
    if transport not in CABLES:
        found = lan_addresses.lan_addresses(world, members)
        return None if isinstance(found, str) else Wiring(BACKENDS[LAN], found)
    behind = [_port(world, name, members[at - 1]) for at, name in enumerate(members)]
    if any(port is None or not port.address for port in behind):
        return None
    hosts, controls = tuple(port.address or "" for port in behind if port), _controls(world, members)
    if isinstance(controls, str):
        return None
    if transport not in VERBS:
        return Wiring(BACKENDS[transport], hosts, controls=controls)
    devices = _devices(world, transport, members)
    return Wiring(BACKENDS[transport], hosts, devices, transport in RINGS, controls) if devices else None


def _controls(world: World, members: Placed) -> tuple[str, ...] | str:
    """Return the address at which each rank from 1 on finds rank 0; else say why it is not known.

    A rank uses the cable that joins the two, because nothing routes between the cables of a Mac, or else the network.
    """
    found = []
    for name in members[1:]:
        here, there = _port(world, members[0], name), _port(world, name, members[0])
        if here and there and here.connected and there.connected and _reach(here, there):
            found.append(here.address or "")
            continue
        hosts = lan_addresses.lan_addresses(world, members)
        if isinstance(hosts, str):
            return f"no cable joins {members[0]} and {name}, and {hosts}"
        found.append(hosts[0])
    return tuple(found)


# --- what facts say --------------------------------------------------------------------------------


def _flaws(world: World, transport: str, members: Placed) -> Iterator[str]:
    """Yield why a transport that uses the cables is not available, the plainest reason first."""
    verbs = transport in VERBS
    nodes = tuple(world.node(name) for name in members)
    for node in nodes:
        system = node.facts.system or (node.report.system if node.report else "")
        if verbs and system not in ("", "Darwin"):
            yield f"{node.name} runs {system}, and RDMA over Thunderbolt needs macOS"
    untested = world.desired.untested_ends
    evidence = Evidence(nodes, verbs=verbs, cables=True, ring=transport in RINGS, untested=untested)
    for detect in _MACHINE_DETECTORS:
        detection = detect(evidence)
        if detection is not None:
            yield detection.text
    if verbs:
        yield from _unknown_facts(world, members)
        yield from _exhausted_verbs(world, members)
    for a, b in rank_pairs(len(members), transport != MESH):
        yield from _unjoined(world, (members[a], members[b]), verbs)


def _unknown_facts(world: World, members: Placed) -> Iterator[str]:
    """Yield facts that have to be known of each machine and are not."""
    for name in members:
        facts = world.node(name).facts
        if not facts.ports:
            yield f"no RDMA device is known on {name}"
        if facts.jaccl is None or facts.rdma_enabled is None or not facts.version:
            yield f"it is not known whether RDMA is enabled on {name}"


def _exhausted_verbs(world: World, members: Placed) -> Iterator[str]:
    """Yield machines on which RDMA was set up too often to try it again before they restart."""
    for name in members:
        attempts = world.memory.verbs.get(name)
        if attempts and attempts.boot_id == world.boot(name) and attempts.count >= VERBS_ATTEMPTS_MAX:
            yield f"setting up RDMA failed {attempts.count} times on {name} since it booted, as often as is safe"


def _unjoined(world: World, pair: tuple[NodeName, NodeName], verbs: bool) -> Iterator[str]:
    """Yield what keeps two neighbours from using a cable between them."""
    for here, there in (pair, pair[::-1]):
        port = _port(world, here, there)
        if port is None or not port.connected:
            yield f"no Thunderbolt cable is known between {pair[0]} and {pair[1]}"
        elif not port.address:
            yield f"no IPv4 address of {here}/{port.receptacle} is known"
        elif verbs and not (port.device and port.verbs_up and port.gbps is not None):
            yield f"no working RDMA device is known at {here}/{port.receptacle}"
    one, other = _port(world, *pair), _port(world, *pair[::-1])
    if one and other and one.address and other.address and not _reach(one, other):
        yield (
            f"{one.address} of {pair[0]}/{one.receptacle} and {other.address} of {pair[1]}/{other.receptacle} do not"
            " reach each other"
        )


def _reach(one: PortFacts, other: PortFacts) -> bool:
    """Return whether the ends of a cable have addresses that may be of one network: one that macOS gives by itself
    (169.254/16) reaches no other."""
    ends = [IPv4Address(port.address) for port in (one, other) if port.address]
    return len(ends) == 2 and ends[0].is_link_local == ends[1].is_link_local


def _carried(world: World, workload: WorkloadId, transport: str, members: Placed) -> str:
    """Say which other group has the RDMA devices at the ends of a cable; empty if none has.

    A device registers some hundred memory regions (github.com/ml-explore/mlx/issues/3162), and one group takes more
    than half of them.
    """
    wanted = _joined(transport, members) if transport in VERBS else frozenset()
    ends = {name for pair in wanted for name in pair}
    groups = (
        (id, record) for id, record in world.memory.groups.items() if not ends.isdisjoint(record.members)
    )
    for other, record in sorted(groups):
        both = wanted & _joined(used(record), record.members) if used(record) in VERBS else ()
        if other != workload and both:
            one, peer = min(both)
            return (
                f"the cable between {one} and {peer} already carries {other}, and an RDMA device has memory regions"
                " for one group"
            )
    return ""


def _joined(transport: str, members: Placed) -> frozenset[tuple[NodeName, NodeName]]:
    """Return the nodes that a group joins by cables, each pair once."""
    pairs = rank_pairs(len(members), transport != MESH)
    return frozenset((min(members[a], members[b]), max(members[a], members[b])) for a, b in pairs)


def _port(world: World, here: NodeName, there: NodeName) -> PortFacts | None:
    """Return the port of a node whose cable leads to another, with the address of its Fabric if it has several."""
    port = towards(world.node(here), there)
    return port and _addressed(world, here, port)


def _addressed(world: World, here: NodeName, port: PortFacts) -> PortFacts:
    """Return a port with the address of its Fabric as its first if it has several."""
    planned = world.desired.once(all_addresses).get(End(here, port.receptacle))
    if planned is None or str(planned.ip) not in port.other_addresses:
        return port
    return replace(port, address=str(planned.ip))


def _devices(world: World, transport: str, members: Placed) -> tuple[tuple[str, ...], ...]:
    """Return the RDMA devices of each rank by peer; empty while a pair has none. Every pair has equally many, because
    the engine divides its messages by one number of wires."""
    size = len(members)
    wires = {(a, b): _wires(world, members[a], members[b]) for a, b in rank_pairs(size, transport != MESH)}
    count = min(WIRES_MAX, *map(len, wires.values()))
    cells = {(a, b): [here for here, _ in found[:count]] for (a, b), found in wires.items()}
    cells |= {(b, a): [there for _, there in found[:count]] for (a, b), found in wires.items()}
    if count == 0:
        return ()
    return tuple(tuple(DEVICES_JOINT.join(cells.get((a, b), ())) for b in range(size)) for a in range(size))


def _wires(world: World, here: NodeName, there: NodeName) -> list[tuple[str, str]]:
    """Return the devices at both ends of each cable between two nodes: of the first, and of others that carry RDMA."""
    ends = {port.receptacle: port for port in world.node(there).facts.ports}
    cables = [
        (port, ends[port.peer[1]])
        for port in world.node(here).facts.ports
        if port.peer and port.peer[0] == there and port.peer[1] in ends
    ]
    used = [
        (one, other)
        for at, (one, other) in enumerate(cables)
        if at == 0
        or (
            _carries(one)
            and _carries(other)
            and _reach(_addressed(world, here, one), _addressed(world, there, other))
        )
    ]
    return [(one.device, other.device) for one, other in used if one.device and other.device]


def _carries(port: PortFacts) -> bool:
    """Return whether everything that RDMA needs is known to be right at one end of a cable."""
    fast = (port.gbps or 0) >= THUNDERBOLT5_GBPS and not port.through
    found = port.mapped_gid is True and port.gid_index in (None, GID_INDEX)
    return bool(port.connected and port.verbs_up) and port.bridged is False and fast and found


def _skipped_text(skipped: list[tuple[str, str]]) -> str:
    """Say which transports were skipped and why, those with one reason together."""
    by_reason: dict[str, list[str]] = {}
    for transport, why in skipped:
        by_reason.setdefault(why, []).append(transport)
    return "; ".join(f"{', '.join(names)}: {why}" for why, names in by_reason.items())
