"""The obstacles to JACCL's RDMA on an emulated Mac, with its own messages, and the destinations of addresses. Pure.

The messages are those of MLX 0.32 (``rdma.cpp``, ``mesh.cpp``), and so are the limits: eleven protection domains of a
device, as ``ibv_devinfo`` reports, ten usable queue pairs (Apple's TN3205), and a hundred memory regions. A group takes
64 regions for each peer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from .state import DOMAINS_MAX, End, World

QUEUE_PAIRS_MAX = 10
REGIONS_MAX = 100
REGIONS_OF_A_GROUP = 64
NO_DEVICE = "[jaccl] Could not find device {} ({} available)"
NO_DOMAIN = "[jaccl] Couldn't allocate protection domain"
NO_QUEUE_PAIR = "[jaccl] Creating the queue pair failed with 'Resource busy (16)'."
NO_REGION = "[jaccl] Register memory region failed"
NO_GID = (
    "[jaccl] No IPv4-mapped GID for this device. Thunderbolt RDMA ports only publish one once the interface has an IPv4"
    " address; assign a link-local address to it, for example: ifconfig <interface> inet 169.254.0.1 netmask"
    " 255.255.0.0 alias"
)
RTR = "[jaccl] Changing queue pair to RTR failed with errno {}"
IN_A_BRIDGE = 96
NOT_REACHED = 60
BUSY = 16
WRONG_GID = 22
GID_INDEX = 1
"""The index that MLX 0.32 uses to connect, whatever the index of the GID."""
BROKEN = "[jaccl] Send failed with error code 22"
"""Error of a broken queue pair."""
GPU = {
    "timeout": "[METAL] Command buffer execution failed: Caused GPU Timeout Error"
    " (00000002:kIOGPUCommandBufferCallbackErrorTimeout).",
    "oom": "[METAL] Command buffer execution failed: Insufficient Memory"
    " (00000008:kIOGPUCommandBufferCallbackErrorOutOfMemory).",
}
"""Errors by ``Faults.gpu``."""


def opening(world: World, now: float, machine: str, devices: Sequence[str], held: Mapping[str, int]) -> str:
    """Return why a process cannot open these devices and take its objects of each; empty if it can.

    ``held``: the number of processes there that have each device open. ``now`` is in seconds since the Unix epoch.
    """
    known = world.devices(machine)
    for device in devices:
        if device not in known:
            return NO_DEVICE.format(device, len(known))
    mac = world.machine(machine)
    steps = (_domain, _queue_pair, _region, _gid)
    ends = {port.device: (machine, port.receptacle) for port in mac.ports}
    found = (step(world, now, ends[device], held.get(device, 0)) for step in steps for device in devices)
    return next((text for text in found if text), "")


def _domain(world: World, now: float, end: End, held: int) -> str:
    taken = held + world.machine(end[0]).domains_held >= DOMAINS_MAX
    return NO_DOMAIN if taken or not world.is_verbs_up(end, now) else ""


def _queue_pair(world: World, now: float, end: End, held: int) -> str:
    return NO_QUEUE_PAIR if held >= QUEUE_PAIRS_MAX else ""


def _region(world: World, now: float, end: End, held: int) -> str:
    return NO_REGION if (held + 1) * REGIONS_OF_A_GROUP > REGIONS_MAX else ""


def _gid(world: World, now: float, end: End, held: int) -> str:
    found = world.has_mapped_gid(end, now) or world.port(end).bridged  # a bridge's is found, but useless
    return "" if found else NO_GID


def joining(world: World, mine: End, theirs: End | None) -> str:
    """Return why a queue pair here cannot be connected with the peer's; empty if it can."""
    if world.port(mine).bridged:
        return RTR.format(IN_A_BRIDGE)
    if world.machine(mine[0]).faults.pairs_busy:
        return RTR.format(BUSY)
    if any(world.machine(end[0]).faults.pairs_refused for end in (mine, theirs) if end):
        return RTR.format(NOT_REACHED)
    if any(world.port(end).gid_index != GID_INDEX for end in (mine, theirs) if end):
        return RTR.format(WRONG_GID)
    cable = world.link_of(mine)
    if (
        theirs is None
        or cable is None
        or cable.other(mine) != theirs
        or not world.in_one_network(mine, theirs)
    ):
        return RTR.format(NOT_REACHED)
    return ""


# --- addresses -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Destination:
    """The path from one machine to another: over a cable, or over the common network."""

    here: str
    there: str
    cable: tuple[End, End] | None = None
    """The ports at its two ends; None for the network."""


def destination(world: World, machine: str, host: str, listener: str) -> Destination | str:
    """Return the destination of an address, or the name of the error with which a connection ends.

    ``listener`` is the machine that listens on the port; empty for none. Macs do not route between their cables: the
    address of a port is reachable over its own cable only.
    """
    end = world.end_of_address(host)
    there = end[0] if end else listener
    if not there:
        return "ECONNREFUSED"
    if there == machine:
        return Destination(machine, machine)
    if world.machine(machine).faults.privacy:
        return "EHOSTUNREACH"
    if world.machine(there).firewall:
        return "ETIMEDOUT"
    if end is None:
        return Destination(machine, there)
    peer = world.peer_of(end)
    if peer is None or peer[0] != machine or not world.in_one_network(peer, end):
        return "ETIMEDOUT"
    return Destination(machine, there, (peer, end))


def passes(world: World, now: float, destination: Destination, rdma: bool = False) -> bool:
    """Return whether data arrives now. RDMA continues without the addresses that set it up."""
    machines = [world.machine(name) for name in (destination.here, destination.there)]
    if any(machine.faults.hung or not machine.is_up(now) for machine in machines):
        return False
    if destination.cable is None:
        return destination.here == destination.there or not any(
            machine.faults.partitioned for machine in machines
        )
    here, there = destination.cable
    return world.peer_of(here) == there and (rdma or world.in_one_network(here, there))
