"""Command line and controller, over ``controller.sock`` (mode 0600: everybody who can open it is an administrator).

Requests and answers are paired as in ``node``: ``"call": n`` and ``"reply": n``. Answers are plain JSON in
``Answer.body``, which ``-o json`` prints.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, Mapping, Optional, Tuple, overload

from . import answers, objects
from .answers import A, Asks
from .codec import Hello, Refused, message, vocabulary
from .launch import RankId

if TYPE_CHECKING:
    from typing import Literal

MANIFESTS_BYTES_MAX = 256 * 1024
"""Larger manifests take longer to read than a command's imports take; and a controller has other things to do."""


@message("get")
class Get(Asks[A]):
    """Ask for objects.

    ``kind`` is one of the manifest kinds, ``Operation`` or ``Rank``; None is all manifest kinds. While the version of
    the answer equals ``seen``, it is held back for ``wait_seconds``.
    """

    kind: Optional[str] = None
    name: Optional[str] = None
    seen: str = ""
    wait_seconds: float = 0.0
    ended: bool = False
    """Include ranks that have ended, as long as their nodes keep them."""

    if TYPE_CHECKING:  # a kind that is written down has a type

        @overload
        def __init__(
            self: Get[objects.NodeList], kind: Literal["Node"], name: Optional[str] = None
        ) -> None: ...
        @overload
        def __init__(
            self: Get[objects.FabricList], kind: Literal["Fabric"], name: Optional[str] = None
        ) -> None: ...
        @overload
        def __init__(self: Get[objects.GatewayList], kind: Literal["Gateway"]) -> None: ...
        @overload
        def __init__(
            self: Get[objects.DeploymentList], kind: Literal["ModelDeployment"], name: Optional[str] = None
        ) -> None: ...
        @overload
        def __init__(
            self: Get[objects.JobList], kind: Literal["Job"], name: Optional[str] = None
        ) -> None: ...
        @overload
        def __init__(self: Get[objects.OperationList], kind: Literal["Operation"]) -> None: ...
        @overload
        def __init__(
            self: Get[objects.RankList],
            kind: Literal["Rank"],
            name: Optional[str] = None,
            *,
            ended: bool = False,
        ) -> None: ...
        @overload
        def __init__(
            self: Get[objects.ObjectList], kind: None = None, *, seen: str = "", wait_seconds: float = 0.0
        ) -> None: ...
        @overload
        def __init__(
            self: Get[objects.ItemList],
            kind: Optional[str],
            name: Optional[str] = None,
            *,
            seen: str = "",
            wait_seconds: float = 0.0,
        ) -> None: ...
        def __init__(self, *_: object, **__: object) -> None: ...


@message("plan")
class ShowPlan(Asks[answers.Planned]):
    """Ask what the controller would do now."""

    last: bool = False
    """Answer with the plan of the last pass, which costs nothing; else a plan is made for this answer."""


@message("usage")
class ShowUsage(Asks[answers.Usage]):
    """Ask for the current use of nodes whose agent answers."""


@message("foresee")
class Preview(Asks[answers.Foreseen]):
    """Ask what the controller would do with other manifests; ``files`` are all of them, text by name."""

    files: Mapping[str, str]
    operations: Optional[Mapping[str, str]] = None
    """All files of other operations, to be laid over the manifests in force; ``files`` do not count then."""
    allowed: Tuple[str, ...] = ()
    """The words of ``Allow-Removal`` of the commit, and ``run/NAME`` for each of ``Allow-Job``."""
    job_files: Mapping[str, str] = dataclasses.field(default_factory=dict)
    """The files that Jobs name, in base64 by path."""


@message("facts")
class ShowFacts(Asks[answers.RecordedFacts]):
    """Ask for the recorded facts, as a file that may leave the cluster."""


@message("validate")
class Validate(Asks[answers.Validated]):
    """Ask for the problems of manifests by themselves.

    Refused if the code of the controller is not of ``edition``, because it may know other fields; and if all files
    together are larger than ``MANIFESTS_BYTES_MAX``.
    """

    edition: str
    files: Mapping[str, str]
    """Texts by name."""
    references: Optional[bool] = None
    """Require that each name of an object is one of these; None: only if one of them is a Node."""


@message("compare")
class Compare(Asks[answers.Compared]):
    """Ask what an apply of manifests would change in the cluster repository. Refused like ``Validate``, and if the cluster's
    manifests come from a folder.
    """

    edition: str
    files: Mapping[str, str]
    """Texts by name."""


@message("judge_push")
class JudgePush(Asks[answers.JudgedPush]):
    """Ask, before git accepts a push to ``ref``, what it would mean.

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
    allow_job: Optional[str] = None
    """Name of the job that the pusher lets it run; an empty text for all."""


@message("judge_operations")
class JudgeOperations(Asks[answers.JudgedPush]):
    """Ask the same question before git accepts a push to the branch of operations."""

    repository: str
    """The real path of the repository."""
    old: str
    new: str
    quarantine: str = ""
    """Name of the folder of its ``objects`` with the pushed objects; empty if there are none."""


@message("follow_push")
class FollowPush(Asks[answers.FollowedPush]):
    """Ask for the outcome of a pushed revision.

    While its version equals ``seen``, the answer is held back for ``wait_seconds``.
    """

    revision: str
    seen: str = ""
    wait_seconds: float = 0.0


@message("metrics")
class ShowMetrics(Asks[answers.Metrics]):
    """Ask for figures of the last ``seconds``, at most a day, in at most ``points`` intervals of equal length.

    The last hour has a figure every ten seconds, the last day every minute; the value of an interval is the mean of its
    figures.
    """

    seconds: float = 3600.0
    points: int = 180
    object: str = ""
    """``kind/name`` in lower case; empty for all."""


@message("series")
class ShowSeries(Asks[answers.MetricFamilies]):
    """Ask for the cluster's own metrics as they are now."""


@message("places")
class ShowPlaces(Asks[answers.Placements]):
    """Ask why the replicas of a deployment are on their nodes and not on others."""

    name: str


@message("events")
class ListEvents(Asks[answers.Events]):
    """Ask for events with ids above ``after``, oldest first.

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
class ListIncidents(Asks[answers.Incidents]):
    """Ask for incidents, oldest first, the newest ``limit`` of them.

    While their version equals ``seen``, the answer is held back for ``wait_seconds``.
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
class ListCommits(Asks[answers.Commits]):
    """Ask for the newest ``limit`` commits of ``main`` and of the operations together.

    While their version equals ``seen``, the answer is held back for ``wait_seconds``.
    """

    limit: int = 100
    seen: str = ""
    wait_seconds: float = 0.0


@message("commit")
class ShowCommit(Asks[answers.ShownCommit]):
    """Ask for a commit with its diff. ``revision`` may be abbreviated."""

    revision: str


@message("rank_log")
class ReadRankLog(Asks[answers.LogPiece]):
    """Ask for a piece of a rank's output."""

    id: RankId
    bytes_max: int
    offset: Optional[int] = None


@message("status")
class ShowStatus(Asks[answers.ControllerStatus]):
    """Ask for the controller itself."""


@message("look")
class Look(Asks[answers.Nothing]):
    """Look again at ``name``: ``source`` after a push, ``remote`` if there may be something new in the remote repository.
    ``at``: the sender's own time stamp."""

    name: str
    at: Optional[float] = None


@message("source")
class ShowSource(Asks[answers.SourceState]):
    """Ask for the state of the remote repository.

    While there were at most ``looks`` looks, the answer is held back for ``wait_seconds``.
    """

    looks: int = -1
    wait_seconds: float = 0.0


@message("stop")
class Stop(Asks[answers.Nothing]):
    """Stop every rank and every local agent, then end the controller. For ``up`` in the foreground."""


@message("operate")
class Operate(Asks[answers.Operated]):
    """Do at once what a command does, by the same commit: ``verb`` is ``approve``, ``cancel``, ``cordon``, ``uncordon``,
    ``drain``, ``suspend``, ``resume``, ``restart``, ``scale`` or ``undo``, of one object. ``undo`` of an Operation ends it; of a manifest it
    reverts the newest commit that changed it, or goes back to ``to_revision``. With ``dry`` nothing is written.
    """

    verb: str
    kind: str
    name: str
    author: str
    """The name of the person, as git writes it; ``email`` beside it."""
    email: str
    reason: str = ""
    seconds: Optional[float] = None
    """Time until the operation ends by itself; None if it does not."""
    force: bool = False
    dry: bool = True
    replicas: str = ""
    """``scale``: the number of replicas, as it was typed."""
    to_revision: str = ""
    """``undo`` of a manifest: the commit of ``main`` to go back to, which may be abbreviated."""
    run: int = 0
    """``cancel``: the number of the run."""


@message("approve")
class Approve(Asks[answers.Approved]):
    """Approve a held revision. ``revision`` may be abbreviated."""

    revision: str
    by: str


@message("verify")
class Verify(Asks[answers.Verification]):
    """Hash a Model's weights on every node that has them; a damaged file is fetched again.

    Without ``run`` it begins. With ``run``, the answer is held back for ``wait_seconds`` while there is work left.
    """

    model: str
    run: str = ""
    wait_seconds: float = 0.0


@message("doctor")
class Doctor(Asks[answers.DoctorAnswer]):
    """Run the probes of these nodes (or of all) again, then return the findings.

    Without ``run`` it begins. With ``run``, the answer is held back for ``wait_seconds`` while a node is still being asked.
    """

    nodes: Tuple[str, ...] = ()
    run: str = ""
    wait_seconds: float = 0.0


@message("protection")
class ShowProtection(Asks[answers.Protection]):
    """Ask for the protection of a node that was seen."""

    node: str
    own_user: str
    """User who runs the ranks of the controller's own machine."""


@message("accept")
class Accept(Asks[answers.Trial]):
    """Measure the groups of a deployment after bring-up, rank by rank and link by link.

    Without ``run`` it begins. With ``run``, the answer is held back for ``wait_seconds`` while something is measured.
    ``under_load``: measure although requests are being answered. ``smaller``: tokens per second of one answer by smaller
    groups, by their number of nodes, to compare with.
    """

    deployment: str
    under_load: bool = False
    smaller: Mapping[str, float] = dataclasses.field(default_factory=dict)
    run: str = ""
    wait_seconds: float = 0.0


CONTROLLER_RECEIVES_FROM_CLI = vocabulary(Hello, *Asks.__subclasses__())
"""All requests above."""


@message("answer")
class Answer:
    """The answer to every request."""

    body: Any


CLI_RECEIVES = vocabulary(Hello, Refused, Answer)
