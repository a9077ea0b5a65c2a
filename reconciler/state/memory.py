"""The controller's memory: its store, and its own current actions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal

from reconciler.resources import Access, Manifest
from reconciler.wire.launch import RankId

from .faults import Attempt, ProvenTransport, Reboot, Symptom, TransportFailure, VerbsAttempts
from .formed_spec import FormedSpec
from .formed_under import NO_FACTS, RESULT_FACTS, Facts
from .identity import DeploymentName, JobName, NodeName, ObjectKey, ReplicaId, RunId, WorkloadId, rank_id
from .jobs import Run
from .machine.gateways import GatewaysInForce
from .machine.runtimes import Runtimes
from .reports.notification import Delivery
from .rollback import Rollback

USUAL_CONTEXT = 4096
"""Context, in tokens, of a group of an earlier version whose deployment named none."""


def earlier_context(wanted: int | Literal["auto"]) -> int:
    """Return the context of a group that was formed before groups kept theirs, from the one that its deployment
    wants."""
    return USUAL_CONTEXT if wanted == "auto" else wanted


@dataclass(frozen=True, slots=True)
class GroupRecord:
    """The group of a workload, written to the store before any of its ranks starts."""

    workload: WorkloadId
    epoch: int
    members: tuple[NodeName, ...]
    """The node of each rank, in the order of ranks."""
    port: int
    """First of ``len(members) + 1`` ports that no other group has: one per rank, then rank 0's control."""
    secret: str = field(repr=False)
    """Proof of membership among the ranks; empty for a group that was adopted, which is never completed."""
    fingerprint: str
    """Spec hash for which it was formed: another hash needs another group."""
    created_at: float
    rank_bytes: int = 0
    """Memory that each of its ranks is charged for, for as long as it may live; where they differ, the largest."""
    proven_at: float | None = None
    """Time of its first real completion; None before."""
    model: str = ""
    """The Model whose weights its ranks hold."""
    strategy: str = ""
    """``tensor`` or ``pipeline``; of no meaning with one rank."""
    strategy_why: str = ""
    """Why this strategy was chosen, for people."""
    transport: str = ""
    """The transport of ``spec.transport`` that it was formed on; empty for a group of an early version."""
    transport_why: str = ""
    """Why better transports were skipped, for people; empty for the first."""
    boots: tuple[str, ...] = ()
    """Boot ids of its nodes when it was formed, in the order of ranks; empty for an adopted group."""
    facts: Facts = NO_FACTS
    """The facts under which it was formed; none for a group of an early version, or that was adopted."""
    needs: tuple[int, ...] = ()
    """Memory that each rank is charged for, in the order of ranks; empty where that is ``rank_bytes`` for all."""
    weights: str = ""
    """Repository and commit of its weights from a hub, as ``weights.named`` returns them; empty for weights at a
    path."""
    weights_before: str = ""
    """Weights of the last serving group before it; empty if there was none."""
    context: int = 0
    """Most tokens of one request; 0 for a group that was formed before this was kept."""
    spec: FormedSpec | None = None
    """The spec that it was formed for; None where it is not known."""
    spec_before: FormedSpec | None = None
    """The spec of the last group before it that served well; None if there was none."""

    guessed: bool = False
    """The memory charged to its ranks was a guess when it was formed."""
    prove: bool = False
    """Its ranks prove that results over RDMA are right before they are ready."""

    @property
    def replica(self) -> ReplicaId:
        """Return the replica that a deployment's group serves."""
        assert isinstance(self.workload, ReplicaId)
        return self.workload

    def rank_id(self, rank: int) -> RankId:
        return rank_id(self.workload, self.epoch, rank)

    @property
    def combination(self) -> str:
        """Name everything that makes its results over RDMA right or wrong, also for people; empty if some of it is not
        known."""
        values: dict[str, set[str]] = {name: set() for name in RESULT_FACTS}
        for fact, value in self.facts:
            if fact.node in self.members and fact.receptacle is None and fact.name in values:
                values[fact.name].add(value)
        if not all(values.values()):
            return ""
        facts = ", ".join(f"{name} {'/'.join(sorted(found))}" for name, found in values.items())
        return f"{self.transport}, {self.strategy}, {len(self.members)} ranks, {facts}"

    @property
    def charges(self) -> tuple[int, ...]:
        """Return the memory charged for each of its ranks, in the order of ranks."""
        return self.needs or (self.rank_bytes,) * len(self.members)

    @property
    def rank_ids(self) -> tuple[RankId, ...]:
        return tuple(self.rank_id(rank) for rank in range(len(self.members)))


def of_deployments(groups: Mapping[WorkloadId, GroupRecord]) -> dict[ReplicaId, GroupRecord]:
    """Return the groups of replicas, without those of jobs."""
    return {workload: record for workload, record in groups.items() if isinstance(workload, ReplicaId)}


@dataclass(frozen=True, slots=True)
class Write:
    """The last change that this controller made on a node: decisions need observations that are not older."""

    link: int
    sequence: int


@dataclass(frozen=True, slots=True)
class StepFailure:
    """A step that failed, and the time of its next attempt."""

    attempts: int
    retry_at: float
    text: str
    unwritten: int = 0
    """Number of attempts that failed only because this controller could not write to its own disk: they do not count
    against the step."""

    @property
    def counted(self) -> int:
        return self.attempts - self.unwritten


@dataclass(frozen=True, slots=True)
class RequestedStop:
    """A request to a rank to end."""

    gone_by: float
    void_at: float
    """Time after which the request counts as lost, and is repeated."""
    symptom: Symptom | None = None
    """Symptom for which its group counts as dead."""

    def shifted(self, seconds: float) -> RequestedStop:
        """Return a copy with all times moved by ``seconds``, like the clock."""
        symptom = self.symptom and replace(self.symptom, at=self.symptom.at + seconds)
        return RequestedStop(self.gone_by + seconds, self.void_at + seconds, symptom)


@dataclass(frozen=True, slots=True)
class Leaving:
    """An object whose manifest is gone: it stays in the inventory until nothing of it is left."""

    manifest: Manifest
    generation: int
    since: float
    """Time at which a revision without it came into force, in seconds since the Unix epoch."""


@dataclass(frozen=True)
class Stored:
    """The content of the store. A new stored fact needs a field here, its table, and a line in ``Store._stored``."""

    groups: Mapping[WorkloadId, GroupRecord] = field(default_factory=dict)
    last_epochs: Mapping[WorkloadId, int] = field(default_factory=dict)
    """The highest epoch that the store has ever given to a workload."""
    agents: Mapping[NodeName, Access] = field(default_factory=dict)
    """Nodes whose agent was started and has not been ended since, wanted or not, with the access at that time."""
    leaving: Mapping[ObjectKey, Leaving] = field(default_factory=dict)
    attempts: Mapping[WorkloadId, tuple[Attempt, ...]] = field(default_factory=dict)
    """The latest formings of each workload, oldest first."""
    transport_failures: Mapping[WorkloadId, tuple[TransportFailure, ...]] = field(default_factory=dict)
    """The transports that failed each workload and are left alone."""
    verbs: Mapping[NodeName, VerbsAttempts] = field(default_factory=dict)
    deliveries: Mapping[str, Delivery] = field(default_factory=dict)
    """State of the messages to each Notifier."""
    reboots: Mapping[NodeName, Reboot] = field(default_factory=dict)
    """The last restart of each machine that this cluster ever had."""
    proofs: Mapping[str, ProvenTransport] = field(default_factory=dict)
    """The last proof of each combination of system, engine, weights, transport and ranks, by its name."""
    rollbacks: Mapping[DeploymentName, Rollback] = field(default_factory=dict)
    """The last spec that did not come up in each deployment, whether it is still wanted or not."""
    runs: Mapping[RunId, Run] = field(default_factory=dict)
    """The runs of jobs, those that have ended too."""


@dataclass(frozen=True)
class Volatile:
    """The controller's own past and current actions. They are lost when it ends, and safety never depends on them."""

    in_flight: frozenset[str] = frozenset()
    """Subjects of the steps that are being executed (``Step.subject``)."""
    failures: Mapping[str, StepFailure] = field(default_factory=dict)
    """Failures by ``Step.key``."""
    writes: Mapping[NodeName, Write] = field(default_factory=dict)
    stops: Mapping[RankId, RequestedStop] = field(default_factory=dict)
    continued: Mapping[RankId, tuple[float, ...]] = field(default_factory=dict)
    """Times at which each rank was continued, oldest first, in seconds since the Unix epoch."""
    repaired: Mapping[NodeName, float] = field(default_factory=dict)
    """Time of the last confirmed repair of each machine, in seconds since the Unix epoch."""
    runtimes: Runtimes = field(default_factory=Runtimes)
    gateways: GatewaysInForce = field(default_factory=GatewaysInForce)
    """The gateways of nodes. Those that are remembered outlast the controller, in a file of its home."""

    def unstarted(self, name: NodeName) -> bool:
        """Return whether the start of a node's agent has failed because of the node."""
        failure = self.failures.get(f"start-agent/{name}")
        return failure is not None and failure.counted > 0

    def shifted(self, seconds: float) -> Volatile:
        """Return a copy with all times moved by ``seconds``, like the clock (negative: it was set back)."""
        return replace(
            self,
            failures={
                key: replace(each, retry_at=each.retry_at + seconds) for key, each in self.failures.items()
            },
            stops={id: each.shifted(seconds) for id, each in self.stops.items()},
            continued={id: tuple(at + seconds for at in times) for id, times in self.continued.items()},
            repaired={name: at + seconds for name, at in self.repaired.items()},
        )


@dataclass(frozen=True, kw_only=True)
class Memory(Stored, Volatile):
    """The planner's memory at the moment of one pass: the store's content and the controller's own actions.

    Built from both with ``Memory(**vars(stored), **vars(volatile), ...)``.
    """

    token: int
    """Fencing token of this controller: it grows with every start."""
    agent_file: str = ""
    """Name of the agent's file that this controller brings along; empty where any agent will do."""
    unwritable: str = ""
    """Why the state directory cannot be written; empty if it can."""
    locked: str = ""
    """The process that keeps the store from being written, although the disk is fine; empty if there is none."""
    started_at: float = 0.0
    """Start of this controller, in seconds since the Unix epoch."""
    routed: bool = True
    """True if the gateway has this controller's routes, or gets them before any step of this pass. A controller that has
    just started, or slept, contacts every node first."""
    published: frozenset[tuple[WorkloadId, int]] | None = None
    """The groups in the gateway's routes, by replica and epoch; None where they are not known."""

    def groups_of(self, deployment: DeploymentName) -> tuple[GroupRecord, ...]:
        """Return the groups of one deployment, sorted by replica."""
        return tuple(self._by_deployment.get(deployment, ()))

    def runs_of(self, job: JobName) -> tuple[Run, ...]:
        """Return the runs of one job, oldest first."""
        return tuple(self._by_job.get(job, ()))

    @cached_property
    def _by_job(self) -> dict[JobName, list[Run]]:
        found: dict[JobName, list[Run]] = {}
        for id, run in sorted(self.runs.items()):
            found.setdefault(id.job, []).append(run)
        return found

    @cached_property
    def members(self) -> frozenset[NodeName]:
        return frozenset(name for group in self.groups.values() for name in group.members)

    @cached_property
    def _by_deployment(self) -> dict[DeploymentName, list[GroupRecord]]:
        found: dict[DeploymentName, list[GroupRecord]] = {}
        for workload, record in sorted(self.groups.items()):
            if isinstance(workload, ReplicaId):
                found.setdefault(workload.deployment, []).append(record)
        return found
