"""Classes of faults of groups and machines, and the attempts to heal them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, IntEnum

from reconciler.wire.launch import RankId, TransportProof

from .cause import Cause
from .formed_under import Facts
from .identity import NodeName, ObjectKey
from .subjects import Subject

Sign = tuple[str, ...]
"""A key of names and numbers: equal for the same observation or task, whatever its words and measured values are."""


def told(text: str, person: str) -> str:
    """Return a sentence with the steps for a person, if there are any."""
    return f"{text}; to do: {person}" if person else text


class FaultClass(Enum):
    """The classes of faults, in the order of the search: the first that is seen explains the symptoms of
    later ones."""

    HOST_UNREACHABLE = "C0"
    UNKILLABLE_RANK = "C18"
    UNSUPPORTED_PLATFORM = "C1"
    RDMA_DISABLED = "C2"
    LINK_DOWN = "C3"
    PORT_CONFIGURATION = "C4"
    RENDEZVOUS = "C5"
    QUEUE_PAIRS = "C6"
    KERNEL_OBJECTS = "C7"
    RANK_CRASH = "C8"
    SILENT_HANG = "C9"
    GPU_FAULT = "C10"
    WIRED_MEMORY = "C11"
    REBOOT = "C12"
    VERBS_WEDGED = "C13"
    LAUNCH_CONTEXT = "C14"
    IDLE_DECAY = "C15"
    WRONG_GROUP = "C16"
    SERVICE_WEDGED = "C17"
    WRONG_RESULTS = "C19"

    @property
    def title(self) -> str:
        """Return the title, such as ``rank crash``."""
        words = self.name.replace("_", " ").lower()
        return words.replace("rdma", "RDMA").replace("gpu", "GPU")

    @property
    def reason(self) -> str:
        """Return the CamelCase reason for conditions."""
        return "".join(word.capitalize() for word in self.name.split("_"))


@dataclass(frozen=True, slots=True)
class Symptom:
    """The reason why a group counts as dead, as far as its ranks show it."""

    cause: Cause
    text: str
    at: float
    """Time, if known."""


class Suspicion(IntEnum):
    """Points for how much the end of a group points to a request that it was answering."""

    NONE = 0
    """Its machines, its cables or the plan explain it."""
    FAINT = 1
    """A rank was killed or stopped from outside, or is gone without a trace: requests rarely cause that."""
    STRONG = 2
    """A rank failed by itself, or the group hung."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """One forming of a group, with the fault that it should remedy."""

    epoch: int
    at: float
    """Time at which its epoch was written, in seconds of the controller's clock."""
    cause: str
    """``Cause.value`` of the step."""
    fault: FaultClass | None
    """None without a fault: a new replica, a changed spec, planned maintenance."""
    text: str
    """The occasion, for people."""
    spec_generations: str
    """Generations of deployment and model at that time: another spec begins with a fresh budget."""
    served: float | None = None
    """Seconds for which the group before it had served; None where it never came up, or there was none."""
    suspicion: Suspicion = Suspicion.NONE
    """``Suspicion`` after the end of the group before it."""
    port_taken: bool = False
    """True if the group before it found its port in use, which is chance: ports are drawn at random."""
    never_ran: bool = False
    """True if the group before it ended because a rank never had a process, which is never the fault of a spec."""


@dataclass(frozen=True, slots=True)
class Trouble:
    """A current problem, its remedy, and the steps that only a person can take."""

    object: ObjectKey
    subject: Subject
    """For each subject and class there is one trouble at a time."""
    fault: FaultClass
    seen: str
    """The observation, for people, naming machines, ports and ranks."""
    doing: str
    """The remedy that is being tried, for people; empty if there is none."""
    person: str = ""
    """The exact steps that only a person can take; empty if no person is needed."""
    sign: Sign = ()
    """The key of ``seen``."""
    task: Sign = ()
    """The key of ``person``."""
    rank: RankId | None = None
    """The rank whose end explains it; None if it is about none."""


@dataclass(frozen=True, slots=True)
class Quarantine:
    """A node on which nothing new is placed, and whose ranks get no part in a new group, until its fault is gone."""

    node: NodeName
    fault: FaultClass
    reason: str
    """CamelCase, for programs."""
    text: str
    """The reason, for people, without the node's name."""
    person: str
    """The exact steps that only a person can take."""


@dataclass(frozen=True, slots=True)
class Reboot:
    """The last restart of a machine, stored before it is requested."""

    at: float
    """Time in seconds of the controller's clock."""
    boot_id: str
    """Id of the boot that should end: in another boot, the machine is back."""
    reason: str
    requested: bool = True
    """True after the machine was asked to restart; False while it is being drained for the restart."""


@dataclass(frozen=True, slots=True)
class TransportFailure:
    """A transport that failed a replica. It is left alone until one of its facts has changed, or for a time that
    doubles with each failed trial."""

    transport: str
    facts: Facts
    at: float
    text: str
    """The reason, for people."""
    fault: FaultClass
    person: str = ""
    """The exact steps that only a person can take; empty if no person is needed."""
    trials: int = 0
    """The number of failed trials in a row under the same facts."""


@dataclass(frozen=True, slots=True)
class ProvenTransport:
    """A proof that results over RDMA are right, by rank 0 of the first group of a combination."""

    at: float
    proof: TransportProof


@dataclass(frozen=True, slots=True)
class VerbsAttempts:
    """Number of failed RDMA set-ups of a machine since it booted: failures may keep kernel objects."""

    boot_id: str
    count: int
