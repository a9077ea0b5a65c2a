"""The kind ModelDeployment: a model to serve, and how."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    StringConstraints,
    WithJsonSchema,
    field_validator,
    model_validator,
)

from reconciler.wire.launch import MAX_STALL_SECONDS
from reconciler.wire.sampling import COUNT_MAX, PATTERN_MAX

from .base import Bytes, Manifest, Name, Seconds, Strict
from .scheduling import Placement, Priority
from .strategy import Strategy

RANKS_MAX = 64
REPLICAS_MAX = 64


class NodeCount(Strict):
    """The number of nodes of a replica."""

    min: Annotated[int, Field(ge=1, le=RANKS_MAX)]
    max: Annotated[int, Field(ge=1, le=RANKS_MAX)]

    @field_validator("max")
    @classmethod
    def _not_below_min(cls, value: int, info: Any) -> int:
        if value < info.data.get("min", 1):
            raise ValueError("max must not be below min")
        return value


def _short_count(value: Any) -> Any:
    """``nodes: 4`` is short for ``nodes: {min: 4, max: 4}``."""
    if type(value) is int:
        return {"min": value, "max": value}
    if not isinstance(value, dict | NodeCount):
        raise ValueError("expected a whole number, or a mapping with min and max")
    return value


_BOUNDS = {"type": "integer", "minimum": 1, "maximum": RANKS_MAX}
Nodes = Annotated[
    NodeCount,
    BeforeValidator(_short_count),
    WithJsonSchema(
        {
            "anyOf": [
                _BOUNDS,
                {
                    "type": "object",
                    "properties": {
                        "min": {
                            "description": "Fewest nodes of a replica. With fewer nodes, it is not formed.",
                            **_BOUNDS,
                        },
                        "max": {
                            "description": "Most nodes of a replica, even if more are available.",
                            **_BOUNDS,
                        },
                    },
                    "required": ["min", "max"],
                    "additionalProperties": False,
                },
            ]
        }
    ),
]


class Parallelism(Strict):
    """The split of a replica over nodes, with one rank on each."""

    strategy: Literal["auto", "tensor", "pipeline"] = "auto"
    """`tensor`: each rank computes a part of every layer. `pipeline`: each rank computes some of the layers.
    `auto`: tensor if the model's shape allows it, else pipeline."""
    nodes: Nodes = NodeCount(min=1, max=1)
    """Number of nodes, or `{min, max}` to use as many as are available within these bounds. By default 1."""


Transport = Literal["jaccl", "jaccl-ring", "ring", "ring-lan"]


def _each_once(value: tuple[Transport, ...]) -> tuple[Transport, ...]:
    """Return transports, best first. Raises ``ValueError`` if there are none, or for one that is listed twice."""
    if not value:
        raise ValueError("expected at least one of jaccl, jaccl-ring, ring, ring-lan")
    twice = [transport for at, transport in enumerate(value) if transport in value[:at]]
    if twice:
        raise ValueError(f"{twice[0]} is listed twice")
    return value


Transports = Annotated[tuple[Transport, ...], AfterValidator(_each_once), Field(min_length=1)]
TRANSPORTS: tuple[Transport, ...] = ("jaccl", "jaccl-ring", "ring", "ring-lan")
"""All of them, best first."""


CONTEXT_MIN, CONTEXT_MAX = 16, 16_777_216


def _context(value: Any) -> Any:
    if value == "auto" or (type(value) is int and CONTEXT_MIN <= value <= CONTEXT_MAX):
        return value
    raise ValueError(f'expected "auto", or a whole number from {CONTEXT_MIN} to {CONTEXT_MAX}')


Context = Annotated[
    int | Literal["auto"],
    BeforeValidator(_context),
    WithJsonSchema(
        {
            "anyOf": [
                {"const": "auto", "type": "string"},
                {"type": "integer", "minimum": CONTEXT_MIN, "maximum": CONTEXT_MAX},
            ]
        }
    ),
]


class Sampling(Strict):
    """The choice of tokens where a request does not say. An unset field has the value in the model's
    `generation_config.json`, else it is off. A change restarts nothing."""

    temperature: Annotated[float, Field(ge=0, le=2)] | None = None
    """0 chooses the likeliest token."""
    top_p: Annotated[float, Field(ge=0, le=1)] | None = None
    """Choose among the likeliest tokens that have this probability together; 1 is off."""
    top_k: Annotated[int, Field(ge=0, le=2**31 - 1)] | None = None
    """Choose among this many of the likeliest tokens; 0 is off."""
    min_p: Annotated[float, Field(ge=0, le=1)] | None = None
    """Choose among tokens with at least this fraction of the likeliest token's probability; 0 is off."""
    repetition_penalty: Annotated[float, Field(ge=0.01, le=100)] | None = None
    """Divide by this the logits of tokens that the prompt or the answer already has; 1 is off."""


_DRAFTS = (
    "mlx-lm guesses ahead with a draft model for one request at a time, not for a batch: see docs/models.md"
)
_QUANTIZED = "mlx-lm quantizes the cache of one request at a time, not of a batch: see docs/models.md"


class RopeScaling(Strict):
    """The scaling of rotary positions, for a longer context than the model was trained on."""

    elsewhere: ClassVar[Mapping[str, str]] = {
        "ropeType": 'use "type"',
        "originalMaxPositionEmbeddings": 'use "originalContext"',
    }

    type: Literal["yarn", "linear", "llama3"]
    """`yarn`, `linear` or `llama3`, as the authors of the model recommend."""
    factor: Annotated[float, Field(gt=1, le=1024)]
    """Factor by which the context grows."""
    original_context: Annotated[int, Field(ge=CONTEXT_MIN, le=CONTEXT_MAX)]
    """Longest context that the model was trained on."""

    @property
    def tokens(self) -> int:
        """Return the longest context with this scaling, in tokens."""
        return int(self.original_context * self.factor)


class Embedding(Strict):
    """The settings of a model for embeddings, where its own files have none: conversions leave out `modules.json` of
    sentence-transformers."""

    pooling: Literal["last", "mean", "cls"] = "last"
    """Hidden state that becomes the vector: the last token's, the mean of all, or the first token's (`cls`)."""
    normalize: bool = True
    """Scale vectors to the length 1."""


class StopRepetition(Strict):
    """The repetition that ends an answer: its last tokens are one pattern, many times in a row. A pattern below the
    minimum size is found too, because several of it make a longer one."""

    min_pattern_size: Annotated[int, Field(ge=1, le=PATTERN_MAX)] = 16
    """Tokens of the shortest pattern."""
    max_pattern_size: Annotated[int, Field(ge=1, le=PATTERN_MAX)] = 1024
    """Tokens of the longest pattern."""
    min_count: Annotated[int, Field(ge=2, le=COUNT_MAX)] = 4
    """Repetitions in a row, at the end of the answer, that end it."""

    @model_validator(mode="after")
    def _ordered(self) -> StopRepetition:
        if self.min_pattern_size > self.max_pattern_size:
            raise ValueError(
                f"minPatternSize {self.min_pattern_size} is above maxPatternSize {self.max_pattern_size}"
            )
        return self


class Serving(Strict):
    """Limits of requests, defaults for what they leave out, and further names of the deployment."""

    elsewhere: ClassVar[Mapping[str, str]] = {
        **dict.fromkeys(("draftModel", "speculativeModel", "speculativeConfig", "numDraftTokens"), _DRAFTS),
        "hfOverrides": 'of these there is "ropeScaling"',
        **dict.fromkeys(("kvBits", "kvGroupSize", "quantizedKvStart", "kvCacheDtype"), _QUANTIZED),
        **dict.fromkeys(("maxModelLen", "ctxSize", "maxKvSize"), 'use "context"'),
        "maxNumSeqs": 'use "maxBatch"',
        "repetitionDetection": 'use "stopRepetition"',
        **dict.fromkeys(("task", "runner", "poolerConfig", "overridePoolerConfig"), 'use "embedding"'),
    }

    context: Context = "auto"
    """Most tokens of one request, prompt and answer together. `auto`: as many as the model was made for, or fewer where
    memory is short. The number is decided when a group is formed, and stays."""
    rope_scaling: RopeScaling | None = None
    """Scaling of rotary positions instead of the one in the model's `config.json`, for a longer context than the model
    was made for. Short requests may be answered a little worse. Unset: as the model says."""
    max_batch: Annotated[int, Field(ge=1, le=1024)] = 16
    """Most requests that are decoded together. Further requests wait."""
    kv_cache: Bytes | None = None
    """Memory on each node for the tokens of all requests that are being answered, at least for one full context. A request
    waits where there is no room for its prompt. Unset: one full context, and 8,192 tokens (or the context, where that is
    less) for each further request that `maxBatch` allows."""
    max_stall: Annotated[Seconds, Field(ge=0.01, le=60)] = MAX_STALL_SECONDS
    """Longest pause in the answers of a group while it reads the prompt of another request. One step of the model may
    take longer. A change restarts nothing."""
    prefix_cache: Bytes | None = None
    """Memory on each node for prompts and answers, so that later requests that begin alike need not read them again.
    Unset: as much as one full context takes. With 0 nothing is kept."""
    sampling: Sampling = Sampling.by_default()
    thinking: bool | None = None
    """Reason before the answer, where a request does not say and the chat template has a switch. Unset: as the template
    does. A change restarts nothing."""
    stop_repetition: StopRepetition | None = None
    """End answers that only repeat themselves, where a request does not say. Unset: never. A change restarts
    nothing."""
    embedding: Embedding | None = None
    """The model is for embeddings (`/v1/embeddings`) and generates no text. Unset: as its files say. It runs on one node."""
    aliases: tuple[Annotated[str, StringConstraints(min_length=1, max_length=256)], ...] = ()
    """Further names by which clients can request this deployment."""


class Health(Strict):
    """Time limits for a group without progress, which is then formed again. A change restarts nothing."""

    stall_after: Annotated[Seconds, Field(ge=1)] = 60.0
    """Time limit for one decode step while requests wait, at least 1s. Long prompts are allowed more."""
    progress_deadline: Annotated[Seconds, Field(ge=10)] = 1800.0
    """Time limit from the start of the ranks until all are ready, at least 10s. It includes loading weights."""


class Growth(Strict):
    """Conditions for forming a group again because it could be larger or use a better transport. This happens at most
    twice an hour. A change restarts nothing."""

    idle: Seconds = 60.0
    """Re-form only after this long without requests, because clients of the new group have to wait for it."""
    group_age: Seconds = 600.0
    """Minimum age of the group before it is re-formed, so that a flapping link is ignored."""
    node_uptime: Seconds = 300.0
    """Time for which a node must have answered without a break before it joins the group."""


class ModelDeploymentSpec(Strict):
    """A model to serve, and how."""

    elsewhere: ClassVar[Mapping[str, str]] = {
        **dict.fromkeys(("rollingUpdate", "updateStrategy", "update"), 'use "strategy"'),
        "minReadySeconds": 'use "pause" under "strategy"',
        "progressDeadlineSeconds": 'use "progressDeadline" under "health"',
        "revisionHistoryLimit": "all revisions are in git",
    }

    model: Name
    """Name of the Model to serve."""
    replicas: Annotated[int, Field(ge=0, le=REPLICAS_MAX)] = 1
    """Number of groups that serve the model, each with all of its weights. With 0 the model is not served."""
    parallelism: Parallelism = Parallelism.by_default()
    transport: Transports = TRANSPORTS
    """Transports that the ranks of a group may use, best first. A transport that failed, or that the machines do not
    support, is skipped until that changes. `jaccl`, `jaccl-ring`: RDMA over Thunderbolt, as a mesh or a ring.
    `ring`: TCP over the Thunderbolt cables. `ring-lan`: TCP over any network."""
    fast_synch: bool = False
    """Set `MLX_METAL_FAST_SYNCH` for every rank. Collectives get faster, but a deadlock can leave a GPU unusable until
    its machine restarts. MLX advises against it."""
    placement: Placement = Placement.by_default()
    serving: Serving = Serving.by_default()
    health: Health = Health.by_default()
    growth: Growth = Growth.by_default()
    strategy: Strategy = Strategy.by_default()
    priority: Priority = 0
    """Order in which nodes are given to deployments and jobs that wait for them: higher ones come first."""
    preemptible: bool = False
    """A Job of a higher priority with `preempt` may take the nodes. Then requests are finished first, and the groups are
    formed again after the job."""
    paused: bool = False
    """Let changes of the spec wait. Running groups continue, and a group that ends is formed again as it was.
    `reconciler rollout pause` and `resume` set it."""
    restarted_at: Annotated[str, StringConstraints(min_length=1, max_length=64)] | None = None
    """A change of this value restarts every group. `reconciler rollout restart` sets it to the current time."""

    @field_validator("serving")
    @classmethod
    def _embedding_on_one_node(cls, value: Serving, info: Any) -> Serving:
        parallelism = info.data.get("parallelism")
        if value.embedding is not None and parallelism is not None and parallelism.nodes.max > 1:
            raise ValueError("a model for embeddings runs on one node: set parallelism.nodes to 1")
        return value


class ModelDeployment(Manifest):
    """A model that is served under the deployment's name."""

    kind: Literal["ModelDeployment"]
    spec: ModelDeploymentSpec
