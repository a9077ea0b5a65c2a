"""The types of findings: what is wrong, what it means, and what to do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from reconciler.state import FaultClass, NodeName, ObjectKey


@dataclass(frozen=True, slots=True)
class Finding:
    """A current problem."""

    fault: FaultClass | None
    """None for what is wrong with no machine and no group."""
    objects: tuple[ObjectKey, ...]
    """The objects with this problem."""
    nodes: tuple[NodeName, ...]
    """The machines concerned."""
    seen: str
    means: str
    steps: str
    """Steps for people; never empty."""
    person: bool
    """Whether a person has to act; else the controller does."""
    without_class: str = ""
    """Title of a finding without a class of faults."""

    @property
    def code(self) -> str:
        """Return its class, such as ``C8``; empty without one."""
        return self.fault.value if self.fault else ""

    @property
    def title(self) -> str:
        """Return its title, such as ``rank crash``."""
        return self.fault.title if self.fault else self.without_class


@dataclass(frozen=True, slots=True)
class NotKnown:
    """A fact that could not be found out: it is neither fine nor wrong."""

    node: NodeName
    what: str
    why: str


@dataclass(frozen=True, slots=True)
class Examination:
    """The result of an examination."""

    nodes: tuple[NodeName, ...]
    """The examined machines."""
    findings: tuple[Finding, ...]
    """Findings, sorted by class and then by names of machines."""
    unknown: tuple[NotKnown, ...]


MEANS: Mapping[FaultClass, str] = {
    FaultClass.HOST_UNREACHABLE: "what runs there is unknown: it gets no requests, but is not assumed to be dead",
    FaultClass.UNKILLABLE_RANK: "the kernel holds the rank, with its memory and its RDMA, until the machine restarts: no"
    " rank is started there, and groups do without it",
    FaultClass.UNSUPPORTED_PLATFORM: "RDMA needs macOS 26.2, an MLX with JACCL and links of 80 Gb/s, and a group needs the"
    " same versions everywhere; otherwise groups use TCP, or are not formed",
    FaultClass.RDMA_DISABLED: "groups with this machine use TCP; only a person can enable RDMA",
    FaultClass.LINK_DOWN: "ranks cannot reach each other over this cable; groups use another transport, or do"
    " without one of the machines",
    FaultClass.PORT_CONFIGURATION: "RDMA needs a port outside every bridge, with an IPv4 address of its own; groups use"
    " TCP meanwhile",
    FaultClass.RENDEZVOUS: "the ranks of a group did not find each other; the attempt is repeated",
    FaultClass.QUEUE_PAIRS: "RDMA could not be set up between two machines, although both support it",
    FaultClass.KERNEL_OBJECTS: "RDMA resources that a new rank needs are held by something else; no rank is started"
    " there until they are released",
    FaultClass.RANK_CRASH: "a group cannot continue without one of its ranks: all of them are restarted",
    FaultClass.SILENT_HANG: "a rank makes no progress while work waits: requests of its group hang until the group is formed again",
    FaultClass.GPU_FAULT: "the GPU failed or ran out of memory; if memory was short, another attempt ends"
    " the same way",
    FaultClass.WIRED_MEMORY: "leaked memory is lost until the machine restarts; nothing is placed there",
    FaultClass.REBOOT: "all ranks there have ended, and settings that last until a restart are lost",
    FaultClass.VERBS_WEDGED: "the RDMA driver hangs: no group uses RDMA there",
    FaultClass.LAUNCH_CONTEXT: "macOS may block ranks that are started like this from the local network, and run"
    " their GPU work in the background",
    FaultClass.IDLE_DECAY: "idle RDMA connections failed; the group is formed again",
    FaultClass.WRONG_GROUP: "MLX formed a different group than requested: such a group never serves",
    FaultClass.SERVICE_WEDGED: "the ranks run but complete no request: the group is formed again",
    FaultClass.WRONG_RESULTS: "results over RDMA are wrong, without an error: the group is formed on its next transport",
}
"""What each class means for the users of a deployment."""
