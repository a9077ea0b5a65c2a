"""Objects as the controller answers them: manifests with their status, ranks and operations.

The fields of a ``spec`` are those that clients read here; the page of the kind has all. A controller may leave out every
field of a status that not each object has: there is no value yet, or it is an older one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict, Union

from .answers import KeptOut, SourceCondition

if TYPE_CHECKING:
    from typing import Literal, NotRequired


class Metadata(TypedDict):
    """The name of an object, and what else is known of it as such."""

    name: str
    """The name of the object."""
    labels: dict[str, str]
    """Texts by their keys."""
    annotations: NotRequired[dict[str, str]]
    """Texts by their keys; ranks have none."""
    generation: NotRequired[int]
    """A number that grows with each change of the spec; ranks have none."""
    deletionTimestamp: NotRequired[str]
    """The time since which it is being removed."""


class Condition(SourceCondition):
    """A condition of an object."""

    observedGeneration: int
    seen: NotRequired[str]
    """The message without the steps for a person, if there are any."""
    person: NotRequired[str]
    """The steps that only a person can take."""


class StandingOperation(TypedDict, total=False):
    """An operation on an object, in short."""

    verb: str
    replicas: int
    by: str
    """The person, as git writes it."""
    at: str
    until: str
    """The time at which it ends by itself."""
    reason: str
    standing: str


class HeldBy(TypedDict):
    """A newer manifest that waits."""

    syncWindow: str
    until: str | None
    text: str


class Status(TypedDict):
    """The status of every object."""

    observedGeneration: int
    """The generation that it describes."""
    conditions: list[Condition]
    operations: NotRequired[list[StandingOperation]]
    heldBy: NotRequired[HeldBy]


class Declared(TypedDict):
    """An object that a manifest declares."""

    apiVersion: str
    """The version of manifests."""
    metadata: Metadata


# --- nodes -----------------------------------------------------------------------------------------------


class Port(TypedDict, total=False):
    """A Thunderbolt port."""

    receptacle: int
    interface: str
    device: str
    connected: bool
    peer: str
    """The other end of its cable, as ``node/receptacle``."""
    through: list[str]
    """Docks between both ends."""
    gbps: int
    interfaceActive: bool
    rdmaUp: bool
    bridged: bool
    address: str
    otherAddresses: list[str]
    mappedGid: bool
    gidIndex: int


class Mac(TypedDict, total=False):
    """The facts of a Mac. Unknown facts are omitted, or have a reason in ``notKnown``."""

    model: str
    chip: str
    macOS: str
    jaccl: bool
    rdmaEnabled: bool
    rdmaToolsAnswer: bool
    protectionDomainsHeld: int
    wiredExcessBytes: int
    wiredLimitBytes: int
    gpuMemoryBytes: int
    localNetworkAllowed: bool
    fileVault: bool
    managed: bool
    bridgeService: str
    firewall: bool
    updatesItself: bool
    weightsIndexed: bool
    weightsBackedUp: bool
    sleeps: bool
    throttled: bool
    panicsLastHour: int
    crashesLastHour: int
    memoryKillsLastHour: int
    strayRanks: int
    ports: list[Port]
    notKnown: dict[str, str]


class NodeFields(TypedDict, total=False):
    """The fields of a Node's status."""

    agent: str
    """Its contact: ``reached``, ``down``, ``unreachable`` or ``unknown``."""
    ranks: int
    """Number of running ranks."""
    memoryBytes: int
    cpus: int
    system: str
    runtime: dict[str, str]
    """Versions of packages."""
    bootId: str
    mac: Mac


class NodeStatus(Status, NodeFields):
    """The status of a Node."""


class Ssh(TypedDict):
    """The way to a machine."""

    user: str
    host: str
    port: int


class NodeSpec(TypedDict):
    """A machine."""

    unschedulable: bool
    drain: NotRequired[bool]
    ssh: NotRequired[Ssh]
    rebootFrom: NotRequired[str]


class Node(Declared):
    """A Node."""

    kind: Literal["Node"]
    spec: NodeSpec
    status: NodeStatus


# --- fabrics ---------------------------------------------------------------------------------------------


class Link(TypedDict):
    """A cable."""

    ends: list[str]
    """Both ends as ``node/receptacle``."""
    state: str
    gbps: NotRequired[int]
    interfaces: NotRequired[list[str]]
    addresses: NotRequired[list[str]]
    text: NotRequired[str]
    """The fault, for people."""
    person: NotRequired[str]
    """The steps for a person."""


class FabricFields(TypedDict, total=False):
    """The fields of a Fabric's status."""

    connected: int
    """Number of declared links that are connected."""
    undeclared: int
    links: list[Link]


class FabricStatus(Status, FabricFields):
    """The status of a Fabric."""


class Addressing(TypedDict, total=False):
    """The addresses of cables."""

    pool: str


class FabricSpec(TypedDict):
    """Declared cables."""

    links: list[list[str]]
    addressing: Addressing


class Fabric(Declared):
    """A Fabric."""

    kind: Literal["Fabric"]
    spec: FabricSpec
    status: FabricStatus


# --- models ----------------------------------------------------------------------------------------------


class FailedExamination(TypedDict):
    """An examination of weights that failed on a node."""

    reason: str
    attempts: int
    since: str
    again: str
    """The time of the next attempt."""


class ModelFields(TypedDict, total=False):
    """The fields of a Model's status."""

    weightsBytes: int
    nodes: dict[str, str]
    """The state of the weights, by nodes."""
    memory: str
    """How it is known what ranks need: ``computed``, ``guessed`` or ``unknown``."""
    failedExaminations: dict[str, FailedExamination]


class ModelStatus(Status, ModelFields):
    """The status of a Model."""


class HuggingFace(TypedDict):
    """A repository of a hub."""

    repo: str
    revision: str


class WeightsSource(TypedDict, total=False):
    """Where weights come from."""

    path: str
    huggingface: HuggingFace


class ModelSpec(TypedDict):
    """Weights."""

    source: WeightsSource


class Model(Declared):
    """A Model."""

    kind: Literal["Model"]
    spec: ModelSpec
    status: ModelStatus


# --- deployments -----------------------------------------------------------------------------------------


class GroupMemory(TypedDict):
    """The memory that each rank of a group is charged for."""

    bytes: int
    basis: str
    """``computed`` or ``guessed``."""


class FailedRank(TypedDict):
    """The rank that explains the end of a group."""

    rank: str
    """Its name, such as ``tiny.0.3.1``."""
    node: str
    text: str


class GroupFields(TypedDict):
    """The fields of a group except for its time."""

    replica: int
    extra: NotRequired[bool]
    epoch: int
    phase: str
    nodes: list[str]
    ports: str
    context: NotRequired[int]
    memory: GroupMemory
    strategy: NotRequired[str]
    """The split of the model, with the reason; only a group of several ranks has one."""
    transport: NotRequired[str]
    """The transport, with the reason; only a group of several ranks has one."""
    transportName: NotRequired[str]
    """The transport without the reason."""
    transportWhy: NotRequired[str]
    """The reason for the transport."""
    results: NotRequired[str]
    """How it is known that results over RDMA are right; only a group over RDMA has it."""
    ready: bool
    failed: NotRequired[FailedRank]


class Group(GroupFields):
    """A group of a deployment."""

    since: str
    """The time of its first completion, or else of its beginning."""


class ReplicaFields(TypedDict, total=False):
    """The fields of a ModelDeployment's status except for its groups."""

    replicas: int
    """Number of wanted replicas."""
    readyReplicas: int
    updatedReplicas: int
    """Number of replicas with the newest spec."""
    promptReuse: str


class DeploymentFields(ReplicaFields, total=False):
    """The fields of a ModelDeployment's status."""

    groups: list[Group]


class DeploymentStatus(Status, DeploymentFields):
    """The status of a ModelDeployment."""


class DeploymentSpec(TypedDict):
    """A model to serve."""

    model: str
    replicas: int
    transport: list[str]
    parallelism: dict[str, object]
    serving: dict[str, object]


class ModelDeployment(Declared):
    """A ModelDeployment."""

    kind: Literal["ModelDeployment"]
    spec: DeploymentSpec
    status: DeploymentStatus


# --- gateways, keys, notifiers, windows ------------------------------------------------------------------


class Certificate(TypedDict):
    """A certificate that a gateway shows."""

    names: list[str]
    expires: str | None
    problem: str | None


class CountedLimits(TypedDict):
    """The counting of keys' limits."""

    gateways: int
    store: str | None
    shared: bool
    problem: str | None


class NodeGateway(TypedDict):
    """A gateway on a node."""

    node: str
    listen: str | None
    pid: int | None
    routes: int
    """The number of its routes."""
    problem: str | None
    limits: CountedLimits | None


class GatewayFields(TypedDict, total=False):
    """The fields of a Gateway's status."""

    endpoint: str | None
    pid: int | None
    certificate: Certificate | None
    limits: CountedLimits | None
    others: list[NodeGateway]


class GatewayStatus(Status, GatewayFields):
    """The status of a Gateway."""


class Auth(TypedDict):
    """Whether requests need keys."""

    mode: str


class ConsoleSpec(TypedDict, total=False):
    """The console."""

    enabled: bool
    listen: str
    readOnly: bool
    tlsProxy: bool


class TlsFiles(TypedDict):
    """The files of a certificate."""

    certificate: str
    key: str


class GatewaySpec(TypedDict):
    """The endpoint."""

    listen: str
    auth: Auth
    hosts: list[str]
    console: ConsoleSpec
    tls: NotRequired[TlsFiles]


class Gateway(Declared):
    """A Gateway."""

    kind: Literal["Gateway"]
    spec: GatewaySpec
    status: GatewayStatus


class UsedKey(TypedDict, total=False):
    """The fields of an ApiKey's status except for its last use."""

    expiresAt: float | None
    """In seconds since the Unix epoch."""
    models: list[str]
    requestsToday: int
    tokensToday: int


class KeyFields(UsedKey, total=False):
    """The fields of an ApiKey's status."""

    lastUsedAt: str | None


class KeyStatus(Status, KeyFields):
    """The status of an ApiKey."""


class PreviousSecret(TypedDict):
    """A secret from before a rotation."""

    hash: str
    until: str


class KeySpec(TypedDict):
    """A key."""

    hash: str
    models: list[str]
    limits: dict[str, int]
    previous: list[PreviousSecret]
    expires: NotRequired[str]
    revoked: bool
    console: str
    metrics: bool


class ApiKey(Declared):
    """An ApiKey."""

    kind: Literal["ApiKey"]
    spec: KeySpec
    status: KeyStatus


class DeliveryCounts(TypedDict, total=False):
    """The fields of a Notifier's status except for its last message."""

    waiting: int
    givenUp: int


class NotifierFields(DeliveryCounts, total=False):
    """The fields of a Notifier's status."""

    sentAt: str | None


class NotifierStatus(Status, NotifierFields):
    """The status of a Notifier."""


class UrlFrom(TypedDict, total=False):
    """Where a URL comes from."""

    env: str
    file: str


class Webhook(TypedDict, total=False):
    """Where messages go."""

    url: str
    urlFrom: UrlFrom


class NotifierSpec(TypedDict):
    """Who is told of incidents."""

    tell: list[str]
    webhook: Webhook


class Notifier(Declared):
    """A Notifier."""

    kind: Literal["Notifier"]
    spec: NotifierSpec
    status: NotifierStatus


class WindowState(TypedDict, total=False):
    """The fields of a SyncWindow's status except for its times."""

    active: bool
    holds: list[str]
    """The objects whose changes it holds, as ``kind/name``."""


class WindowFields(WindowState, total=False):
    """The fields of a SyncWindow's status."""

    until: str | None
    begins: str | None


class WindowStatus(Status, WindowFields):
    """The status of a SyncWindow."""


class WindowSpec(TypedDict):
    """Times for changes."""

    kind: str
    schedule: str
    duration: str
    timeZone: str
    deployments: list[str]
    nodes: list[str]
    selector: dict[str, str]


class SyncWindow(Declared):
    """A SyncWindow."""

    kind: Literal["SyncWindow"]
    spec: WindowSpec
    status: WindowStatus


# --- jobs ------------------------------------------------------------------------------------------------


class JobState:
    """The states of jobs and of their runs."""

    PENDING = "Pending"
    """It waits for its nodes, or for its next attempt."""
    RUNNING = "Running"
    SUSPENDED = "Suspended"
    SCHEDULED = "Scheduled"
    """It has had no run; its schedule begins one."""
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    CANCELLED = "Cancelled"

    ENDED = (SUCCEEDED, FAILED, CANCELLED)


WAITING = "waiting"
"""The phase of a rank whose attempt was placed, and waits to start."""


class JobRank(TypedDict):
    """A rank of an attempt."""

    rank: int
    node: str
    phase: str
    """``waiting`` before its start; ``ready`` once its program runs; ``exited``."""
    exit: str | None
    """Its exit as ``code:signal``; None while it runs, and if it is not known."""
    text: str
    """Its present activity, or its own last words, for people."""


class AttemptFields(TypedDict):
    """The fields of an attempt except for its times."""

    number: int
    """Counts from 1, attempts that do not count against ``backoffLimit`` too."""
    epoch: int
    end: str | None
    """The reason for its end; None while it runs."""
    text: str
    """The end, for people."""
    transport: str
    ranks: list[JobRank]


class Attempt(AttemptFields):
    """An attempt of a run."""

    startedAt: str
    endedAt: str | None


class RunArtifacts(TypedDict):
    """The artifacts of a run."""

    state: str
    """``none``, ``pending``, ``fetched`` or ``partly``."""
    files: int
    bytes: int
    text: str
    """The files that are missing and why, for people."""


class RunFields(TypedDict):
    """The fields of a run except for its times."""

    run: int
    """Counts from 1."""
    state: str
    reason: str
    """The reason for its result, such as ``BackoffLimitExceeded``; its state while it has none."""
    text: str
    """The reason, for people."""
    attempt: int
    """The number of its attempt, of those that count against ``backoffLimit``; 0 before the first."""
    exit: str | None
    """The exit of its last attempt as ``code:signal``: that of the rank to blame. None while an attempt runs."""
    seconds: float | None
    """Time from its first start to its end; None before."""
    artifacts: RunArtifacts
    attemptsLeftOut: int
    """Number of earlier attempts that are not in ``attempts``."""


class Run(RunFields):
    """A run of a job."""

    createdAt: str
    scheduledAt: str | None
    """The time of its schedule; None without one."""
    startedAt: str | None
    endedAt: str | None
    attempts: list[Attempt]
    """Its newest attempts, oldest first."""


class JobSummary(TypedDict, total=False):
    """The fields of a Job's status except for its times and runs. They are those of its current run: with a schedule the
    newest, else that of its manifest as it is now."""

    state: str
    run: int
    """The number of the run; 0 if there is none yet."""
    attempt: int
    """The number of its attempt; 0 before the first."""
    attemptsMax: int
    """Most attempts that count: ``backoffLimit`` and one."""
    nodes: list[str]
    """The nodes of its newest attempt, in the order of ranks."""
    exit: str | None
    seconds: float | None


class JobFields(JobSummary, total=False):
    """The fields of a Job's status."""

    startedAt: str | None
    endedAt: str | None
    nextSchedule: str | None
    """The time of its next run by its schedule; None if there is none."""
    runs: list[Run]
    """Its newest runs, oldest first."""


class JobStatus(Status, JobFields):
    """The status of a Job."""


class JobFileDigest(TypedDict):
    """A file of a job; its content is not shown."""

    path: str
    executable: bool
    sha256: NotRequired[str]


class JobSpec(TypedDict):
    """A program, and the nodes that it needs."""

    program: dict[str, object]
    nodes: int
    schedule: NotRequired[str]
    suspend: bool
    files: list[JobFileDigest]
    artifacts: list[str]


class Job(Declared):
    """A Job."""

    kind: Literal["Job"]
    spec: JobSpec
    status: JobStatus


Object = Union[Node, Fabric, Model, ModelDeployment, Gateway, ApiKey, Notifier, SyncWindow, Job]
"""A manifest with its status."""


# --- operations and ranks --------------------------------------------------------------------------------


class Target(TypedDict):
    """The object of an operation."""

    kind: str
    """The kind of the object that it is about."""
    name: str
    """The name of that object."""


class OperationSpec(TypedDict):
    """A temporary change of the running cluster."""

    verb: str
    """The verb, such as ``drain``."""
    target: Target
    by: str
    """The person, as git writes it."""
    at: str
    """The time of its beginning."""
    reason: str
    """The reason, as the person gave it."""
    until: NotRequired[str]
    """The time at which it ends by itself."""
    replicas: NotRequired[int]
    """The number of replicas, for ``scale``."""
    boot: NotRequired[str]
    """The boot id of the machine before its restart, for ``reboot``."""
    over: NotRequired[str]
    """The revision that was in force, for ``approve``."""


class OperationStatus(TypedDict):
    """The progress of an operation."""

    standing: str
    """``InForce``, or why it is not."""


class Operation(Declared):
    """An operation."""

    kind: Literal["Operation"]
    """``Operation``."""
    spec: OperationSpec
    status: OperationStatus


class Rank(TypedDict):
    """A rank, which is observed and never declared."""

    kind: Literal["Rank"]
    """``Rank``."""
    metadata: Metadata
    """Its labels are ``deployment``, ``replica``, ``epoch`` and ``node``."""
    deployment: str
    """The name of its deployment."""
    replica: int
    """The number of its replica."""
    rank: int
    """Its number in the group."""
    node: str
    """The name of its node."""
    pid: int | None
    """Its process; None before it is started."""
    epoch: int
    """The epoch of its group."""
    phase: str
    """Its phase, such as ``loading`` or ``ready``."""
    detail: str
    """What it does, for people."""
    demand: int
    """Number of requests."""
    steps: int
    """Number of steps that it has taken."""
    stopped: bool
    """True if a signal stopped it."""
    silentSeconds: float
    """Seconds without a sign of life."""
    killed: bool
    """True if SIGKILL was sent to it."""
    unkillable: bool
    """True if SIGKILL did not end it."""
    startedAt: str | None
    """The time at which it was started; None if unknown."""


Item = Union[Object, Operation, Rank]
"""Everything that ``get`` shows."""


# --- lists -----------------------------------------------------------------------------------------------


class ListHead(TypedDict):
    """What every list has beside its items."""

    version: str
    """Changes with every change of an item, except for counters."""
    revision: str
    unobserved: list[str]
    """Nodes that have not reported since the controller started: their ranks are not known."""


class RankList(ListHead):
    """Ranks, sorted by deployment, replica, epoch and number."""

    items: list[Rank]


class _ObjectsHead(ListHead, KeptOut):
    """What every list of objects has beside its items."""


class OperationList(_ObjectsHead):
    """Operations, in the order in which they are laid over the manifests."""

    items: list[Operation]


class NodeList(_ObjectsHead):
    """Nodes, sorted by name."""

    items: list[Node]


class FabricList(_ObjectsHead):
    """Fabrics, sorted by name."""

    items: list[Fabric]


class GatewayList(_ObjectsHead):
    """The Gateway."""

    items: list[Gateway]


class DeploymentList(_ObjectsHead):
    """ModelDeployments, sorted by name."""

    items: list[ModelDeployment]


class JobList(_ObjectsHead):
    """Jobs, sorted by name."""

    items: list[Job]


class ObjectList(_ObjectsHead):
    """Manifests with their status, sorted by kind and name."""

    items: list[Object]


class ItemList(_ObjectsHead):
    """Items of a kind that is known at run time only; of ranks without ``KeptOut``."""

    items: list[Item]


class ShownList(TypedDict):
    """What ``get`` prints beside the items."""

    apiVersion: str
    """The version of manifests."""
    kind: str
    """``List``."""
    revision: str
    """The commit in force: of operations, that of their branch."""


class ShownRanks(ShownList):
    """What ``get ranks`` prints."""

    items: list[Rank]


class ShownOperations(ShownList):
    """What ``get operations`` prints."""

    items: list[Operation]


def conditions_of(item: Item) -> list[Condition]:
    """Return the conditions of an object; ranks and operations have none."""
    return [] if item["kind"] == "Rank" or item["kind"] == "Operation" else item["status"]["conditions"]


def condition(item: Item, type: str) -> Condition:
    """Return a condition of an object, with ``seen`` and ``person``; one with the status ``Unknown`` if it is not set."""
    unset: Condition = {
        "type": type,
        "status": "Unknown",
        "reason": "",
        "message": "",
        "lastTransitionTime": None,
        "observedGeneration": 0,
    }
    found = next((each for each in conditions_of(item) if each["type"] == type), unset)
    return {**found, "seen": found.get("seen", found["message"]), "person": found.get("person", "")}


def is_true(item: Item, type: str) -> bool:
    """Return whether a condition holds."""
    return condition(item, type)["status"] == "True"
