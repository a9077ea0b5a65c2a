"""Command line and controller, over ``controller.sock`` (mode 0600: everybody who can open it is an administrator).

Requests and answers are paired as in ``node``: ``"call": n`` and ``"reply": n``. Answers are plain JSON in
``Answer.body``, which ``-o json`` prints.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, Mapping, Optional, Tuple, overload

from .answers import (
    A,
    Approved,
    Asks,
    Commits,
    ControllerStatus,
    DoctorAnswer,
    Events,
    FollowedPush,
    Foreseen,
    Incidents,
    JudgedPush,
    LogPiece,
    Nothing,
    Placements,
    Planned,
    Protection,
    RecordedFacts,
    ShownCommit,
    SourceState,
    Trial,
    Usage,
    Verification,
)
from .codec import Hello, Refused, message, vocabulary
from .figures import ShowMetrics, ShowSeries
from .launch import RankId
from .manifests import Compare, Validate
from .objects import (
    DeploymentList,
    FabricList,
    GatewayList,
    ItemList,
    NodeList,
    ObjectList,
    OperationList,
    RankList,
)
from .operate import Operate

if TYPE_CHECKING:
    from typing import Literal


@message("get")
@dataclasses.dataclass(frozen=True)
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
        def __init__(self: Get[NodeList], kind: Literal["Node"], name: Optional[str] = None) -> None: ...
        @overload
        def __init__(self: Get[FabricList], kind: Literal["Fabric"], name: Optional[str] = None) -> None: ...
        @overload
        def __init__(self: Get[GatewayList], kind: Literal["Gateway"]) -> None: ...
        @overload
        def __init__(
            self: Get[DeploymentList], kind: Literal["ModelDeployment"], name: Optional[str] = None
        ) -> None: ...
        @overload
        def __init__(self: Get[OperationList], kind: Literal["Operation"]) -> None: ...
        @overload
        def __init__(
            self: Get[RankList], kind: Literal["Rank"], name: Optional[str] = None, *, ended: bool = False
        ) -> None: ...
        @overload
        def __init__(
            self: Get[ObjectList], kind: None = None, *, seen: str = "", wait_seconds: float = 0.0
        ) -> None: ...
        @overload
        def __init__(
            self: Get[ItemList],
            kind: Optional[str],
            name: Optional[str] = None,
            *,
            seen: str = "",
            wait_seconds: float = 0.0,
        ) -> None: ...
        def __init__(self, *_: object, **__: object) -> None: ...


@message("plan")
@dataclasses.dataclass(frozen=True)
class ShowPlan(Asks[Planned]):
    """Ask what the controller would do now."""

    last: bool = False
    """Answer with the plan of the last pass, which costs nothing; else a plan is made for this answer."""


@message("usage")
@dataclasses.dataclass(frozen=True)
class ShowUsage(Asks[Usage]):
    """Ask for the current use of nodes whose agent answers."""


@message("foresee")
@dataclasses.dataclass(frozen=True)
class Preview(Asks[Foreseen]):
    """Ask what the controller would do with other manifests; ``files`` are all of them, text by name."""

    files: Mapping[str, str]
    operations: Optional[Mapping[str, str]] = None
    """All files of other operations, to be laid over the manifests in force; ``files`` do not count then."""
    allowed: Tuple[str, ...] = ()
    """The words of ``Allow-Removal`` of the commit."""


@message("facts")
@dataclasses.dataclass(frozen=True)
class ShowFacts(Asks[RecordedFacts]):
    """Ask for the recorded facts, as a file that may leave the cluster."""


@message("judge_push")
@dataclasses.dataclass(frozen=True)
class JudgePush(Asks[JudgedPush]):
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


@message("judge_operations")
@dataclasses.dataclass(frozen=True)
class JudgeOperations(Asks[JudgedPush]):
    """Ask the same question before git accepts a push to the branch of operations."""

    repository: str
    """The real path of the repository."""
    old: str
    new: str
    quarantine: str = ""
    """Name of the folder of its ``objects`` with the pushed objects; empty if there are none."""


@message("follow_push")
@dataclasses.dataclass(frozen=True)
class FollowPush(Asks[FollowedPush]):
    """Ask for the outcome of a pushed revision.

    While its version equals ``seen``, the answer is held back for ``wait_seconds``.
    """

    revision: str
    seen: str = ""
    wait_seconds: float = 0.0


@message("places")
@dataclasses.dataclass(frozen=True)
class ShowPlaces(Asks[Placements]):
    """Ask why the replicas of a deployment are on their nodes and not on others."""

    name: str


@message("events")
@dataclasses.dataclass(frozen=True)
class ListEvents(Asks[Events]):
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
@dataclasses.dataclass(frozen=True)
class ListIncidents(Asks[Incidents]):
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
@dataclasses.dataclass(frozen=True)
class ListCommits(Asks[Commits]):
    """Ask for the newest ``limit`` commits of ``main`` and of the operations together.

    While their version equals ``seen``, the answer is held back for ``wait_seconds``.
    """

    limit: int = 100
    seen: str = ""
    wait_seconds: float = 0.0


@message("commit")
@dataclasses.dataclass(frozen=True)
class ShowCommit(Asks[ShownCommit]):
    """Ask for a commit with its diff. ``revision`` may be abbreviated."""

    revision: str


@message("rank_log")
@dataclasses.dataclass(frozen=True)
class ReadRankLog(Asks[LogPiece]):
    """Ask for a piece of a rank's output."""

    id: RankId
    bytes_max: int
    offset: Optional[int] = None


@message("status")
@dataclasses.dataclass(frozen=True)
class ShowStatus(Asks[ControllerStatus]):
    """Ask for the controller itself."""


@message("look")
@dataclasses.dataclass(frozen=True)
class Look(Asks[Nothing]):
    """Look again at ``name``: ``source`` after a push, ``remote`` if there may be something new in the remote repository.
    ``at``: the sender's own time stamp."""

    name: str
    at: Optional[float] = None


@message("source")
@dataclasses.dataclass(frozen=True)
class ShowSource(Asks[SourceState]):
    """Ask for the state of the remote repository.

    While there were at most ``looks`` looks, the answer is held back for ``wait_seconds``.
    """

    looks: int = -1
    wait_seconds: float = 0.0


@message("stop")
@dataclasses.dataclass(frozen=True)
class Stop(Asks[Nothing]):
    """Stop every rank and every local agent, then end the controller. For ``up`` in the foreground."""


@message("approve")
@dataclasses.dataclass(frozen=True)
class Approve(Asks[Approved]):
    """Approve a held revision. ``revision`` may be abbreviated."""

    revision: str
    by: str


@message("verify")
@dataclasses.dataclass(frozen=True)
class Verify(Asks[Verification]):
    """Hash a Model's weights on every node that has them; a damaged file is fetched again.

    Without ``run`` it begins. With ``run``, the answer is held back for ``wait_seconds`` while there is work left.
    """

    model: str
    run: str = ""
    wait_seconds: float = 0.0


@message("doctor")
@dataclasses.dataclass(frozen=True)
class Doctor(Asks[DoctorAnswer]):
    """Run the probes of these nodes (or of all) again, then return the findings.

    Without ``run`` it begins. With ``run``, the answer is held back for ``wait_seconds`` while a node is still being asked.
    """

    nodes: Tuple[str, ...] = ()
    run: str = ""
    wait_seconds: float = 0.0


@message("protection")
@dataclasses.dataclass(frozen=True)
class ShowProtection(Asks[Protection]):
    """Ask for the protection of a node that was seen."""

    node: str
    own_user: str
    """User who runs the ranks of the controller's own machine."""


@message("accept")
@dataclasses.dataclass(frozen=True)
class Accept(Asks[Trial]):
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
