"""Command line and controller, over ``controller.sock`` (mode 0600: everybody who can open it is an administrator).

Requests and answers are paired as in ``node``: ``"call": n`` and ``"reply": n``. Answers are plain JSON in
``Answer.body``, which ``-o json`` prints.
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

    ``kind`` is one of the manifest kinds or ``Rank``; None is all manifest kinds. ``version`` changes with
    every change: while it equals ``seen``, the answer is held back for ``wait_seconds``.
    """

    kind: Optional[str] = None
    name: Optional[str] = None
    seen: str = ""
    wait_seconds: float = 0.0
    ended: bool = False
    """Include ranks that have ended, as long as their nodes keep them."""


@message("plan")
@dataclasses.dataclass(frozen=True)
class ShowPlan:
    """Ask what the controller would do now: ``{"steps": [...], "waiting": [...], "refused": [...]}``."""

    last: bool = False
    """Answer with the plan of the last pass, which costs nothing; else a plan is made for this answer."""


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
    ``{"removes": ["kind/name"], "of", "serving": ["kind/name"], "held": bool, "suspended", "tooLarge": [text], "plan":
    {...}, "replicas": [{"object", "replica", "nodes", "moves": [node] or None, "ends": bool, "text"}]}``. ``serving``:
    those in ``removes`` that serve and are not ``allowed``. ``plan``: of held manifests, the plan after an approval."""

    files: Mapping[str, str]
    operations: Optional[Mapping[str, str]] = None
    """All files of other operations, to be laid over the manifests in force; ``files`` do not count then."""
    allowed: Tuple[str, ...] = ()
    """The words of ``Allow-Removal`` of the commit."""


@message("facts")
@dataclasses.dataclass(frozen=True)
class ShowFacts:
    """Ask for the recorded facts, as a file that may leave the cluster: ``{"facts": {...}, "settled": bool}``."""


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
    """Name of the serving object that the pusher lets it remove; an empty text for all."""


@message("judge_operations")
@dataclasses.dataclass(frozen=True)
class JudgeOperations:
    """Ask the same question before git accepts a push to the branch of operations."""

    repository: str
    """The real path of the repository."""
    old: str
    new: str
    quarantine: str = ""
    """Name of the folder of its ``objects`` with the pushed objects; empty if there are none."""


@message("follow_push")
@dataclasses.dataclass(frozen=True)
class FollowPush:
    """Ask for the outcome of a pushed revision: ``{"version", "done": bool, "lines": [text for the pusher]}``.

    While ``version`` equals ``seen``, the answer is held back for ``wait_seconds``.
    """

    revision: str
    seen: str = ""
    wait_seconds: float = 0.0


@message("places")
@dataclasses.dataclass(frozen=True)
class ShowPlaces:
    """Ask why the replicas of a deployment are on their nodes and not on others.

    ``{"items": [{"replica", "text", "nodes": [{"node", "rank": number or None, "text"}]}]}``: every node of the
    cluster, with the charge of its rank, or the reason why it has none.
    """

    name: str


@message("events")
@dataclasses.dataclass(frozen=True)
class ListEvents:
    """Events with ids above ``after``, oldest first, as ``{"items": [...], "last": id}``.

    With ``wait_seconds``, an empty answer is held back until there is an event or the time is over.
    """

    after: int = 0
    limit: int = 1000
    kind: Optional[str] = None
    name: Optional[str] = None
    wait_seconds: float = 0.0
    warning: Optional[bool] = None
    """True for warnings only, False for all others only."""
    since: Optional[float] = None
    """Only events from this time on, in seconds since the Unix epoch."""


@message("incidents")
@dataclasses.dataclass(frozen=True)
class ListIncidents:
    """Incidents, oldest first, the newest ``limit`` of them, as ``{"items": [...], "version"}``.

    ``version`` changes with every change of one of them: while it equals ``seen``, the answer is held back for
    ``wait_seconds``.
    """

    id: Optional[int] = None
    kind: Optional[str] = None
    name: Optional[str] = None
    open: bool = False
    """Only open incidents."""
    since: Optional[float] = None
    """Only incidents that were open at this time or later, in seconds since the Unix epoch."""
    limit: int = 100
    seen: str = ""
    wait_seconds: float = 0.0


@message("commits")
@dataclasses.dataclass(frozen=True)
class ListCommits:
    """The newest ``limit`` commits of ``main`` and of the operations together, newest first.

    ``{"version", "items": [{"revision", "branch", "author", "email", "time", "subject", "state", "objects": [{"object",
    "action"}], "objectsLeftOut"}], "problem"}``. ``state`` is ``InForce`` for the commit in force, ``Earlier`` for
    those before it, and ``Held``, ``Rejected``, ``Suspended`` or ``Unread`` for newer ones. Operations are objects
    named ``operation/VERB.KIND.NAME``; ``action`` is ``added``, ``changed`` or ``removed``. ``problem`` says why there
    are no commits, else None. While ``version`` equals ``seen``, the answer is held back for ``wait_seconds``.
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
    """Output of a rank, as ``{"text", "offset", "node", "begin", "restBytes"}``, like ``node.Log``."""

    id: RankId
    bytes_max: int
    offset: Optional[int] = None


@message("status")
@dataclasses.dataclass(frozen=True)
class ShowStatus:
    """The controller itself: ``{"version", "pid", "revision", "operations", "source", "endpoint", "settled"}``, where
    ``operations`` is the commit of the operations in force.

    Four fields say why a newer revision is not in force, and are None otherwise. ``rejection``, a text: its manifests
    are wrong. ``held``, ``{"revision", "removes": ["kind/name"], "of", "command", "text"}``: it would remove too much.
    ``suspended``, ``{"revision", "text"}``: new revisions wait. ``operationsRejection``, a text: newer operations are
    wrong. ``keysBehind`` has the gateways whose keys are not those in force, as ``{"node", "problem"}``: the node is
    None for the controller's own gateway, the problem is None where the gateway can be reached.
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
    """The state of the remote repository; empty where there is none.

    ``{"url", "branch", "path", "interval", "revision", "looks", "answeredAt", "awaySince", "conditions"}``, and
    ``problem`` where its settings cannot be read. While there were at most ``looks`` looks, the answer is held back for
    ``wait_seconds``.
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

    ``revision`` may be abbreviated. ``again``: it had been approved before, and nothing was done.
    """

    revision: str
    by: str


@message("verify")
@dataclasses.dataclass(frozen=True)
class Verify:
    """Hash a Model's weights on every node that has them; a damaged file is fetched again.

    Without ``run`` it begins: ``{"run", ...}``. With ``run``, the answer is held back for ``wait_seconds`` while there
    is work left: ``{"run", "done": bool, "nodes": [{"node", "phase", "doneBytes", "totalBytes", "problem", "text",
    "files": [{"name", "size", "state"}]}]}``. For a node that shares its folder with another, ``beside`` names that
    node instead of ``files``.
    """

    model: str
    run: str = ""
    wait_seconds: float = 0.0


@message("doctor")
@dataclasses.dataclass(frozen=True)
class Doctor:
    """Run the probes of these nodes (or of all) again, then return the findings.

    Without ``run`` it begins: ``{"run", "asking": [node]}``. With ``run``, the same answer is held back for
    ``wait_seconds`` while a node is still being asked. The last answer is ``{"run", "asking": [], "nodes": [node],
    "findings": [{"class", "title", "objects": ["kind/name"], "nodes", "seen", "means", "steps", "person": bool}],
    "notKnown": [{"node", "what", "why"}], "healed": [...]}``. ``healed`` has the incidents that ended in the last hour,
    as in ``ListIncidents`` but without their entries.
    """

    nodes: Tuple[str, ...] = ()
    run: str = ""
    wait_seconds: float = 0.0


@message("protection")
@dataclasses.dataclass(frozen=True)
class ShowProtection:
    """The protection of a node that was seen: ``{"commands": [{"argv": [word], "why"}], "unknown": [text], "system",
    "firewall": {"file", "rules": text, "unknown": [text]}}``. ``commands`` are those that sudo should allow there;
    ``169.254.*.*`` in a word is any link-local address. ``rules`` is empty for a system without a writer."""

    node: str
    own_user: str
    """User who runs the ranks of the controller's own machine."""


@message("accept")
@dataclasses.dataclass(frozen=True)
class Accept:
    """Measure the groups of a deployment after bring-up, rank by rank and link by link.

    Without ``run`` it begins: ``{"run", "doing": text}``. With ``run``, the same answer is held back for
    ``wait_seconds``. The last answer is ``{"run", "doing": "", "deployment", "ok": bool, "replicas": [{"replica",
    "epoch", "nodes", "transport", "ranks", "memoryBytes", "computeSeconds", "collective", "links", "streams", "checks":
    [{"name", "ok": bool or None, "text", "blame"}]}]}``. ``under_load``: measure although requests are being answered.
    ``smaller``: tokens per second of one answer by smaller groups, by their number of nodes, to compare with.
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
