"""The plan: steps without open decisions, and the reasons for everything that is not done now."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import ClassVar

from reconciler.resources import TokenRef
from reconciler.wire.launch import LaunchSpec, RankId, TransportProof

from .cause import Cause, RefusedBecause
from .faults import Attempt, FaultClass, Quarantine, Suspicion, Symptom, TransportFailure, Trouble, told
from .identity import NodeName, ObjectKey, ReplicaId, WorkloadId
from .job_steps import RunStep
from .machine.links import Cabling
from .machine.weights import FetchWeights, RemoveWeights
from .memory import GroupRecord
from .node_steps import NodeStep
from .rollback import Rollback
from .subjects import subject_of


@dataclass(frozen=True, slots=True)
class _OfWorkload:
    """Common part of steps about a workload. Steps of one subject never run in parallel to a new decision about it."""

    verb: ClassVar[str]
    workload: WorkloadId

    @property
    def key(self) -> str:
        return f"{self.verb}/{self.workload}"

    @property
    def subject(self) -> str:
        """Return the subject of the step, for ``Memory.in_flight``."""
        return str(subject_of(self.workload))

    @property
    def object(self) -> ObjectKey:
        """Return the object of its events."""
        return self.workload.key


@dataclass(frozen=True, slots=True)
class _OfReplica:
    """Common part of steps that only a replica has."""

    verb: ClassVar[str]
    replica: ReplicaId

    @property
    def key(self) -> str:
        return f"{self.verb}/{self.replica}"

    @property
    def subject(self) -> str:
        return str(subject_of(self.replica))

    @property
    def object(self) -> ObjectKey:
        return self.replica.key


@dataclass(frozen=True, slots=True)
class _OfRank(_OfWorkload):
    """Common part of steps about a rank that was started."""

    node: NodeName
    id: RankId

    @property
    def key(self) -> str:
        return f"{self.verb}/{self.id}"

    @property
    def who(self) -> str:
        return _rank_text(self.workload, self.node, self.id)


def _rank_text(workload: WorkloadId, node: NodeName, id: RankId) -> str:
    return f"rank {id.rank} of {workload} on {node}, epoch {id.epoch}"


@dataclass(frozen=True, slots=True)
class AllocateEpoch(_OfWorkload):
    """Write a new group to the store. From then on, every rank of an older epoch is a leftover."""

    verb: ClassVar[str] = "allocate"
    group: GroupRecord
    cause: Cause
    detail: str
    """The occasion, for people."""
    fault: FaultClass | None = None
    """The fault to remedy; None without a fault."""
    spec_generations: str = ""
    """The spec that needs it: ``Attempt.spec_generations``."""
    served: float | None = None
    """``Attempt.served``."""
    suspicion: Suspicion = Suspicion.NONE
    """``Attempt.suspicion``."""
    port_taken: bool = False
    """``Attempt.port_taken``."""
    never_ran: bool = False
    """``Attempt.never_ran``."""
    failed: TransportFailure | None = None
    wasted_verbs: tuple[tuple[NodeName, str], ...] = ()
    """The machines, and their boots, on which the group before it failed to set up RDMA."""

    @property
    def attempt(self) -> Attempt:
        return Attempt(
            epoch=self.group.epoch,
            at=self.group.created_at,
            cause=self.cause.value,
            fault=self.fault,
            text=self.detail,
            spec_generations=self.spec_generations,
            served=self.served,
            suspicion=self.suspicion,
            port_taken=self.port_taken,
            never_ran=self.never_ran,
        )

    def __str__(self) -> str:
        place = ", ".join(self.group.members)
        if self.cause in (Cause.TRANSPORT_FAILED, Cause.TRANSPORT_BACK):
            place += f" over {self.group.transport}"
        why = f"{self.cause.value}: {self.detail}"
        return f"form {self.workload} as epoch {self.group.epoch} on {place} ({why})"


@dataclass(frozen=True, slots=True)
class AdoptGroup(_OfWorkload):
    """Write a running group to the store, which does not know it."""

    verb: ClassVar[str] = "adopt"
    group: GroupRecord

    def __str__(self) -> str:
        places = ", ".join(self.group.members)
        return f"adopt {self.workload}, epoch {self.group.epoch}, running on {places}"


@dataclass(frozen=True, slots=True)
class StartRank(_OfWorkload):
    """Start one rank of the current epoch."""

    node: NodeName
    spec: LaunchSpec
    secrets: tuple[tuple[str, TokenRef], ...] = ()
    """The secret variables of a job, which are read when the rank is started."""

    @property
    def key(self) -> str:
        return f"start/{self.spec.id}"

    def __str__(self) -> str:
        return f"start {_rank_text(self.workload, self.node, self.spec.id)}"


@dataclass(frozen=True, slots=True)
class StopRank(_OfRank):
    """Ask a rank to end, and kill it if it has not ended after ``grace_seconds``."""

    verb: ClassVar[str] = "stop"
    grace_seconds: float
    reason: str
    symptom: Symptom | None = None
    """The symptom for which its group counts as dead; None if the group is fine."""

    def __str__(self) -> str:
        return f"stop {self.who} ({self.reason})"


@dataclass(frozen=True, slots=True)
class ContinueRank(_OfRank):
    """Continue a rank that was stopped by a signal. This needs no new epoch."""

    verb: ClassVar[str] = "continue"

    def __str__(self) -> str:
        return f"continue {self.who}, which was stopped by a signal"


@dataclass(frozen=True, slots=True)
class ForgetRank(_OfRank):
    """Remove a node's files of a rank that ended some epochs ago."""

    verb: ClassVar[str] = "forget"
    keep_record: bool = False
    """Keep the record of its end, which is still reported."""

    @property
    def subject(self) -> str:
        """Return a separate subject, because an ended rank does not affect other decisions about the replica."""
        return f"rank/{self.id}"

    def __str__(self) -> str:
        return f"remove the files of {self.who}"


@dataclass(frozen=True, slots=True)
class ProveGroup(_OfReplica):
    """Have rank 0 answer one real request. The group gets requests only afterwards."""

    epoch: int
    node: NodeName
    socket: str
    moved: str = ""
    """Old and new weights if the replica changes them with this group, for people; else empty."""
    since: float = 0.0
    """Time at which the previous group was stopped for the change, in seconds of the controller's clock."""
    combination: str = ""
    """The combination that its ranks have proven; empty if they have proven none."""
    proof: TransportProof | None = None
    """The proof, as rank 0 reports it."""

    @property
    def subject(self) -> str:
        """Return a separate subject, because a proof may take long and nothing else has to wait for it."""
        return f"proof/{self.replica}/{self.epoch}"

    @property
    def key(self) -> str:
        return f"prove/{self.replica}/{self.epoch}"

    def __str__(self) -> str:
        return f"ask {self.replica}, epoch {self.epoch}, for a first completion"


@dataclass(frozen=True, slots=True)
class SetBack(_OfReplica):
    """Serve the previous spec again, because the new one did not come up."""

    verb: ClassVar[str] = "set-back"
    rollback: Rollback
    changes: str

    def __str__(self) -> str:
        return (
            f"serve {self.replica.deployment} as before again: it did not come up with {self.changes}"
            f" ({self.rollback.text})"
        )

    @property
    def doing(self) -> str:
        return f"the change is taken back ({self.changes}): the spec before is served again"


@dataclass(frozen=True, slots=True)
class FreeTransport(_OfReplica):
    """Forgive a transport that had failed: one of its facts has changed, a request was to blame, or it serves again."""

    transport: str
    changed: str
    """The changed fact or other reason, for people."""

    @property
    def key(self) -> str:
        return f"free/{self.replica}/{self.transport}"

    def __str__(self) -> str:
        return f"let {self.replica} use {self.transport} again ({self.changed})"


@dataclass(frozen=True, slots=True)
class ReleaseReplica(_OfReplica):
    """Remove a replica that is no longer wanted, and has no rank left, from the store."""

    verb: ClassVar[str] = "release"

    def __str__(self) -> str:
        return f"release {self.replica}"


@dataclass(frozen=True, slots=True)
class RemoveObject:
    """Remove an object from the inventory, after its manifest and everything it ran are gone."""

    object: ObjectKey

    @property
    def subject(self) -> str:
        return f"object/{self.object}"

    @property
    def key(self) -> str:
        return f"remove/{self.object}"

    def __str__(self) -> str:
        return f"finish removing {self.object}"


Step = (
    AdoptGroup | AllocateEpoch | StartRank | StopRank | ContinueRank | ForgetRank | ProveGroup | FreeTransport
    | ReleaseReplica | NodeStep | FetchWeights | RemoveWeights | SetBack | RemoveObject | RunStep
)  # fmt: skip


def workload_of(step: Step) -> WorkloadId | None:
    """Return the workload that a step is about; None if it is about none."""
    if isinstance(step, _OfWorkload):
        return step.workload
    return step.replica if isinstance(step, _OfReplica) else None


class WaitingFor(Enum):
    """Reasons why something is delayed."""

    SOURCE = "ManifestsNotRead"
    STORE = "StoreLocked"
    SUSPENDED = "Suspended"
    WINDOW = "HeldBySyncWindow"
    STEP = "StepInFlight"
    AGENT = "AgentNotReached"
    EXAMINED = "WeightsNotExamined"
    OBSERVATION = "StaleObservation"
    STOPPING = "RanksStopping"
    RANKS = "RanksNotReady"
    RUNTIME = "RuntimeBuilding"
    ROUTES = "RoutesNotWritten"
    WEIGHTS = "WeightsFetching"
    EXAMINATION = "MemoryGuessed"
    PROGRESS = "NoProgress"
    LEFTOVERS = "RemainsOfRank"
    BACK_OFF = "BackOff"
    QUIET = "QuietMoment"
    TURN = "RestartsLater"
    ROLLOUT = "ReplacedLater"
    PAUSED = "RolloutPaused"
    RESTART = "Restarting"
    REPAIR = "Repairing"
    REMOVAL = "Terminating"
    ROOM = "NodesBusy"


@dataclass(frozen=True, slots=True)
class Waiting:
    """Something that is wanted and has to wait."""

    object: ObjectKey
    reason: WaitingFor
    text: str
    until: float | None = None
    """Time of the next check, if known, in seconds of the controller's clock."""
    workload: WorkloadId | None = None


@dataclass(frozen=True, slots=True)
class Refusal:
    """Something that is wanted but impossible at present."""

    object: ObjectKey
    reason: RefusedBecause
    text: str
    workload: WorkloadId | None = None
    person: str = ""
    """The exact steps that only a person can take; empty where ``text`` says enough."""

    @property
    def told(self) -> str:
        return told(self.text, self.person)


@dataclass(frozen=True, slots=True)
class GatewayRefusal(Refusal):
    """A gateway of a node that does not serve; the Gateway's own may serve nevertheless."""

    node: NodeName = field(kw_only=True)


@dataclass(frozen=True, slots=True)
class Plan:
    """The steps to take now, what waits, and what is refused."""

    steps: tuple[Step, ...] = ()
    waiting: tuple[Waiting, ...] = ()
    refused: tuple[Refusal, ...] = field(default=())
    troubles: tuple[Trouble, ...] = ()
    """The current problems, which explain some of the steps."""
    quarantined: tuple[Quarantine, ...] = ()
    """Nodes that are kept out, in the order of their names."""
    cabling: Cabling = field(default_factory=dict)

    @property
    def settled(self) -> bool:
        """Return whether there is nothing to do or to wait for. Serving groups may still wait for an improvement."""
        return not self.steps and all(waiting.reason is WaitingFor.QUIET for waiting in self.waiting)


@dataclass(frozen=True, slots=True)
class Outcome:
    """One executed step. ``problem`` is empty if it was done."""

    step: Step
    seconds: float
    problem: str = ""
    detail: str = ""
    """Additional information about a successful step."""

    @property
    def done(self) -> bool:
        """Return whether the step had its effect, or found it already there."""
        return not self.problem
