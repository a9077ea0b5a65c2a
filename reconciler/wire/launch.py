"""The description of a rank for its start, and the progress that it reports to its shim.

The controller composes a ``LaunchSpec``; the agent stores it in the rank's directory and starts a shim
for it; the shim starts the rank with the path of ``config.json`` in ``RECONCILER_RANK_CONFIG`` and the
number of the progress pipe's descriptor in ``RECONCILER_PROGRESS_FD``. The rank's standard input is a
pipe that the shim holds: its end means that the shim is gone.

A program that can be a spare may be started before there is a rank for it, with ``-`` in place of the path. It
then starts as for any rank, takes neither memory for weights nor a port, and waits for the path of its
``config.json``, a line on its standard input. A line before that may be ``EXAMINE`` and the JSON of a folder of
weights. The program then writes one line of JSON to the progress pipe, with what it can do with these weights.
It writes nothing else there before it is a rank. One folder is examined at a time.
"""

from __future__ import annotations

import dataclasses
from typing import Mapping, Optional, Tuple

from .codec import message
from .question import Pooling

CONFIG_VARIABLE = "RECONCILER_RANK_CONFIG"
PROGRESS_VARIABLE = "RECONCILER_PROGRESS_FD"
CONFIG_LATER = "-"
EXAMINE = b"examine "
UNANSWERED = "unanswered"
"""The only field of an answer about weights that is none: why there is none, for people."""


JOB_PREFIX = "job_"
"""Begins the name of a job in a ``RankId``. No name of an object has a ``_``."""


@dataclasses.dataclass(frozen=True, order=True)
class RankId:
    """One process of one group: the name of its directory, and its name in messages."""

    deployment: str
    """Name of the deployment; of a job, with ``JOB_PREFIX``."""
    replica: int
    """Index of the replica, or of the run of the job."""
    epoch: int
    rank: int

    def __str__(self) -> str:
        return "{}.{}.{}.{}".format(self.deployment, self.replica, self.epoch, self.rank)

    @classmethod
    def parse(cls, text: str) -> RankId:
        """Parse an id written as ``deployment.replica.epoch.rank``. Raises ``ValueError``."""
        deployment, replica, epoch, rank = text.rsplit(".", 3)
        return cls(deployment, int(replica), int(epoch), int(rank))


CONTEXT_MAX = 1 << 20
"""The ids of this many tokens take half of the longest frame: steps and answers of more would not fit."""
CACHE_STEP = 256
"""Tokens by which mlx-lm lets the cache of a sequence grow (``KVCache.step``), so that it may be longer by as many."""
PIECE_TOKENS_MAX = 2048
"""The most tokens of prompts that a step reads. With more, no model is read faster."""
MAX_STALL_SECONDS = 0.25
"""Longest time that a step may read others' prompts between two tokens of an answer, unless the deployment sets it."""
DEVICES_JOINT = ","
"""Separator of the devices of ``RankConfig.devices`` that join the same two ranks."""


class RopeKind:
    """Ways to scale rotary positions that need only a factor and a length."""

    YARN = "yarn"
    LINEAR = "linear"
    LLAMA3 = "llama3"

    ALL = (YARN, LINEAR, LLAMA3)


@dataclasses.dataclass(frozen=True)
class RopeScaling:
    """The scaling of positions, for longer sequences than the model was trained on."""

    kind: str
    """Value of ``RopeKind``."""
    factor: float
    """A number above 1."""
    original: int
    """Tokens of the longest sequence without scaling."""


@dataclasses.dataclass(frozen=True)
class JobFile:
    """A file for the working directory of a job's rank."""

    name: str
    """Without folders."""
    data: str
    """Content, in base64."""
    executable: bool = False


@dataclasses.dataclass(frozen=True)
class JobLimits:
    """The limits of a job's rank."""

    disk_bytes: int
    output_bytes: int
    open_files: int
    processes: int


@dataclasses.dataclass(frozen=True)
class MpiConfig:
    """The way in which rank 0 starts an MPI program on the nodes of all ranks."""

    mpirun: str
    options: Tuple[str, ...]
    processes: int
    """On each node."""


@dataclasses.dataclass(frozen=True)
class JobConfig:
    """The part of a rank's configuration that only a job has."""

    command: Tuple[str, ...]
    """The program and its arguments."""
    env: Mapping[str, str]
    """The variables of the manifest."""
    files: Tuple[JobFile, ...]
    artifacts: Tuple[str, ...]
    """Patterns of paths in the working directory that are fetched after its end."""
    python: str
    """Absolute path of the interpreter of the node's runtime."""
    grace_seconds: float
    """Time between SIGTERM and SIGKILL of the program."""
    limits: JobLimits
    user: str = ""
    """The user that runs the program; empty for the agent's own."""
    secrets: Mapping[str, str] = dataclasses.field(default_factory=dict, repr=False)
    """Variables whose values the manifest only refers to."""
    mpi: Optional[MpiConfig] = None
    """None for a program that runs once for each rank."""


@dataclasses.dataclass(frozen=True)
class RankConfig:
    """The complete configuration of a rank: the contents of its ``config.json``. With ``job``, the fields about models and
    requests are empty."""

    id: RankId
    size: int
    """Ranks in the group. With 1 there is neither a collective backend nor a control channel."""
    model_path: str
    """Absolute directory of the weights on this node."""
    strategy: str
    """``tensor`` or ``pipeline``; of no meaning with one rank."""
    backend: str
    """MLX's name of the collective backend: ``ring`` or ``jaccl``."""
    addresses: Tuple[str, ...]
    """``ip:port`` of each rank in order. A rank accepts its neighbour in MLX's ring at this address, but at a port that
    its kernel chooses; only runners of the version before accept at this port."""
    control: str
    """``ip:port`` of rank 0's end of the control channel, to which this rank connects, or at which rank 0 accepts."""
    secret: str = dataclasses.field(repr=False)
    """The certificate and its private key, in PEM, that only ranks of this group and epoch have."""
    socket: str
    """Absolute path of the Unix socket on which rank 0 answers requests."""
    context: int
    """Tokens of prompt and answer together that one request may use."""
    batch_max: int
    """Requests decoded together; the others wait."""
    rendezvous_seconds: float
    """Bound on the wait for the other ranks, from the first connection attempt."""
    trust_remote_code: bool = False
    devices: Tuple[Tuple[str, ...], ...] = ()
    """With ``jaccl``: RDMA devices by rank and peer; empty for itself and non-neighbours. If there are several, one for
    each cable and in the same order at both ends, ``DEVICES_JOINT`` joins them, because older agents pass such text
    on."""
    also_control: Tuple[str, ...] = ()
    """Further addresses on which rank 0 accepts connections, for ranks on other cables or networks."""
    prefer_ring: bool = False
    """With ``jaccl``: use the devices as a ring even if they form a mesh."""
    verbs_seconds: float = 60.0
    """Bound on the set-up of RDMA, once all ranks are there."""
    keep_alive_seconds: float = 0.0
    """Idle time after which the group does a small collective, each time; 0: never."""
    fast_synch: bool = False
    """Set ``MLX_METAL_FAST_SYNCH`` for this rank; else unset it, even if the machine sets it."""
    prefix_cache_bytes: int = 0
    """The most memory for the prefix cache, on each rank; 0: nothing is kept."""
    kv_cache_bytes: Tuple[int, ...] = ()
    """The most memory for the requests that are being answered, of each rank in order. Empty where their size is not
    known: there is then room for ``batch_max`` requests of ``context`` tokens."""
    rope_scaling: Optional[RopeScaling] = None
    """Used instead of the scaling in the model's own ``config.json``; None: that one."""
    pooling: Optional[Pooling] = None
    """Set if the model is for embeddings by its manifest; None: as its files say."""
    job: Optional[JobConfig] = None
    """Set for the rank of a job."""
    prove: bool = False
    """With ``jaccl``: prove that results over RDMA are right before the first request. Equal on all ranks."""


@dataclasses.dataclass(frozen=True)
class LaunchSpec:
    """The start of a rank by its agent. ``config`` becomes the rank's ``config.json``."""

    id: RankId
    argv: Tuple[str, ...]
    env: Mapping[str, str]
    config: RankConfig
    group: str
    """Hash of the spec that this rank was started for: of a deployment with its model, or of a job."""
    memory_bytes: int = 0
    """Memory that the rank is charged for as long as it may live."""
    spare: bool = False
    """True if the program can be a standby process."""
    transport: str = ""
    """The transport of its group, as in the manifest. Agents report it to a controller that has lost the record."""
    formed_for: str = ""
    """The spec that its group was formed for, as the controller stores it. Agents report it too."""


class Phase:
    """The phases of a rank, in the order in which they are reported."""

    STARTING = "starting"
    """The process exists; imports are running."""
    RENDEZVOUS = "rendezvous"
    VERBS = "verbs"
    """Only with ``jaccl``: RDMA is being set up, which uses kernel objects."""
    LOADING = "loading"
    WARM = "warm"
    """The first completion is running."""
    READY = "ready"
    DRAINING = "draining"
    """It finishes its requests, and takes no new ones."""
    EXITED = "exited"

    ALL = (STARTING, RENDEZVOUS, VERBS, LOADING, WARM, READY, DRAINING, EXITED)


class ExitCode:
    """Exit statuses of the rank process, which distinguish the reasons of its end from each other and from signals."""

    OK = 0
    UNEXPECTED = 1
    """An unexpected exception; its traceback is the last thing in the rank's log."""
    CONFIG = 64
    """The configuration cannot be read or contradicts itself."""
    RENDEZVOUS = 65
    """The other ranks did not come in time."""
    PORT_IN_USE = 66
    PEER_LOST = 67
    """Another rank of the group is gone."""
    WEIGHTS = 68
    """The weights are missing, damaged, or of an architecture that cannot be served like this."""
    MEMORY = 69
    DIVERGED = 70
    """The ranks' results no longer agree."""
    ORPHANED = 71
    """The shim is gone, so nobody would notice the end of this rank."""
    VERBS = 72
    """A queue pair of RDMA could not be made or connected; its errno is in the detail."""
    KERNEL_OBJECTS = 73
    """The machine has no protection domains or queue pairs left (errno 12 or 16)."""
    GPU = 74
    """A command buffer failed on the GPU, for another reason than memory."""
    WRONG_GROUP = 75
    """The collective backend is not the requested one, or formed a group of another size."""
    NO_ROUTE = 76
    """The other ranks' address cannot be reached from here at all: no route, or not allowed to this process."""
    UNEQUAL = 77
    """The ranks do not have equal versions of the runtime, or equal weights."""
    NO_BACKEND = 78
    """The runtime here lacks the requested collective backend."""
    LIMIT = 79
    """The program of a job has exceeded a limit."""
    GID = 80
    """A port has no GID for its IPv4 address, or the driver refused to connect a queue pair by the GIDs of its two ends
    (errno 22 or 96)."""
    GID_UNREACHED = 81
    """Nothing answered at the GID by which a queue pair was connected (errno 60)."""
    WRONG_RESULT = 82
    """A result over RDMA is wrong."""


class RankEnd(Exception):
    """The rank is over: ``code`` is one of ``ExitCode``, the text one sentence for people."""

    def __init__(self, code: int, sentence: str) -> None:
        super().__init__(sentence)
        self.code = code
        self.sentence = sentence


_EXIT_REASONS: Mapping[int, str] = {
    ExitCode.OK: "Completed",
    ExitCode.UNEXPECTED: "UnexpectedError",
    ExitCode.CONFIG: "BadConfig",
    ExitCode.RENDEZVOUS: "RendezvousFailed",
    ExitCode.PORT_IN_USE: "PortInUse",
    ExitCode.PEER_LOST: "PeerLost",
    ExitCode.WEIGHTS: "BadWeights",
    ExitCode.MEMORY: "OutOfMemory",
    ExitCode.DIVERGED: "Diverged",
    ExitCode.ORPHANED: "Orphaned",
    ExitCode.VERBS: "QueuePairsFailed",
    ExitCode.KERNEL_OBJECTS: "KernelObjectsExhausted",
    ExitCode.GPU: "GpuFault",
    ExitCode.WRONG_GROUP: "WrongGroup",
    ExitCode.NO_ROUTE: "NoRoute",
    ExitCode.UNEQUAL: "UnequalRanks",
    ExitCode.NO_BACKEND: "BackendMissing",
    ExitCode.LIMIT: "LimitExceeded",
    ExitCode.GID: "GidRefused",
    ExitCode.GID_UNREACHED: "GidUnreached",
    ExitCode.WRONG_RESULT: "WrongResult",
}


@dataclasses.dataclass(frozen=True)
class TransportProof:
    """What a rank has found to be right over RDMA before the first request of its group."""

    largest_bytes: int
    """The largest array whose sum was right."""
    prompt_tokens: int = 0
    """Length of the prompt that was read like over TCP; 0 if there was no second way."""
    deviation: float = 0.0
    """How far the two readings were apart, as a part of the size of their numbers."""
    sums_seconds: float = 0.0
    """Time for all sums."""
    prompt_seconds: float = 0.0
    """Time to read the prompt over RDMA."""
    reference_seconds: float = 0.0
    """The same over TCP."""
    why_no_prompt: str = ""
    """Why no prompt was compared, for people."""

    @property
    def text(self) -> str:
        """Say what was compared, and what was not."""
        text = "right over RDMA: sums of up to {:.1f} MiB".format(self.largest_bytes / 2**20)
        if not self.prompt_tokens:
            return text + "; no prompt was compared: " + self.why_no_prompt
        return text + ", and a prompt of {} tokens; nothing longer was compared".format(self.prompt_tokens)


@message("progress")
class Progress:
    """One line of JSON on the progress pipe, at every change of phase and at most 10 times a second.

    ``steps`` grows with every decode step and prefill chunk; ``demand`` counts requests that are waiting
    or running. A hang is ``demand > 0`` while ``steps`` stands still: CPU load is no signal, MLX spins.
    """

    phase: str
    steps: int = 0
    demand: int = 0
    loaded_bytes: int = 0
    total_bytes: int = 0
    detail: str = ""
    """A sentence for people: the current activity, or the error about to end the process."""
    step_tokens: int = 0
    """Tokens of prompts that are being read now; with 0 only single tokens are awaited."""
    tokens: int = 0
    """Tokens generated since its start, of all requests together."""
    verbs: bool = False
    """True if it has begun to set up RDMA."""
    program: bool = False
    """True once the program of a job has ended: the end of the rank that follows is the program's, unchanged."""
    proof: Optional[TransportProof] = None
    """Set once the rank has proven its transport, as ``RankConfig.prove`` asks."""


@dataclasses.dataclass(frozen=True)
class Exit:
    """The end of a rank: its status, or the signal that killed it; exactly one of both is set."""

    code: Optional[int]
    signal: Optional[int]
    at: float
    """Seconds since the Unix epoch, by the node's clock."""
    detail: str = ""
    """The last ``Progress.detail``: the reason in the rank's own words, where it had time to say it."""
    killed_after: Optional[float] = None
    """Seconds of grace after which its shim killed it; None if it ended before."""
    metal: bool = False
    """True if the last line of its output is Metal's: an older runtime aborts over the GPU instead of raising."""
    program: bool = False
    """True if this is the end of a job's program, whose exit statuses have no meaning here. Else it is that of the rank's own
    process, and a status is one of ``ExitCode``."""


def exit_reason(ended: Exit) -> str:
    """Return a CamelCase reason for conditions and events."""
    if ended.code is None:
        return "Killed"
    if ended.program and ended.code != ExitCode.OK:
        return "ProgramFailed"
    return _EXIT_REASONS.get(ended.code, "UnexpectedError")
