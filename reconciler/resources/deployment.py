"""The kind ModelDeployment: a model to serve, and how."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    StringConstraints,
    WithJsonSchema,
    field_validator,
)

from .base import ApiVersion, Manifest, Metadata, Name, Seconds, Strict
from .scheduling import Placement

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


Nodes = Annotated[
    NodeCount,
    BeforeValidator(_short_count),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "integer", "minimum": 1, "maximum": RANKS_MAX},
                {
                    "type": "object",
                    "properties": {
                        "min": {
                            "description": "Fewest nodes of a replica. With fewer nodes, it is not formed.",
                            "type": "integer",
                            "minimum": 1,
                            "maximum": RANKS_MAX,
                        },
                        "max": {
                            "description": "Most nodes of a replica, even if more are available.",
                            "type": "integer",
                            "minimum": 1,
                            "maximum": RANKS_MAX,
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
    """How a replica is split over nodes, with one rank on each."""

    strategy: Literal["auto", "tensor", "pipeline"] = "auto"
    """`tensor`: each rank computes a part of every layer. `pipeline`: each rank computes some of the layers.
    `auto`: tensor if the model's shape allows it, else pipeline."""
    nodes: Nodes = NodeCount(min=1, max=1)
    """Number of nodes, or `{min, max}` to use as many as are available within these bounds. By default 1."""


Transport = Literal["jaccl", "jaccl-ring", "ring", "ring-lan"]


def _ladder(value: tuple[Transport, ...]) -> tuple[Transport, ...]:
    if not value:
        raise ValueError("expected at least one of jaccl, jaccl-ring, ring, ring-lan")
    twice = [transport for at, transport in enumerate(value) if transport in value[:at]]
    if twice:
        raise ValueError(f"{twice[0]} is listed twice")
    return value


class Serving(Strict):
    """Limits of requests, and further names of the deployment."""

    context: Annotated[int, Field(ge=16, le=16_777_216)] = 4096
    """Most tokens of one request, prompt and answer together."""
    max_batch: Annotated[int, Field(ge=1, le=1024)] = 16
    """Most requests that are decoded together. Further requests wait."""
    aliases: tuple[Annotated[str, StringConstraints(min_length=1, max_length=256)], ...] = ()
    """Further names by which clients can request this deployment."""


class Health(Strict):
    """How long a group may make no progress before it is formed again. A change restarts nothing."""

    stall_after: Annotated[Seconds, Field(ge=1)] = 60.0
    """Time limit for one decode step while requests wait, at least 1s. Long prompts are allowed more."""
    progress_deadline: Annotated[Seconds, Field(ge=10)] = 1800.0
    """Time limit from the start of the ranks until all are ready, at least 10s. It includes loading weights."""


class Growth(Strict):
    """When a group is formed again because it could be larger or use a better transport. This happens at most twice
    an hour. A change restarts nothing."""

    idle: Seconds = 60.0
    """Re-form only after this long without requests, because clients of the new group have to wait for it."""
    group_age: Seconds = 600.0
    """Minimum age of the group before it is re-formed, so that a flapping link is ignored."""
    node_uptime: Seconds = 300.0
    """How long a node must have answered without a break before it joins the group."""


class ModelDeploymentSpec(Strict):
    """A model to serve, and how."""

    model: Name
    """Name of the Model to serve."""
    replicas: Annotated[int, Field(ge=0, le=REPLICAS_MAX)] = 1
    """Number of groups that serve the model, each with all of its weights. With 0 the model is not served."""
    parallelism: Parallelism = Parallelism()
    transport: Annotated[tuple[Transport, ...], AfterValidator(_ladder), Field(min_length=1)] = (
        "jaccl",
        "jaccl-ring",
        "ring",
        "ring-lan",
    )
    """Transports that the ranks of a group may use, best first. A transport that failed, or that the machines do not
    support, is skipped until that changes. `jaccl`, `jaccl-ring`: RDMA over Thunderbolt, as a mesh or a ring.
    `ring`: TCP over the Thunderbolt cables. `ring-lan`: TCP over any network."""
    fast_synch: bool = False
    """Set `MLX_METAL_FAST_SYNCH` for every rank. Collectives get faster, but a deadlock can leave a GPU unusable until
    its machine restarts. MLX advises against it."""
    placement: Placement = Placement()
    serving: Serving = Serving()
    health: Health = Health()
    growth: Growth = Growth()
    restarted_at: Annotated[str, StringConstraints(min_length=1, max_length=64)] | None = None
    """A change of this value restarts every group. `reconciler rollout restart` sets it to the current time."""


class ModelDeployment(Manifest):
    """A model that is served under the deployment's name."""

    api_version: ApiVersion
    kind: Literal["ModelDeployment"]
    """The kind of the object, which decides the fields of its spec."""
    metadata: Metadata
    spec: ModelDeploymentSpec
