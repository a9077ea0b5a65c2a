"""Writes a request as the frame for rank 0, with a library that knows dataclasses: the codec takes five times as
long."""

from __future__ import annotations

import dataclasses
from typing import Any

import orjson

from reconciler.wire.codec import to_wire
from reconciler.wire.frames import encode, framed_bytes
from reconciler.wire.generation import Generate

_NO_DEFAULT = object()
_FIELDS: tuple[tuple[str, Any], ...] = tuple(
    (field.name, _NO_DEFAULT if field.default is dataclasses.MISSING else field.default)
    for field in dataclasses.fields(Generate)
)
_TYPE = {"type": to_wire(Generate("", ()))["type"]}


def request_frame(generate: Generate, **others: Any) -> bytes:
    """Return the frame, without fields that have their default. ``others`` replaces fields of the request: a copy of it
    would cost more than all the rest. Raises ``WireError`` if it is too long."""
    told = {**_TYPE}
    for name, default in _FIELDS:
        value = others[name] if name in others else getattr(generate, name)
        if value is not default and value != default:
            told[name] = value
    try:
        return framed_bytes(orjson.dumps(told))
    except TypeError:  # half of a surrogate pair, which JSON can write and UTF-8 cannot
        return encode(to_wire(dataclasses.replace(generate, **others), brief=True))
