"""The kind ApiKey: who may use the endpoint, and how much."""

from __future__ import annotations

import datetime
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, StringConstraints, WithJsonSchema, field_serializer

from .base import HASH, TYPE, Manifest, Name, Strict


def _read_hash(value: Any) -> Any:
    """Return a hash, and refuse anything else without repeating it: it may be the secret itself."""
    if isinstance(value, str) and value.startswith("sha256:") and len(value) == 71:
        return value
    raise ValueError(
        'not a hash: it must be "sha256:" and 64 hexadecimal digits; never put a secret into a manifest,'
        " and if one was there, make a new key"
    )


Hash = Annotated[
    str,
    BeforeValidator(_read_hash),
    StringConstraints(pattern=HASH.pattern),
    WithJsonSchema({"type": "string", TYPE: HASH.type, "pattern": HASH.pattern}),
]
"""SHA-256 of a key's secret. A secret has 256 random bits, so a slow hash would add nothing."""


def _read_time(value: Any) -> Any:
    """Return the time that an RFC 3339 text with a time zone means, in UTC."""
    if isinstance(value, datetime.datetime):
        return value
    try:
        read = datetime.datetime.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        read = None
    if read is None or read.tzinfo is None:
        raise ValueError('expected a time with its zone, such as "2027-01-31T00:00:00Z"')
    return read.astimezone(datetime.UTC)


Time = Annotated[
    datetime.datetime,
    BeforeValidator(_read_time),
    WithJsonSchema(
        {"type": "string", TYPE: "time", "format": "date-time", "examples": ["2027-01-31T00:00:00Z"]}
    ),
]


def _rfc3339(value: datetime.datetime) -> str:
    return value.strftime("%Y-%m-%dT%H:%M:%SZ")


Count = Annotated[int, Field(ge=1, le=1_000_000_000_000)]


class Limits(Strict):
    """The limits of a key. By default nothing is limited."""

    requests_per_minute: Count | None = None
    """Requests that may start per minute. By default there is no limit."""
    tokens_per_minute: Count | None = None
    """Tokens per minute, prompts and answers together. By default there is no limit."""
    tokens_per_day: Count | None = None
    """Tokens per day (UTC), prompts and answers together. By default there is no limit."""
    parallel_requests: Count | None = None
    """Requests that may be open at the same time. By default there is no limit."""


PREVIOUS_MAX = 8


class PreviousSecret(Strict):
    """An earlier secret of a key, which `reconciler key rotate` has replaced."""

    hash: Hash
    """`sha256:` and the SHA-256 of the secret."""
    until: Time
    """Time from which the secret is refused."""

    @field_serializer("until")
    def _write_time(self, value: datetime.datetime) -> str:
        return _rfc3339(value)


class ApiKeySpec(Strict):
    """The secrets of a key, its rights and its limits."""

    hash: Hash
    """`sha256:` and the SHA-256 of the secret in hexadecimal digits. The secret itself is stored nowhere."""
    previous: Annotated[tuple[PreviousSecret, ...], Field(max_length=PREVIOUS_MAX)] = ()
    """Earlier secrets, each of them good until its own time."""
    revoked: bool = False
    """Refuse the key, and end everything that runs with it. Unlike a removed key, it still tells its clients why."""
    models: tuple[Name, ...] = ()
    """Names of the ModelDeployments that the key may use. By default all."""
    limits: Limits = Limits.by_default()
    expires: Time | None = None
    """Time at which the key expires: it is then refused, and everything that runs with it ends. By default it never
    expires."""
    metrics: bool = False
    """Let the key read `/metrics` of the endpoint, which has figures of all keys, and of the console."""
    console: Literal["none", "view", "operate"] = "none"
    """What the key may do in the console. `none`: it cannot log in. `view`: it sees everything there, also what other keys
    use, and chats with the models that it may use. `operate`: it may also approve, scale, undo, suspend, resume, cordon,
    uncordon, drain and restart."""

    @field_serializer("expires")
    def _write_time(self, value: datetime.datetime | None) -> str | None:
        return _rfc3339(value) if value else None


class ApiKey(Manifest):
    """A key for clients of the endpoint."""

    kind: Literal["ApiKey"]
    spec: ApiKeySpec
