"""The kind ModelDeployment: what should be served."""

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
    """How many nodes a replica is spread over."""

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
                            "description": "A replica that fewer nodes could take is not formed.",
                            "type": "integer",
                            "minimum": 1,
                            "maximum": RANKS_MAX,
                        },
                        "max": {
                            "description": "A replica takes no more nodes, however many there are.",
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
    """How one replica is split over nodes, one rank on each."""

    strategy: Literal["auto", "tensor", "pipeline"] = "auto"
    """`tensor`: every rank computes a part of each layer. `pipeline`: each has some of the layers.
    `auto`: tensor where the model's shape allows it, else pipeline."""
    nodes: Nodes = NodeCount(min=1, max=1)
    """A number, or `{min, max}`: as many as there are, within these bounds."""


Transport = Literal["jaccl", "jaccl-ring", "ring", "ring-lan"]


def _ladder(value: tuple[Transport, ...]) -> tuple[Transport, ...]:
    if not value:
        raise ValueError("expected at least one of jaccl, jaccl-ring, ring, ring-lan")
    twice = [rung for at, rung in enumerate(value) if rung in value[:at]]
    if twice:
        raise ValueError(f"{twice[0]} is named twice")
    return value


class Serving(Strict):
    """What the endpoint offers."""

    context: Annotated[int, Field(ge=16, le=16_777_216)] = 4096
    """Tokens of prompt and answer together that one request may use."""
    max_batch: Annotated[int, Field(ge=1, le=1024)] = 16
    """Requests decoded together; further ones wait."""
    aliases: tuple[Annotated[str, StringConstraints(min_length=1, max_length=256)], ...] = ()
    """Further names under which clients may ask for this deployment."""


class Health(Strict):
    """How long a group may stand still before it is formed again. A change restarts nothing."""

    stall_after: Annotated[Seconds, Field(ge=1)] = 60.0
    """The cap for one decode step while requests wait. Reading a prompt is allowed more, by its length."""
    progress_deadline: Annotated[Seconds, Field(ge=10)] = 1800.0
    """The cap for coming up, from the start of the ranks until all are ready."""


class Growth(Strict):
    """When a group that is smaller, or on a lower transport, than it could be is formed anew as it could be, at most
    twice an hour. A change restarts nothing."""

    idle: Seconds = 60.0
    """So long nobody has asked for anything: whoever asks next is likely to find the new group."""
    group_age: Seconds = 600.0
    """So long the group has lived: longer than what comes and goes takes to do it."""
    node_uptime: Seconds = 300.0
    """So long a node that is to join it has answered without a break."""


class ModelDeploymentSpec(Strict):
    """What should be served."""

    model: Name
    """Name of a Model."""
    replicas: Annotated[int, Field(ge=0, le=REPLICAS_MAX)] = 1
    """How many groups serve it, each with all of the weights. 0 stops serving it."""
    parallelism: Parallelism = Parallelism()
    transport: Annotated[tuple[Transport, ...], AfterValidator(_ladder), Field(min_length=1)] = (
        "jaccl",
        "jaccl-ring",
        "ring",
        "ring-lan",
    )
    """How the ranks of a group may be joined, best first: a rung that fails, or that the machines cannot have, is
    skipped until that has changed. `jaccl`, `jaccl-ring`: RDMA over Thunderbolt, as a mesh or a ring. `ring`: TCP
    over the Thunderbolt cables. `ring-lan`: TCP over any network."""
    fast_synch: bool = False
    """Sets `MLX_METAL_FAST_SYNCH` for every rank: less latency of collectives, and deadlocks that can leave a GPU
    unusable until its machine restarts. MLX advises against it."""
    placement: Placement = Placement()
    serving: Serving = Serving()
    health: Health = Health()
    growth: Growth = Growth()
    restarted_at: Annotated[str, StringConstraints(min_length=1, max_length=64)] | None = None
    """Another value forms every group anew: `reconciler rollout restart` puts the time here."""


class ModelDeployment(Manifest):
    """The wish to serve a model under the deployment's name."""

    api_version: ApiVersion
    kind: Literal["ModelDeployment"]
    """What the object is, and so which fields its spec has."""
    metadata: Metadata
    spec: ModelDeploymentSpec
