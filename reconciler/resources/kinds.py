"""The kinds of manifests. What a kind cannot do yet it does not accept."""

from __future__ import annotations

import ipaddress
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    StringConstraints,
    WithJsonSchema,
    field_validator,
)

from .base import ApiVersion, Metadata, Name, Seconds, Strict
from .fabric import Fabric
from .node import Node
from .scheduling import Placement
from .weights import ModelSpec


def is_loopback(host: str) -> bool:
    """Whether a host is this machine, whatever its name service says."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


RANKS_MAX = 64
REPLICAS_MAX = 64


# --- Model -----------------------------------------------------------------------------------------


class Model(Strict):
    """Weights that deployments can serve."""

    api_version: ApiVersion
    kind: Literal["Model"]
    """What the object is, and so which fields its spec has."""
    metadata: Metadata
    spec: ModelSpec


# --- ModelDeployment -------------------------------------------------------------------------------


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


class ModelDeployment(Strict):
    """The wish to serve a model under the deployment's name."""

    api_version: ApiVersion
    kind: Literal["ModelDeployment"]
    """What the object is, and so which fields its spec has."""
    metadata: Metadata
    spec: ModelDeploymentSpec


# --- Gateway ---------------------------------------------------------------------------------------


class GatewayAuth(Strict):
    """Who may call the endpoint."""

    mode: Literal["none"]
    """`none`: whoever can open the port. That is why only loopback addresses are accepted."""


class GatewaySpec(Strict):
    """The endpoint that clients talk to."""

    listen: str
    """`address:port`, on loopback."""
    auth: GatewayAuth
    hold: Seconds = 60.0
    """How long a request may wait for a group that is being formed before it gets 503."""

    @field_validator("listen")
    @classmethod
    def _loopback(cls, value: str) -> str:
        host, colon, port = value.rpartition(":")
        try:
            address = ipaddress.ip_address("127.0.0.1" if host == "localhost" else host.strip("[]"))
        except ValueError:
            raise ValueError('expected "address:port" such as "127.0.0.1:8400"') from None
        if not colon or not port.isdigit() or not 1 <= int(port) <= 65535:
            raise ValueError('expected a port from 1 to 65535, such as "127.0.0.1:8400"')
        if not address.is_loopback:
            raise ValueError(
                f"{host} is not a loopback address: without authentication the endpoint stays on this machine"
            )
        return value


class Gateway(Strict):
    """The one OpenAI-compatible endpoint of the cluster."""

    api_version: ApiVersion
    kind: Literal["Gateway"]
    """What the object is, and so which fields its spec has."""
    metadata: Metadata
    spec: GatewaySpec


# --- Notifier --------------------------------------------------------------------------------------


class UrlFrom(Strict):
    """Where a URL is that is a secret. One of them."""

    env: Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,127}$")] | None = None
    """Name of a variable in the environment of `reconciler up`."""
    file: Annotated[str, StringConstraints(pattern=r"^[/~]", max_length=1024)] | None = None
    """A file with nothing else in it, absolute or under `~`; read before each message. Mode 0600 is best."""


class Webhook(Strict):
    """Where messages are sent, as Slack takes them. Either `url` or one of `urlFrom`."""

    url: Annotated[str, StringConstraints(max_length=2048)] | None = None
    """Of this machine only: others hold secrets, which are kept out of git."""
    url_from: Annotated[UrlFrom, Field(validate_default=True)] = UrlFrom()

    @field_validator("url")
    @classmethod
    def _local(cls, value: str | None) -> str | None:
        """No message begins with what was expected: then it would go on with the URL, which may be a secret."""
        parts = urlsplit(value or "http://localhost")
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError('it is no URL such as "http://127.0.0.1:9000/hook"')
        if not is_loopback(parts.hostname):
            raise ValueError(
                "its host is not this machine: such a URL is a secret, and manifests are in git; "
                "use urlFrom: {env: NAME} or {file: PATH}"
            )
        return value

    @field_validator("url_from")
    @classmethod
    def _one(cls, value: UrlFrom, info: Any) -> UrlFrom:
        given = [info.data.get("url"), value.env, value.file]
        if "url" in info.data and sum(each is not None for each in given) != 1:
            raise ValueError("exactly one of url, urlFrom.env and urlFrom.file is to be given")
        return value


class NotifierSpec(Strict):
    """Whom to tell of incidents."""

    webhook: Webhook
    tell: tuple[Literal["opened", "personNeeded", "closed"], ...] = ("opened", "personNeeded", "closed")
    """What is told of an incident, each once: that it began, that a person is needed, that it is over."""


class Notifier(Strict):
    """A webhook that is told of incidents, in Slack's form."""

    api_version: ApiVersion
    kind: Literal["Notifier"]
    """What the object is, and so which fields its spec has."""
    metadata: Metadata
    spec: NotifierSpec


Manifest = Node | Fabric | Model | ModelDeployment | Gateway | Notifier

KINDS: dict[str, type[Manifest]] = {
    "Node": Node,
    "Fabric": Fabric,
    "Model": Model,
    "ModelDeployment": ModelDeployment,
    "Gateway": Gateway,
    "Notifier": Notifier,
}
"""Every kind by its name, in the order in which lists show them."""
