"""The kind ApiKey: who may use the endpoint, and how much."""

from __future__ import annotations

import datetime
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, StringConstraints, WithJsonSchema, field_serializer

from .base import ApiVersion, Manifest, Metadata, Name, Strict

HASH_PATTERN = r"^sha256:[0-9a-f]{64}$"


def _read_hash(value: Any) -> Any:
    """Refuse anything else without repeating it: it may be the secret itself."""
    if isinstance(value, str) and value.startswith("sha256:") and len(value) == 71:
        return value
    raise ValueError(
        'it is no hash such as "sha256:" and 64 hexadecimal digits; a secret must never stand in a manifest:'
        " if it did, make a new one"
    )


Hash = Annotated[
    str,
    BeforeValidator(_read_hash),
    StringConstraints(pattern=HASH_PATTERN),
    WithJsonSchema({"type": "string", "pattern": HASH_PATTERN}),
]
"""SHA-256 of a key's secret. A secret has 256 bits of chance, so a slow hash would add nothing."""


def _read_time(value: Any) -> Any:
    """YAML has times as text here: what is read is RFC 3339, and names its zone."""
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
    WithJsonSchema({"type": "string", "format": "date-time", "examples": ["2027-01-31T00:00:00Z"]}),
]

Count = Annotated[int, Field(ge=1, le=1_000_000_000_000)]


class Limits(Strict):
    """How much a key may use. What is not given has no limit."""

    requests_per_minute: Count | None = None
    """Requests that may begin within a minute."""
    tokens_per_minute: Count | None = None
    """Tokens of prompts and answers together."""
    tokens_per_day: Count | None = None
    """Tokens of prompts and answers together, by days of UTC."""
    parallel_requests: Count | None = None
    """Requests that may be open at the same time."""


class ApiKeySpec(Strict):
    """Who may use the endpoint, and how much."""

    hash: Hash
    """`sha256:` and the SHA-256 of the secret in hexadecimal digits. The secret itself is kept nowhere."""
    models: tuple[Name, ...] = ()
    """Names of the ModelDeployments that it may use; none: all."""
    limits: Limits = Limits()
    expires: Time | None = None
    """From then on it is refused; not given: never."""

    @field_serializer("expires")
    def _write_time(self, value: datetime.datetime | None) -> str | None:
        return value.strftime("%Y-%m-%dT%H:%M:%SZ") if value else None


class ApiKey(Manifest):
    """A key for clients of the endpoint."""

    api_version: ApiVersion
    kind: Literal["ApiKey"]
    """What the object is, and so which fields its spec has."""
    metadata: Metadata
    spec: ApiKeySpec
