"""Findings: what is wrong, what that means, and what to do about it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from reconciler.state import FaultClass, NodeName, ObjectKey


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that is wrong now, whoever it was seen on."""

    fault: FaultClass
    objects: tuple[ObjectKey, ...]
    """What it is about: one thing may be said of several."""
    nodes: tuple[NodeName, ...]
    """The machines that it concerns."""
    seen: str
    means: str
    steps: str
    """What is to be done, for people; never empty."""
    person: bool
    """Whether a person has to do it; else the loop does, or is at it."""


@dataclass(frozen=True, slots=True)
class NotKnown:
    """Something that could not be found out: it is neither fine nor wrong."""

    node: NodeName
    what: str
    why: str


@dataclass(frozen=True, slots=True)
class Examination:
    """Everything that there is to say."""

    nodes: tuple[NodeName, ...]
    """The machines that were looked at."""
    findings: tuple[Finding, ...]
    """In the order of the classes, and then of the names of machines."""
    unknown: tuple[NotKnown, ...]


MEANS: Mapping[FaultClass, str] = {
    FaultClass.HOST_UNREACHABLE: "what runs there is not known: it is routed to no more, and never taken for dead",
    FaultClass.UNSUPPORTED_PLATFORM: "RDMA needs macOS 26.2, an MLX with JACCL and links of 80 Gb/s, and a group the"
    " same versions everywhere: without, groups use TCP, or are not formed",
    FaultClass.RDMA_DISABLED: "groups with this machine use TCP; nothing but a person can switch RDMA on",
    FaultClass.LINK_DOWN: "ranks cannot reach each other over this cable; groups take another transport, or do"
    " without one of the machines",
    FaultClass.PORT_CONFIGURATION: "RDMA needs a port outside every bridge, with an IPv4 address of its own; groups use"
    " TCP meanwhile",
    FaultClass.RENDEZVOUS: "the ranks of a group did not find each other; that costs nothing, and is tried again",
    FaultClass.QUEUE_PAIRS: "RDMA could not be set up between two machines, though both have it",
    FaultClass.KERNEL_OBJECTS: "what a new rank needs of the RDMA driver is held by something else; no rank is started"
    " there until it is given back",
    FaultClass.RANK_CRASH: "one dead rank is a dead group: all of its ranks are started again",
    FaultClass.SILENT_HANG: "a rank stands still while work waits: requests of its group hang until it is formed again",
    FaultClass.GPU_FAULT: "the GPU gave up, or its memory did not suffice; where memory was short, the same again ends"
    " the same",
    FaultClass.WIRED_MEMORY: "memory is lost to everybody until the machine restarts; nothing is placed there",
    FaultClass.REBOOT: "whatever ran there is gone, and what was configured until the next boot as well",
    FaultClass.VERBS_WEDGED: "the RDMA driver hangs: no group uses RDMA there",
    FaultClass.LAUNCH_CONTEXT: "macOS may keep ranks that are started like this from the local network, and put"
    " their GPU work in the background",
    FaultClass.IDLE_DECAY: "connections of RDMA went bad while nobody used them; the group is formed again",
    FaultClass.WRONG_GROUP: "MLX formed another group than was asked for: such a group never serves",
    FaultClass.SERVICE_WEDGED: "the ranks run and no completion comes: the group is formed again",
}
"""What each class means for whoever is served."""
