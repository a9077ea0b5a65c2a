"""Command line and controller, over ``controller.sock`` (mode 0600: everybody who can open it is an administrator).

Requests and answers are paired as in ``node``: ``"call": n`` and ``"reply": n``. What is read comes as
plain JSON in ``Answer.body``: it is what ``-o json`` prints.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Mapping, Optional, Tuple

from .codec import Hello, Refused, message, vocabulary
from .figures import ShowMetrics, ShowSeries
from .launch import RankId
from .manifests import Compare, Validate
from .operate import Operate


@message("get")
@dataclasses.dataclass(frozen=True)
class Get:
    """Objects as ``{"revision", "version", "items": [{apiVersion, kind, metadata, spec, status}]}``.

    ``kind`` is one of the manifest kinds or ``Rank``; None is all manifest kinds. ``version`` is another
    one whenever anything has changed: while it is ``seen``, the answer is held back for ``wait_seconds``.
    """

    kind: Optional[str] = None
    name: Optional[str] = None
    seen: str = ""
    wait_seconds: float = 0.0
    ended: bool = False
    """Ranks that have ended as well, as long as their nodes keep them."""


@message("plan")
@dataclasses.dataclass(frozen=True)
class ShowPlan:
    """Ask what the controller would do now: ``{"steps": [...], "waiting": [...], "refused": [...]}``."""

    last: bool = False
    """Whether the plan of the last pass will do, which costs nothing; else one is made for this answer."""


@message("usage")
@dataclasses.dataclass(frozen=True)
class ShowUsage:
    """Ask for the current use of nodes whose agent answers: ``{"nodes": [...], "ranks": [...]}``.

    Nodes as ``{"name", "host", "cpus", "load", "ranks", "ranksCores", "memoryBytes", "memoryUsedBytes", "pressure",
    "gpuWatts", "gpuUse", "tokensPerSecond"}``, of which ``load``, ``memoryUsedBytes``, ``gpuWatts`` and ``gpuUse`` (from 0 to 1)
    are None where they are unknown; nodes with the same ``host`` share a machine and its memory; ranks as ``{"name", "node", "cores", "residentBytes", "chargedBytes", "loadedBytes", "totalBytes",
    "demand", "tokensPerSecond"}``: how much of its weights is in memory, of how much.
    """


@message("foresee")
@dataclasses.dataclass(frozen=True)
class Preview:
    """Ask what the controller would do with other manifests; ``files`` are all of them, text by name. The answer:
    ``{"removes": ["kind/name"], "of", "serving": ["kind/name"], "held": bool, "suspended", "tooLarge": [text], "plan": {...},
    "replicas": [{"object", "replica", "nodes", "moves": [node] or None, "ends": bool, "text"}]}``. ``serving``: of what it
    removes, what serves and is not ``allowed``. ``plan``: of held manifests the one after an approval."""

    files: Mapping[str, str]
    operations: Optional[Mapping[str, str]] = None
    """All files of other operations, to be laid over the manifests in force; ``files`` do not count then."""
    allowed: Tuple[str, ...] = ()
    """The words of ``Allow-Removal`` of the commit."""


@message("facts")
@dataclasses.dataclass(frozen=True)
class ShowFacts:
    """Ask for what plans depend on, as a file that may leave the cluster: ``{"facts": {...}, "settled": bool}``."""


@message("judge_push")
@dataclasses.dataclass(frozen=True)
class JudgePush:
    """Ask, before git accepts a push to ``ref``, what it would mean: ``{"accept": bool, "lines": [text for the pusher]}``.

    Refused if the controller does not read ``repository``.
    """

    repository: str
    """The real path of the repository."""
    old: str
    new: str
    ref: str
    quarantine: str = ""
    """Name of the folder of its ``objects`` with the pushed objects; empty if there are none."""
    allow: Optional[str] = None
    """What the pusher lets it remove although it serves: a name, or all with an empty text."""


@message("judge_operations")
@dataclasses.dataclass(frozen=True)
class JudgeOperations:
    """Ask the same before git accepts a push to the branch of operations."""

    repository: str
    """The real path of the repository."""
    old: str
    new: str
    quarantine: str = ""
    """Name of the folder of its ``objects`` with the pushed objects; empty if there are none."""


@message("follow_push")
@dataclasses.dataclass(frozen=True)
class FollowPush:
    """Ask what has become of a pushed revision: ``{"version", "done": bool, "lines": [text for the pusher]}``.

    While ``version`` is ``seen``, the answer is held back for ``wait_seconds``.
    """

    revision: str
    seen: str = ""
    wait_seconds: float = 0.0


@message("places")
@dataclasses.dataclass(frozen=True)
class ShowPlaces:
    """Ask why the replicas of a deployment are on their nodes and not on others.

    ``{"items": [{"replica", "text", "nodes": [{"node", "rank": number or None, "text"}]}]}``: every node of the
    cluster, what its rank is charged or why it has none.
    """

    name: str


@message("events")
@dataclasses.dataclass(frozen=True)
class ListEvents:
    """Events with ids above ``after``, oldest first, as ``{"items": [...], "last": id}``.

    With ``wait_seconds`` an empty answer is held back until there is one or the time is over.
    """

    after: int = 0
    limit: int = 1000
    kind: Optional[str] = None
    name: Optional[str] = None
    wait_seconds: float = 0.0
    warning: Optional[bool] = None
    """True for warnings only, False for all others only."""
    since: Optional[float] = None
    """Only events that are not older, in seconds since the Unix epoch."""


@message("incidents")
@dataclasses.dataclass(frozen=True)
class ListIncidents:
    """Incidents, oldest first, the newest ``limit`` of them, as ``{"items": [...], "version"}``.

    ``version`` is another one whenever one of them has changed: while it is ``seen``, the answer is held back
    for ``wait_seconds``.
    """

    id: Optional[int] = None
    kind: Optional[str] = None
    name: Optional[str] = None
    open: bool = False
    """Only open incidents."""
    since: Optional[float] = None
    """Only incidents that were open then or later, in seconds since the Unix epoch."""
    limit: int = 100
    seen: str = ""
    wait_seconds: float = 0.0


@message("commits")
@dataclasses.dataclass(frozen=True)
class ListCommits:
    """The newest ``limit`` commits of ``main`` and of the operations together, newest first.

    ``{"version", "items": [{"revision", "branch", "author", "email", "time", "subject", "state", "objects": [{"object",
    "action"}], "objectsLeftOut"}], "problem"}``. ``state`` is ``InForce`` for the commit that is, ``Earlier`` for those
    before it, and ``Held``, ``Rejected``, ``Suspended`` or ``Unread`` for newer ones. Operations are objects named
    ``operation/VERB.KIND.NAME``; ``action`` is ``added``, ``changed`` or ``removed``. ``problem`` says why there are no
    commits; None where there may be some. While ``version`` is ``seen``, the answer is held back for ``wait_seconds``.
    """

    limit: int = 100
    seen: str = ""
    wait_seconds: float = 0.0


@message("commit")
@dataclasses.dataclass(frozen=True)
class ShowCommit:
    """A commit as ``ListCommits`` has it, and ``{"message", "files": [{"path", "action", "lines", "leftOut"}], "undo":
    [command], "acts": [{"verb", "kind", "name", "to"}]}``.

    ``revision`` may be abbreviated. Lines begin with ``+``, ``-``, a space or ``@@``; ``leftOut`` counts those that are not
    shown, and is -1 for a file that is too large. ``undo`` are the commands that take back what it did; ``acts``
    are those of them that ``Operate`` carries out, ``to`` being its ``to_revision``.
    """

    revision: str


@message("rank_log")
@dataclasses.dataclass(frozen=True)
class ReadRankLog:
    """Output of a rank, as ``{"text", "offset", "node", "begin", "restBytes"}``: as ``node.Log`` has it."""

    id: RankId
    bytes_max: int
    offset: Optional[int] = None


@message("status")
@dataclasses.dataclass(frozen=True)
class ShowStatus:
    """The controller itself: ``{"version", "pid", "revision", "operations", "source", "endpoint", "settled"}``, where
    ``operations`` is the commit of the operations in force.

    And what became of a newer revision that is not in force: ``rejection``, a text, where its manifests are
    wrong; ``held``, ``{"revision", "removes": ["kind/name"], "of", "command", "text"}``, where it would remove
    too much; ``suspended``, ``{"revision", "text"}``, where new revisions wait; and ``operationsRejection``, a text,
    where newer operations are wrong. None each where not. ``keysBehind`` are the gateways that have other keys than those
    in force: ``{"node", "problem"}``, the node None for the controller's own, the problem None where it can be reached.
    """


@message("look")
@dataclasses.dataclass(frozen=True)
class Look:
    """Look again at ``name``: ``source`` after a push, ``remote`` if there may be something new in the remote repository.
    ``at``: the sender's own time stamp."""

    name: str
    at: Optional[float] = None


@message("source")
@dataclasses.dataclass(frozen=True)
class ShowSource:
    """How it stands with the remote repository; empty where there is none.

    ``{"url", "branch", "path", "interval", "revision", "looks", "answeredAt", "awaySince", "conditions"}``, and
    ``problem`` where its settings cannot be read. While there were no more than ``looks`` looks, the answer is held back
    for ``wait_seconds``.
    """

    looks: int = -1
    wait_seconds: float = 0.0


@message("stop")
@dataclasses.dataclass(frozen=True)
class Stop:
    """Stop every rank and every local agent, then end the controller. For ``up`` in the foreground."""


@message("approve")
@dataclasses.dataclass(frozen=True)
class Approve:
    """Approve a held revision: ``{"revision", "removes": ["kind/name"], "again": bool}``.

    ``revision`` may be abbreviated. ``again``: it had been approved before, nothing was done.
    """

    revision: str
    by: str


@message("verify")
@dataclasses.dataclass(frozen=True)
class Verify:
    """Hash a Model's weights on every node that has them; a damaged file is fetched again.

    Without ``run`` it begins: ``{"run", ...}``. With it, as below, held back for ``wait_seconds`` while there is
    something left to do: ``{"run", "done": bool, "nodes": [{"node", "phase", "doneBytes", "totalBytes", "problem",
    "text", "files": [{"name", "size", "state"}]}]}``, where ``beside`` names a node with the same folder instead of
    ``files``.
    """

    model: str
    run: str = ""
    wait_seconds: float = 0.0


@message("doctor")
@dataclasses.dataclass(frozen=True)
class Doctor:
    """Ask the probes of these nodes (or of all) again, then say what is wrong.

    Without ``run`` it begins: ``{"run", "asking": [node]}``. With it the same, held back for ``wait_seconds`` while
    a node is still being asked, and in the end ``{"run", "asking": [], "nodes": [node], "findings": [{"class",
    "title", "objects": ["kind/name"], "nodes", "seen", "means", "steps", "person": bool}], "notKnown": [{"node",
    "what", "why"}], "healed": [...]}``: the last are incidents of the last hour that are over, as ``ListIncidents``
    has them without their entries.
    """

    nodes: Tuple[str, ...] = ()
    run: str = ""
    wait_seconds: float = 0.0


@message("protection")
@dataclasses.dataclass(frozen=True)
class ShowProtection:
    """What protects a node that was seen: ``{"commands": [{"argv": [word], "why"}], "unknown": [text], "system",
    "firewall": {"file", "rules": text, "unknown": [text]}}``. ``commands`` are what sudo should allow there, and the
    words of one may hold ``169.254.*.*`` for any link-local address; ``rules`` is empty for a system without a writer."""

    node: str
    own_user: str
    """Who runs the ranks of the controller's own machine."""


@message("accept")
@dataclasses.dataclass(frozen=True)
class Accept:
    """Measure the groups of a deployment after bring-up, rank by rank and link by link.

    Without ``run`` it begins: ``{"run", "doing": text}``. With it the same, held back for ``wait_seconds``, and in
    the end ``{"run", "doing": "", "deployment", "ok": bool, "replicas": [{"replica", "epoch", "nodes",
    "transport", "ranks", "memoryBytes", "computeSeconds", "collective", "links", "streams", "checks": [{"name", "ok":
    bool or None, "text", "blame"}]}]}``. ``under_load``: measure although requests are being answered. ``smaller``:
    tokens per second of one answer by groups of so many nodes, to compare with.
    """

    deployment: str
    under_load: bool = False
    smaller: Mapping[str, float] = dataclasses.field(default_factory=dict)
    run: str = ""
    wait_seconds: float = 0.0


CONTROLLER_RECEIVES_FROM_CLI = vocabulary(
    Hello,
    Get,
    ShowFacts,
    ShowPlaces,
    ShowMetrics,
    ShowSeries,
    ShowPlan,
    ShowUsage,
    Preview,
    Validate,
    Compare,
    JudgePush,
    JudgeOperations,
    FollowPush,
    ListEvents,
    ListIncidents,
    ListCommits,
    ShowCommit,
    Operate,
    ReadRankLog,
    ShowStatus,
    Approve,
    Verify,
    Doctor,
    ShowProtection,
    Accept,
    Look,
    ShowSource,
    Stop,
)


@message("answer")
@dataclasses.dataclass(frozen=True)
class Answer:
    """The answer to every request."""

    body: Any


CLI_RECEIVES = vocabulary(Hello, Refused, Answer)
