"""The controller's answers to the command line and the console: plain JSON, which ``-o json`` prints.

Each request of ``admin`` names the type of its answer. ``docs/api.md`` is made of these types and says how long their
fields stay. Times are RFC 3339 in UTC; None is unknown or does not apply.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, Sequence, TypedDict, TypeVar

if TYPE_CHECKING:
    from typing import NotRequired

A = TypeVar("A", covariant=True)


class Asks(Generic[A]):
    """A request whose answer has a body of type ``A``."""

    __slots__ = ()


# --- the plan ----------------------------------------------------------------------------------------


class PlannedStep(TypedDict):
    """A step that the controller takes now."""

    step: str
    """The kind of step, such as ``StartRank``."""
    object: str
    """The object that it is about, as ``kind/name``."""
    text: str
    """The step, for people."""


class Obstacle(TypedDict):
    """Something that is wanted and not done now."""

    object: str
    """The object that waits or is refused, as ``kind/name``."""
    replica: str | None
    """The replica, such as ``tiny/0``; None if it is not about one."""
    reason: str
    """The CamelCase reason."""
    text: str
    """The reason, for people."""


class Delay(Obstacle):
    """Something that waits."""

    until: str | None
    """The time at which it is tried again at the latest; None without a deadline."""


class Refused(Obstacle):
    """Something that is impossible until a person changes something; ``text`` has both of these."""

    seen: str
    """The reason alone, for people."""
    person: str
    """The steps for a person; empty where ``seen`` says enough."""


class Planned(TypedDict):
    """Everything that the controller would do now."""

    steps: list[PlannedStep]
    waiting: list[Delay]
    """Everything that happens by itself later."""
    refused: list[Refused]
    """Everything that is impossible until a person changes something."""


# --- what has happened ---------------------------------------------------------------------------------


class EventEntry(TypedDict):
    """An event, which is never changed."""

    id: int
    """The number of the event; later events have higher ones."""
    time: str
    """The time of the event."""
    type: str
    """``Normal`` or ``Warning``."""
    object: str
    """The object that it is about, as ``kind/name``."""
    reason: str
    """The CamelCase reason."""
    message: str
    """The event, for people."""
    revision: str
    """The commit that it is about; empty for none."""
    hookTime: str | None
    """The time at which a webhook announced that commit."""


class Events(TypedDict):
    """Events, oldest first."""

    items: list[EventEntry]
    last: int
    """The id to continue from."""


class _Entry(TypedDict):
    time: str
    """The first time."""
    after: float
    """Seconds since the first sign."""
    kind: str
    """``seen``, ``tried``, ``outcome`` or ``person``."""
    text: str
    """The line, for people."""
    rank: str | None
    """The rank whose end it tells, such as ``tiny.0.2.1``; None if it tells of none."""
    seconds: float | None
    """Seconds that the step took."""
    times: int
    """Number of repetitions in a row."""
    lastTime: str
    """The time of the latest repetition."""


# ``class`` is a word of Python, so that the types with such a field are written in two parts.
_ClassOfSign = TypedDict("_ClassOfSign", {"class": "str | None"})
_Class = TypedDict("_Class", {"class": str})


class IncidentEntry(_Entry, _ClassOfSign):
    """A line of an incident's history. ``class``: the class of the fault that a sign shows, such as ``C8``."""


class HealedIncident(_Class):
    """An incident without its entries. ``class``: the class of the fault, such as ``C8``."""

    id: int
    """The number of the incident."""
    object: str
    """The object that it is about, as ``kind/name``."""
    subject: str
    """The replica, node, cable or request that has the fault, such as ``replica/tiny/0``."""
    title: str
    """The name of the class, such as ``rank crash``."""
    open: bool
    """True until its object is well again."""
    openedAt: str
    """The time of the first sign."""
    closedAt: str | None
    """The time of the end; None while it is open."""
    seconds: float
    """Seconds from the first sign to the end, or to now."""
    unservedSeconds: float | None
    """Seconds for which its replica did not serve; None if it is about no replica."""
    reopened: int
    """Number of times that it came back before it was settled."""
    summary: str
    """The incident on one line, for people."""
    seen: str
    """The problem alone, for people; of an incident that is over, with its end."""
    doing: str
    """The remedy that was tried last, for people."""
    person: str
    """The steps for a person; empty if no person is needed."""


class Incident(HealedIncident):
    """An incident: a fault, from its first sign to its end."""

    entries: list[IncidentEntry]
    entriesLeftOut: int
    """Number of entries in the middle that are omitted."""


class Incidents(TypedDict):
    """Incidents, oldest first."""

    version: str
    """Changes with every change of an incident."""
    items: list[Incident]


class TouchedObject(TypedDict):
    """An object that a commit touches."""

    object: str
    """``kind/name``; operations are ``operation/VERB.KIND.NAME``."""
    action: str
    """``added``, ``changed`` or ``removed``."""


class Commit(TypedDict):
    """A commit of ``main`` or of the operations."""

    revision: str
    """The id of the commit."""
    branch: str
    """``main`` or ``operations``."""
    author: str
    """The author's name."""
    email: str
    """The author's address."""
    time: str
    """The author's time."""
    subject: str
    """The first line of the message."""
    state: str
    """``InForce`` for the commit in force, ``Earlier`` for those before it, and ``Held``, ``Rejected``, ``Suspended`` or
    ``Unread`` for newer ones."""
    objects: list[TouchedObject]
    objectsLeftOut: int
    """Number of objects that are omitted."""


class CommitList(TypedDict):
    """Commits, newest first."""

    items: list[Commit]
    problem: str | None
    """Why there are no commits."""


class Commits(CommitList):
    """Commits, newest first, as they are now."""

    version: str
    """Changes with every new commit, and with what is in force."""


class FileChange(TypedDict):
    """The changes of a commit to one file."""

    path: str
    """The path in the repository."""
    action: str
    """``added``, ``changed`` or ``removed``."""
    lines: list[str]
    """Lines that begin with ``+``, ``-``, a space or ``@@``."""
    leftOut: int
    """Number of lines that are omitted; -1 for a file that is too large."""


class Act(TypedDict):
    """A way to take back a commit that ``Operate`` can carry out."""

    verb: str
    """The verb, such as ``undo``."""
    kind: str
    """The kind of the object."""
    name: str
    """The name of the object."""
    to: str
    """The commit to go back to; empty if the verb needs none."""


class ShownCommit(Commit):
    """A commit with its diff."""

    message: str
    """The whole message."""
    files: list[FileChange]
    undo: list[str]
    """The commands that take back its changes."""
    acts: list[Act]


# --- machines ------------------------------------------------------------------------------------------


class NodeUsage(TypedDict):
    """The current use of a node."""

    name: str
    """The name of the node."""
    host: str
    """Nodes with the same host share a machine and its memory."""
    cpus: int
    """Number of processor cores."""
    load: float | None
    """Load average over one minute."""
    ranks: int
    """Number of running ranks."""
    ranksCores: float
    """Cores that the ranks use."""
    memoryBytes: int
    """The memory of the machine."""
    memoryUsedBytes: int | None
    """The memory in use."""
    pressure: str
    """Memory pressure, such as ``normal``; empty if unknown."""
    gpuWatts: float | None
    """The power of the GPU."""
    gpuUse: float | None
    """The use of the GPU, from 0 to 1."""
    tokensPerSecond: float
    """Tokens of all answers of groups whose rank 0 is here."""


class RankUsage(TypedDict):
    """The current use of a rank."""

    name: str
    """The name of the rank, such as ``tiny.0.3.1``: deployment, replica, epoch and number."""
    node: str
    """The name of its node."""
    cores: float
    """Cores that it uses."""
    residentBytes: int
    """Memory that it uses."""
    chargedBytes: int
    """Memory that it may use."""
    loadedBytes: int
    """Bytes of its weights that are in memory."""
    totalBytes: int
    """Bytes of its weights."""
    demand: int
    """Number of requests."""
    tokensPerSecond: float
    """Tokens of all its answers."""


class ReportedUsage(TypedDict):
    """The current use of the nodes whose agent answers."""

    nodes: list[NodeUsage]
    ranks: list[RankUsage]


class Usage(ReportedUsage):
    """The current use of the nodes whose agent answers, and the nodes without a report."""

    unobserved: list[str]
    """Nodes that have not reported since the controller started."""


class Seat(TypedDict):
    """A node and its role for a replica."""

    node: str
    rank: int | None
    text: str
    """The charge of its rank, or the reason why it has none."""


class Placement(TypedDict):
    """A replica, and every node of the cluster."""

    replica: int
    text: str
    """Why its group has this number of nodes and this context; empty without a group."""
    nodes: list[Seat]


class Placements(TypedDict):
    """The placement of a deployment's replicas."""

    items: list[Placement]


class _FindingBody(TypedDict):
    title: str
    """The name of the class, or of the finding."""
    objects: list[str]
    """The objects with this problem, as ``kind/name``."""
    nodes: list[str]
    """The machines concerned."""
    seen: str
    """The observation, for people."""
    means: str
    """The consequences for users, for people."""
    steps: str
    """The steps to take, for people."""
    person: bool
    """True if a person has to act; else the controller does."""


class Finding(_FindingBody, _Class):
    """A current problem. ``class``: its class of faults, such as ``C8``; empty without one."""


class NotKnown(TypedDict):
    """A fact that could not be found out."""

    node: str
    """The node that it is about."""
    what: str
    """The fact, for people."""
    why: str
    """The reason, for people."""


class Findings(TypedDict):
    """The result of an examination."""

    nodes: list[str]
    """The examined nodes."""
    findings: list[Finding]
    notKnown: list[NotKnown]
    healed: list[HealedIncident]
    """The incidents that ended in the last hour."""


class DoctorAnswer(TypedDict):
    """An examination. It has the fields of ``Findings`` when no node is being asked any more."""

    run: str
    """Identifies it: ask again with it."""
    asking: list[str]
    """The nodes that are still being asked."""
    nodes: NotRequired[list[str]]
    findings: NotRequired[list[Finding]]
    notKnown: NotRequired[list[NotKnown]]
    healed: NotRequired[list[HealedIncident]]


# --- the controller ------------------------------------------------------------------------------------


class JobToRun(TypedDict):
    """A job that a revision would run, and that nobody has permitted."""

    object: str
    """``job/NAME``."""
    command: list[str]
    nodes: list[str]
    """The nodes that allow it."""
    text: str


class Held(TypedDict):
    """A revision that is held because it would remove too much, or because it would run a job."""

    revision: str
    removes: list[str]
    """The objects that it would remove, as ``kind/name``; empty if they are no reason."""
    of: int
    """Number of objects of these kinds."""
    runs: list[JobToRun]
    """The jobs that it would run."""
    command: str
    """The command that approves it."""
    text: str


class Suspended(TypedDict):
    """New revisions wait, because a person has suspended the cluster."""

    revision: str
    text: str


class HeldChange(TypedDict):
    """A change that waits for a sync window."""

    object: str
    """``kind/name``."""
    window: str
    """The SyncWindow."""
    until: str | None


class HeldChanges(TypedDict):
    """The changes of a revision that wait for sync windows."""

    revision: str
    changes: list[HeldChange]
    text: str


class KeptOut(TypedDict):
    """Why a newer revision, or a part of it, is not in force; None where it does not apply."""

    held: Held | None
    rejection: str | None
    """Its manifests are wrong."""
    suspended: Suspended | None
    heldChanges: HeldChanges | None


class KeysBehind(TypedDict):
    """A gateway whose keys are not those in force."""

    node: str | None
    """None for the controller's own gateway."""
    problem: str | None
    """None if the gateway can be reached."""


class Layer(TypedDict):
    """The operations in force."""

    operations: str
    """Their commit."""
    operationsInForce: int
    """Number of operations by which the cluster differs from git."""
    operationsRejection: str | None
    """Newer operations are wrong."""


class ControllerStatus(KeptOut, Layer):
    """The controller itself."""

    version: str
    pid: int
    revision: str
    """The commit in force; empty before the manifests were read."""
    source: str
    """The source of the manifests, for people."""
    endpoint: str | None
    """The gateway's URL."""
    localEndpoint: str | None
    """The gateway's URL on the controller's machine."""
    gatewayWaits: str
    """The gateway's next act by itself, for people; empty if there is none."""
    settled: bool
    """True if there is nothing to do or to wait for."""
    keysBehind: list[KeysBehind]


class Approved(TypedDict):
    """A revision that was held."""

    revision: str
    removes: list[str]
    """The objects that it removes, as ``kind/name``."""
    runs: list[str]
    """The jobs that it runs, each with its command and nodes."""
    again: bool
    """True if it had been approved before, and nothing was done."""


class Nothing(TypedDict):
    """An answer without fields."""


class SourceCondition(TypedDict):
    """A condition of the remote repository."""

    type: str
    """``Ready`` or ``Stalled``."""
    status: str
    """``True`` or ``False``."""
    reason: str
    """The CamelCase reason."""
    message: str
    """The reason, for people."""
    lastTransitionTime: str | None


class SourceState(TypedDict, total=False):
    """The state of the remote repository; empty where there is none."""

    url: str
    branch: str
    path: str
    """The folder of its manifests; empty for the whole repository."""
    interval: float
    """Seconds between two looks."""
    revision: str | None
    """The commit that ``main`` is at."""
    looks: int
    """Number of looks since the controller started."""
    answeredAt: str | None
    """The time of its last answer."""
    awaySince: str | None
    """The time since which no look has succeeded; None if the last one has."""
    conditions: list[SourceCondition]
    problem: str
    """Why its settings cannot be read."""


class RootCommand(TypedDict):
    """A command that sudo should allow."""

    argv: list[str]
    """Its words; ``169.254.*.*`` in one is any link-local address."""
    why: str


class Firewall(TypedDict):
    """The firewall rules of a machine."""

    file: str
    """The file that they are for; empty for a system without a writer."""
    rules: str
    """The text of the file; empty for a system without a writer."""
    unknown: list[str]
    """Facts that are missing, so that the rules would shut out machines of the cluster."""


class Protection(TypedDict):
    """The protection of a node."""

    commands: list[RootCommand]
    """The commands that sudo should allow there."""
    unknown: list[str]
    """Facts that are missing to know all of them."""
    jobs_user: NotRequired[str]
    """The user as whom programs of jobs should be run there; empty for none. Older controllers leave it out."""
    system: str
    """As ``uname -s`` prints it."""
    firewall: Firewall


# --- changes that are not made yet -----------------------------------------------------------------------


class CostOfChange(TypedDict):
    """A deployment that a change concerns."""

    object: str
    """The deployment, as ``kind/name``."""
    kind: str
    """What happens to its groups, in a word or two."""
    changes: list[str]
    """The changed fields."""
    replicas: int
    """Number of replicas that it takes out of service."""
    atOnce: int
    """How many of them at a time."""
    extra: int
    """Number of extra replicas that may serve meanwhile."""
    extraHasRoom: bool | None
    """True if there is room for one; None if unknown."""
    secondsEach: float | None
    """Seconds for each replica; None if unknown."""
    unservedSeconds: float | None
    """Seconds for which nobody is served; None if unknown."""
    text: str
    """The same, for people."""


class FutureReplica(TypedDict):
    """What becomes of a group."""

    object: str
    """Its deployment, as ``kind/name``."""
    replica: int
    """The number of its replica."""
    nodes: list[str]
    """Its nodes now."""
    moves: list[str] | None
    """The nodes of its next group, if one is formed."""
    ends: bool
    """True if it ends, and no other is formed."""
    text: str
    """The reason, for people; empty without one."""
    unservedSeconds: float | None
    """Seconds for which it is out of service; None if unknown."""


class Foreseen(TypedDict):
    """What the controller would do with other manifests or operations."""

    removes: list[str]
    """The objects that they remove, as ``kind/name``."""
    of: int
    """Number of objects of these kinds."""
    serving: list[str]
    """Those that serve now, and that the commit would have to allow."""
    runs: list[JobToRun]
    """The jobs that they would run, and that the commit would have to allow."""
    held: bool
    """True if a person would have to approve them; the plan is the one after an approval."""
    suspended: str
    """Why they would wait; empty if they would not."""
    tooLarge: list[str]
    """Deployments that no node could ever hold, in sentences."""
    plan: Planned
    replicas: list[FutureReplica]
    changes: list[CostOfChange]


class UsedFacts(TypedDict):
    """The record that a plan was made with."""

    recordedAt: str
    revision: str
    """The commit that was in force."""


class ForeseenWithFacts(Foreseen):
    """What the controller would do by recorded facts: ``plan -f --facts``."""

    facts: UsedFacts


class SavedForeseen(Foreseen):
    """A plan that is kept: ``plan -f --save``."""

    id: str
    """The id of the saved plan."""


class FactsFile(TypedDict):
    """The content of a file of facts. ``facts.recorded`` reads it, and describes the inner parts."""

    kind: str
    version: int
    product: str
    at: float
    revision: str
    inForce: list[str]
    agents: list[str]
    nodes: dict[str, object]
    gatewayProblem: str
    memory: object
    served: object
    operations: object
    runnable: list[str]


class RecordedFacts(TypedDict):
    """The facts that plans depend on."""

    facts: FactsFile
    settled: bool
    """True if there is nothing to do or to wait for."""


class JudgedPush(TypedDict):
    """What a push would mean."""

    accept: bool
    lines: list[str]
    """Text for the pusher."""


class FollowedPush(TypedDict):
    """The outcome of a push so far."""

    version: str
    """Changes with the lines."""
    done: bool
    lines: list[str]
    """Text for the pusher."""


class Operated(TypedDict):
    """The commit of an operation."""

    revision: str | None
    """None if nothing was written."""
    author: str
    branches: list[str]
    """``main``, ``operations`` or both, with a commit each."""
    message: str
    files: list[FileChange]
    changes: bool
    """True if there is something to do."""
    text: list[str]
    """What happens to groups, and other effects, for people."""
    ends: list[str]
    """The groups that would end, which needs ``force``."""


class ManifestProblem(TypedDict):
    """A mistake in a manifest, as ``reconciler.errors.Problem``."""

    file: str
    line: int
    column: int
    path: str
    text: str


class ManifestProblems(TypedDict):
    """The mistakes in manifests. If there are any, an answer has nothing else."""

    problems: list[ManifestProblem]


class Validated(ManifestProblems, total=False):
    """The objects in manifests."""

    objects: list[tuple[str, str]]
    """Kind and name of each."""


class ObjectChange(TypedDict):
    """What an apply would change in an object."""

    kind: str
    name: str
    action: str
    diff: str


class Compared(Validated, total=False):
    """What an apply would change."""

    items: list[ObjectChange]
    """The objects that differ."""


# --- measurements and checks -----------------------------------------------------------------------------


class Figures(TypedDict):
    """A figure of an object over time."""

    object: str
    """The object, as ``kind/name``."""
    name: str
    """``memoryUsedBytes``, ``load`` and ``watts`` (of its GPU) of a node; ``tokensPerSecond``, ``running`` and ``waiting``
    (requests), ``errors`` (requests that ended with one in the interval), ``firstTokenP50`` and ``firstTokenP95`` (seconds)
    of a deployment."""
    values: list[float | None]
    """The means of the intervals, oldest first; None where nothing is known."""


class FigureMark(TypedDict):
    """An event in that time."""

    time: str
    """The time of the event."""
    object: str
    """The object, as ``kind/name``."""
    kind: str
    """``group`` or ``incident``."""
    text: str
    """The event, for people."""


class Metrics(TypedDict):
    """Figures of the last hours."""

    begins: str
    """The time at which the first interval begins."""
    seconds: int
    """Length of an interval."""
    count: int
    """Number of intervals."""
    series: list[Figures]
    marks: list[FigureMark]


class MetricFamily(TypedDict):
    """All series of one name."""

    name: str
    text: str
    labels: list[str]
    """Names of the labels."""
    series: Sequence[tuple[Sequence[str], float]]
    """The values of the labels, and the number."""


class MetricFamilies(TypedDict):
    """The cluster's own metrics, all of them gauges."""

    families: list[MetricFamily]


class LogPiece(TypedDict):
    """A piece of a rank's output, as ``node.Log``."""

    text: str
    offset: int
    """The byte at which the text ends."""
    node: str
    begin: int | None
    """The byte at which the text begins; None from an older agent."""
    restBytes: int | None
    """Number of bytes after the last newline; None from an older agent."""


class VerifiedFile(TypedDict):
    """A file of the weights."""

    name: str
    """Its path in the folder of the weights."""
    size: int
    """Number of bytes."""
    state: str
    """``verified``, ``damaged``, ``missing``, ``fetched again`` or ``not needed here``."""


class VerifiedNode(TypedDict, total=False):
    """The weights on a node."""

    node: str
    """The name of the node."""
    beside: str
    """The node that shares its folder; the other fields are there."""
    phase: str
    """The phase of the verification."""
    doneBytes: int
    """Bytes that were read."""
    totalBytes: int
    """Bytes of the weights."""
    problem: str
    """The CamelCase reason of a failure; empty without one."""
    text: str
    """The reason, for people."""
    files: list[VerifiedFile]


class Verification(TypedDict):
    """A verification of weights. One that has just begun has ``run`` alone."""

    run: str
    """Identifies it: ask again with it."""
    done: NotRequired[bool]
    """True if there is no work left."""
    nodes: NotRequired[list[VerifiedNode]]


class TriedRank(TypedDict):
    """The work of a rank while answers were produced."""

    rank: int
    """The number of the rank."""
    node: str
    """The name of its node."""
    steps: int
    """Steps that it took."""
    cores: float
    """Most cores that it used."""
    gpuWatts: float | None
    """The power of its GPU; None if unknown."""


class Collective(TypedDict):
    """The time of collectives, as medians of the slowest rank."""

    smallBytes: int
    """Size of a small array."""
    smallSeconds: float
    """Time to sum it over all ranks."""
    largeBytes: int
    """Size of a large array."""
    largeSeconds: float
    """Time to sum it over all ranks."""


class TriedLink(TypedDict):
    """The time of a link."""

    nodes: list[str]
    """The nodes at both ends."""
    smallSeconds: float
    """Time to send a small array."""
    largeSeconds: float
    """Time to send a large array."""


class TriedStream(TypedDict):
    """The speed of several answers at once."""

    streams: int
    """Number of answers."""
    tokensPerSecond: float
    """Tokens of all of them, without the time to the first."""


class Check(TypedDict):
    """A line of the checklist."""

    name: str
    """The check, for people."""
    ok: bool | None
    """None if it could not be measured or compared."""
    text: str
    """The result, for people."""
    blame: list[str]
    """Machines, or links as ``a - b``, that are to blame."""


class TriedReplica(TypedDict):
    """The measurements of a group."""

    replica: int
    """The number of its replica."""
    epoch: int
    """The epoch of the group."""
    nodes: list[str]
    """Its nodes, in the order of ranks."""
    transport: str
    """The transport of the group; empty with one rank."""
    ranks: list[TriedRank]
    memoryBytes: list[int]
    """Memory of each rank."""
    computeSeconds: list[float]
    """Time of the same computation on each rank."""
    collective: Collective | None
    """None if it was not measured."""
    links: list[TriedLink]
    streams: list[TriedStream]
    checks: list[Check]


class Tried(TypedDict):
    """The measurements of a deployment's groups."""

    deployment: str
    """The name of the deployment."""
    ok: bool
    """False if a check failed."""
    replicas: list[TriedReplica]
    scale: NotRequired[list[SmallerGroup]]
    """Of ``verify --scale`` only."""


class SmallerGroup(TypedDict):
    """A temporary group of fewer nodes."""

    nodes: int
    """Number of nodes."""
    rate: float | None
    """Tokens per second of one answer; None if it could not be measured."""
    problem: str
    """Why it could not be measured; empty if it was."""


class Trial(TypedDict):
    """A measurement that has begun. At the end it also has the fields of ``Tried``."""

    run: str
    """Identifies it: ask again with it."""
    doing: str
    """What is being measured, for people; empty at the end."""
    deployment: NotRequired[str]
    ok: NotRequired[bool]
    replicas: NotRequired[list[TriedReplica]]
