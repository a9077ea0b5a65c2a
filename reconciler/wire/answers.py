"""The controller's answers to the command line and the console: plain JSON, which ``-o json`` prints.

Each request of ``admin`` names the type of its answer. ``docs/api.md`` is made of these types and says how long their
fields stay. Times are RFC 3339 in UTC; None is unknown or does not apply.
"""

from __future__ import annotations

from typing import Any, Dict, Generic, TypedDict, TypeVar

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


class DoctorRun(TypedDict):
    """An examination that has begun."""

    run: str
    """Identifies it: ask again with it."""
    asking: list[str]
    """The nodes that are still being asked."""


class DoctorAnswer(DoctorRun, total=False):
    """An examination; the other fields come when no node is being asked any more."""

    nodes: list[str]
    findings: list[Finding]
    notKnown: list[NotKnown]
    healed: list[HealedIncident]


# --- the controller ------------------------------------------------------------------------------------


class Held(TypedDict):
    """A revision that is held because it would remove too much."""

    revision: str
    removes: list[str]
    """The objects that it would remove, as ``kind/name``."""
    of: int
    """Number of objects of these kinds."""
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
    again: bool
    """True if it had been approved before, and nothing was done."""


# --- objects -------------------------------------------------------------------------------------------


class RankLabels(TypedDict):
    deployment: str
    replica: str
    epoch: str
    node: str


class RankMetadata(TypedDict):
    name: str
    labels: RankLabels


class Rank(TypedDict):
    """A rank, which is observed and never declared."""

    kind: str
    metadata: RankMetadata
    deployment: str
    replica: int
    rank: int
    node: str
    pid: int | None
    epoch: int
    phase: str
    detail: str
    demand: int
    """Number of requests."""
    steps: int
    stopped: bool
    """True if a signal stopped it."""
    silentSeconds: float
    """Seconds without a sign of life."""
    killed: bool
    unkillable: bool
    """True if SIGKILL did not end it."""
    startedAt: str | None


class RankList(TypedDict):
    """Ranks, sorted by deployment, replica, epoch and number."""

    revision: str
    items: list[Rank]


Object = Dict[str, Any]
"""A manifest with its status: ``apiVersion``, ``kind``, ``metadata``, ``spec`` and ``status`` as its kind's page says."""
