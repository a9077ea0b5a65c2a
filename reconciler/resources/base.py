"""What all kinds share: frozen, strict, unknown fields are errors; quantities and names as YAML has them."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PlainSerializer, WithJsonSchema
from pydantic.alias_generators import to_camel

from .registry import API_VERSION

ApiVersion = Annotated[
    Literal["reconciler/v1alpha1"], Field(description="The version of the form that the manifest has.")
]
assert API_VERSION == "reconciler/v1alpha1"

_BYTES = re.compile(r"^([0-9]{1,16}(?:\.[0-9]{1,12})?)[ ]*(B|KiB|MiB|GiB|TiB|KB|MB|GB|TB)?$")
_BYTE_UNITS = {
    None: 1, "B": 1,
    "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40,
    "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12,
}  # fmt: skip
BYTES_MAX = 1024 * 2**40
SECONDS_MAX = 366 * 24 * 3600
_DURATION = re.compile(r"^([0-9]{1,12}(?:\.[0-9]{1,12})?)(ms|s|m|h)$")
_DURATION_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


class Strict(BaseModel):
    """Base of every piece of a manifest. Field names are camelCase in YAML."""

    model_config = ConfigDict(
        frozen=True,
        strict=True,
        extra="forbid",
        alias_generator=to_camel,
        use_attribute_docstrings=True,
        defer_build=True,  # a process validates few of the kinds, and a command that starts is waited for
    )


def _parse_bytes(value: Any) -> Any:
    match = _BYTES.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        raise ValueError('expected a size such as "24GiB" or "512MiB"')
    size = round(float(match[1]) * _BYTE_UNITS[match[2]])
    if size > BYTES_MAX:
        raise ValueError(f"expected a size of at most {_write_bytes(BYTES_MAX)}")
    return size


def _parse_seconds(value: Any) -> Any:
    match = _DURATION.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        raise ValueError('expected a duration such as "30s", "5m" or "1h"')
    seconds = round(float(match[1]) * _DURATION_UNITS[match[2]], 6)
    if seconds > SECONDS_MAX:
        raise ValueError(f"expected a duration of at most {SECONDS_MAX // 3600}h")
    return seconds


def _write_seconds(value: float) -> str:
    return f"{value:.6f}".rstrip("0").rstrip(".") + "s"


def _write_bytes(value: int) -> str:
    unit = next((u for u in ("TiB", "GiB", "MiB", "KiB") if value and value % _BYTE_UNITS[u] == 0), "B")
    return f"{value // _BYTE_UNITS[unit]}{unit}"


Bytes = Annotated[
    int,
    BeforeValidator(_parse_bytes),
    PlainSerializer(_write_bytes, return_type=str),
    WithJsonSchema({"type": "string", "pattern": _BYTES.pattern, "examples": ["24GiB"]}),
]
"""A size in bytes, written with a unit."""

Seconds = Annotated[
    float,
    BeforeValidator(_parse_seconds),
    PlainSerializer(_write_seconds, return_type=str),
    WithJsonSchema({"type": "string", "pattern": _DURATION.pattern, "examples": ["30s"]}),
]
"""A duration in seconds, written with a unit."""

NAME_PATTERN = r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$"
NAME_RULE = 'lower-case letters, digits, "-" and ".", with a letter or digit at both ends'
"""``NAME_PATTERN`` in words, for messages."""

Name = Annotated[str, Field(pattern=NAME_PATTERN, max_length=63)]
"""Lower-case letters, digits, ``-`` and ``.``; at most 63 characters, as DNS labels are."""

Label = Annotated[str, Field(max_length=63)]


class Metadata(Strict):
    """Who an object is."""

    name: Name
    """Unique within its kind."""
    labels: dict[str, Label] = Field(default_factory=dict)
    """For selecting: `reconciler get nodes -l pool=studios`."""
    annotations: dict[str, str] = Field(default_factory=dict)
    """For people and tools; of no meaning to the reconciler."""


class Manifest(Strict):
    """One object: what all kinds have. Each kind narrows ``kind`` and adds its ``spec``."""

    api_version: ApiVersion
    kind: str
    metadata: Metadata
