"""Controller and agent; agent and shim.

A request frame carries ``"call": n``, its answer ``"reply": n``; a frame with neither is a push. The agent
pushes only *that* something changed, never what: the controller looks again (``Observe``).

Every request that changes something carries the controller's fencing ``token``; an agent refuses
(``Refused(code="Fenced")``) a token lower than the highest it has seen. ``Observe`` shows the token to the
agent as well: after its answer, every request with a lower token that is still in transit will be refused.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Mapping, Optional, Tuple

from .codec import Hello, Refused, message, vocabulary
from .launch import Exit, LaunchSpec, Progress, RankId, TransportProof
from .repair import ConfirmRepair, Repair, RepairReport
from .tools import RunTool, ToolSaid
from .weights import FailedExamination, FetchReport, FetchSource, KeptWeights, RankShare

# --- controller to agent ---------------------------------------------------------------------------


@message("observe")
class Observe:
    """Ask for a ``NodeReport``; ``models`` are the paths of weights to include.

    Never refused. With ``token`` 0 it leaves the agent's own token unchanged.
    """

    models: Tuple[str, ...] = ()
    token: int = 0


@message("start_rank")
class StartRank:
    """Start a shim and its rank. Repeated for a rank that exists, it changes nothing."""

    token: int
    spec: LaunchSpec


@message("stop_rank")
class StopRank:
    """Send SIGTERM to the rank now, and SIGKILL after ``grace_seconds``. The end itself is pushed."""

    token: int
    id: RankId
    grace_seconds: float


@message("continue_rank")
class ContinueRank:
    """Send SIGCONT to a rank and its shim. It has no effect on a rank that is not stopped."""

    token: int
    id: RankId


@message("forget_rank")
class ForgetRank:
    """Remove the directory of a rank that has exited. Refused (``Alive``) for a rank that has not."""

    token: int
    id: RankId
    keep_record: bool = False
    """Keep how it ended: only its output and working directory are removed, and it is still reported."""


@message("read_log")
class ReadLog:
    """Ask for the last ``bytes_max`` bytes of a rank's output, or those after ``offset``."""

    id: RankId
    bytes_max: int
    offset: Optional[int] = None


@message("list_artifacts")
class ListArtifacts:
    """Ask for the files in the working directory of a job's rank that are its artifacts."""

    id: RankId


@message("read_artifact")
class ReadArtifact:
    """Ask for a piece of an artifact. Refused (``NotFound``) for every other file."""

    id: RankId
    path: str
    """As in ``Artifact.path``."""
    offset: int
    bytes_max: int
    """The answer has at most ``ARTIFACT_BYTES_MAX``."""


@message("fetch_weights")
class FetchWeights:
    """Fetch weights to ``path`` until they are complete and verified. Repeated requests have no effect meanwhile."""

    token: int
    path: str
    """Path as in ``Observe.models``, of the form of ``weights.hub_path``."""
    source: FetchSource
    wish: str = ""
    """The spec that needs them, for the report."""
    thorough: bool = False
    """Hash files that were verified before, too."""
    from_peer: bool = False
    """Take them from another node, over ``paths.taking_socket``."""
    secret: str = dataclasses.field(default="", repr=False)
    """The hub's token; empty for none. It is kept only in the fetcher's environment."""
    only: Optional[Tuple[str, ...]] = None
    """As in ``FetchJob.only``."""


@message("give_weights")
class GiveWeights:
    """Give verified weights to every connection to ``paths.giving_socket``, for a while."""

    token: int
    path: str


@message("remove_weights")
class RemoveWeights:
    """Remove fetched weights, or the rest of a fetch. If there are none, it changes nothing."""

    token: int
    path: str
    """Path of the form of ``weights.hub_path``."""


@message("shutdown")
class Shutdown:
    """End the agent; shims and ranks continue."""

    token: int


AGENT_RECEIVES = vocabulary(
    Hello, Observe, StartRank, StopRank, ContinueRank, ForgetRank, ReadLog, FetchWeights, GiveWeights, RemoveWeights,
    RunTool, Repair, ConfirmRepair, Shutdown, ListArtifacts, ReadArtifact,
)  # fmt: skip

# --- agent to controller ---------------------------------------------------------------------------


@message("done")
class Done:
    """A change was made (or was there already); observations from ``sequence`` on show it."""

    sequence: int


@message("log")
class Log:
    """A piece of a rank's output, from byte ``begin`` up to ``offset``, with ``rest_bytes`` after its last newline. Its
    text has another length, because bytes that are no UTF-8 are replaced. None: from an older agent."""

    text: str
    offset: int
    begin: Optional[int] = None
    rest_bytes: Optional[int] = None


ARTIFACT_BYTES_MAX = 8 * 1024 * 1024
"""The longest piece of an artifact: in base64 it fits into a frame."""
ARTIFACTS_MAX = 10_000
"""The most artifacts of a rank; further ones are left out."""


@dataclasses.dataclass(frozen=True)
class Artifact:
    """A file of a rank's working directory."""

    path: str
    """Relative, with ``/``. Only printable characters."""
    size: int
    modified_at: float
    """Seconds since the Unix epoch, by the node's clock."""


@message("artifacts")
class Artifacts:
    """The artifacts of a rank, sorted by path."""

    files: Tuple[Artifact, ...]
    problems: Tuple[str, ...] = ()
    """Files that are left out, and why, for people."""


@message("artifact_piece")
class ArtifactPiece:
    """A piece of an artifact; empty at its end."""

    data: str
    """In base64."""
    size: int
    """Bytes of the whole file now."""


@message("changed")
class Changed:
    """Push: something on this node is no longer as reported before ``sequence``."""

    sequence: int


class HeldBy:
    """The keeper of a running agent, which on a Mac also decides the rights of its ranks."""

    LAUNCHD = "launchd"
    """A LaunchDaemon of the system."""
    SYSTEMD = "systemd"
    SESSION = "session"
    """The SSH session of a controller, which still lasts."""
    LEFT = "left"
    """An SSH session that is over."""
    PROCESS = "process"
    """Nothing: only a controller restarts this process."""


class Gone:
    """The answer to whether everything of an ended rank is gone: its process, the leftovers of that, its ports."""

    YES = "yes"
    NO = "no"
    UNKNOWN = "unknown"
    """It cannot be determined."""
    PENDING = "pending"
    """It is being checked."""


@dataclasses.dataclass(frozen=True)
class RankReport:
    """One rank as its shim last reported it. ``phase`` is ``exited`` exactly when ``exit`` is set."""

    id: RankId
    group: str
    """``LaunchSpec.group`` of its start."""
    socket: str
    pid: Optional[int]
    """None if the process never started."""
    shim_pid: Optional[int]
    phase: str
    steps: int
    demand: int
    loaded_bytes: int
    total_bytes: int
    detail: str
    started_at: float
    exit: Optional[Exit] = None
    stopped: bool = False
    """The rank's process, or its shim's, was stopped by a signal (state ``T``): SIGCONT continues it."""
    silent_seconds: float = 0.0
    """Time without a change of phase, steps and loaded bytes, while it comes up, has ``demand``, or is stopped. By a
    monotonic clock of the node, and only while the agent watched."""
    age_seconds: float = 0.0
    """Time for which this agent has watched the rank, by the same clock."""
    step_tokens: int = 0
    size: int = 0
    """Ranks in its group; 0 where its ``LaunchSpec`` can no longer be read."""
    port: int = 0
    """The first of the group's ports."""
    memory_bytes: int = 0
    gone: str = Gone.UNKNOWN
    """Value of ``Gone`` for an exited rank."""
    kept: str = ""
    """Its leftovers, for people; empty if there are none, or none are known."""
    ended_seconds: float = 0.0
    """Time since this agent noticed the rank's exit, by a monotonic clock of the node."""
    idle_seconds: float = 0.0
    """Time for which a ready rank has had no demand before its next step, by the same clock."""
    cores: float = 0.0
    """Processors that it has used lately, on average."""
    resident_bytes: int = 0
    """Memory of its process now; memory that only the GPU holds may be missing."""
    tokens_per_second: float = 0.0
    """Tokens that it has generated lately, of all requests together."""
    verbs: bool = False
    transport: str = ""
    formed_for: str = ""
    context: int = 0
    """From its ``LaunchSpec``, like ``memory_bytes``, ``transport`` and ``formed_for``; 0 if that cannot be read."""
    killed_seconds: Optional[float] = None
    """Time since SIGKILL was sent to a rank that has not ended; None if it was not sent."""
    pruned: bool = False
    """True if only the record of an exited rank is left (``ForgetRank.keep_record``)."""
    deaf_seconds: float = 0.0
    """Time for which a ready rank 0 has not answered a question of its agent, by the same clock."""
    proof: Optional[TransportProof] = None
    """Results over RDMA that the rank has found to be right, as ``RankConfig.prove`` asks."""


@dataclasses.dataclass(frozen=True)
class ModelReport:
    """Weights on a node, as their own files describe them."""

    path: str
    """Path as requested."""
    directory: str
    """Absolute."""
    present: bool
    weights_bytes: int = 0
    config: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    """The model's ``config.json``."""
    problem: str = ""
    """Why present weights cannot be used."""
    examining: bool = False
    """The node's runtime is being asked for the first time; what follows, and some problems, are not known before."""
    examination: Optional[FailedExamination] = None
    """Why what follows is not known, where the runtime has failed to say it; None where it has said it."""
    code: str = ""
    """The part that needs Python code from the weights; empty if none does."""
    tools: str = ""
    """Why requests with tools are refused; empty if they are not."""
    reuse: str = ""
    """Value of ``weights.PromptReuse``; empty from a runtime or an agent that does not report it."""
    reread: str = ""
    """Reason why every prompt is read again, if it is."""
    embeds: bool = False
    """True if its files say that it is for embeddings."""
    rope: Tuple[str, ...] = ()
    """Values of ``launch.RopeKind`` by which the runtime can scale its positions; empty if it does not report them."""
    unsplittable: Mapping[str, str] = dataclasses.field(default_factory=dict)
    """Reasons against splits that the runtime does not support: ``tensor``, ``pipeline``, or ``tensor/3`` and such."""
    ranks_tried: int = 0
    """Groups of up to this many ranks were tried on the runtime; for larger ones, only the model's shape can tell."""
    shares: Mapping[str, Tuple[RankShare, ...]] = dataclasses.field(default_factory=dict)
    """Each rank's share by split, as in ``tensor/3``; one entry if all are equal. Missing entries are unknown."""
    verified: bool = False
    """For ``weights.hub_path``: every file but the ``lacking`` ones was verified, and is unchanged since."""
    lacking: Tuple[str, ...] = ()
    """Weight files that are present as outlines only."""
    note: str = ""
    """A remark on weights that can be used, for people."""
    barred: bool = False
    """True if macOS refuses the folder to the agent for lack of a person's consent."""
    absent_volume: str = ""
    """The volume that the folder is on, if it is not mounted."""
    fetch: Optional[FetchReport] = None
    """State of the last fetch; None if this agent had no request."""


@dataclasses.dataclass(frozen=True)
class Load:
    """The load of a machine."""

    clock: float
    """Its wall clock at the time of the report, in seconds since the Unix epoch."""
    memory_free_bytes: Optional[int] = None
    """Memory that programs can get without swapping; None if unknown."""
    pressure: str = ""
    """Memory pressure on macOS: ``normal``, ``warn`` or ``critical``; empty elsewhere."""
    average: float = 0.0
    """Average number of processes that ran or waited for a processor in the last minute."""


@message("report")
class NodeReport:
    """A node at one moment. ``sequence`` grows with every change the agent makes or notices. Two reports are comparable only
    with the same ``boot_id`` and ``agent_id``."""

    sequence: int
    boot_id: str
    agent_id: str
    """Random id of each start of the agent."""
    system: str
    """``uname -s``."""
    release: str
    machine: str
    hostname: str
    memory_bytes: int
    cpus: int
    host_id: str
    """Equal for two nodes exactly when they share a machine, and so its memory."""
    python: str
    """Absolute path of the interpreter of the runtime (the one with mlx)."""
    runtime: Optional[Mapping[str, str]]
    """Versions of ``mlx`` and ``mlx-lm`` in that runtime, and the digest of the code of ranks there (``engine``), as
    far as it has them; None until it has been asked."""
    run_directory: str
    """Absolute directory for the sockets of ranks; short, because macOS allows 104 bytes for a path."""
    token: int
    """The highest fencing token seen."""
    ranks: Tuple[RankReport, ...] = ()
    models: Tuple[ModelReport, ...] = ()
    asked_with: Optional[int] = None
    """``Observe.token`` of the question; None from an agent without this feature."""
    agent_file: str = ""
    """Name of the file that the agent runs from, which has its digest; empty from an agent that does not report it."""
    models_free_bytes: Optional[int] = None
    """Free bytes on the disk of the node's models; None if unknown."""
    models_total_bytes: int = 0
    """Size of that disk; 0 if unknown."""
    kept: Tuple[KeptWeights, ...] = ()
    """All fetched weights that are still there."""
    load: Optional[Load] = None
    """None before the first measurement, and from an agent without this feature."""
    build: str = ""
    """Build of macOS, as in ``25C56``; empty elsewhere, and from an agent without this feature."""
    held_by: str = ""
    """A value of ``HeldBy``; empty from an agent that does not report it."""
    repair: Optional[RepairReport] = None
    """None before the first repair, and from an agent without this feature."""
    emulated: bool = False
    """True if its tools identify the machine as emulated."""


CONTROLLER_RECEIVES = vocabulary(
    Hello, Refused, Done, Log, Changed, NodeReport, ToolSaid, Artifacts, ArtifactPiece,
)  # fmt: skip

# --- agent and shim --------------------------------------------------------------------------------


@message("terminate")
class Terminate:
    """Agent to shim: SIGTERM the rank now, SIGKILL it ``grace_seconds`` later."""

    grace_seconds: float


@message("state")
class ShimState:
    """Shim to agent: pushed on connection and at every change. The same object is ``state.json``."""

    pid: Optional[int]
    shim_pid: int
    started_at: float
    progress: Progress
    exit: Optional[Exit] = None
    killed: bool = False
    """True if it has sent SIGKILL."""


SHIM_RECEIVES = vocabulary(Hello, Terminate)
AGENT_RECEIVES_FROM_SHIM = vocabulary(Hello, Refused, ShimState)
