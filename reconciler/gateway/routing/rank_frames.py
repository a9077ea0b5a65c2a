"""Frames to and from rank 0, with less work than the codec, because thousands come."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import orjson

from reconciler.wire.codec import to_wire
from reconciler.wire.frames import encode, framed_bytes
from reconciler.wire.generation import Delta, Generate

_DELTA = ("type", "request", "tokens", "text")
_NO_DEFAULT = object()
_REQUEST: tuple[tuple[str, Any], ...] = tuple(
    (field.name, _NO_DEFAULT if field.default is dataclasses.MISSING else field.default)
    for field in dataclasses.fields(Generate)
)
_TYPE = {"type": to_wire(Generate("", ()))["type"]}


def plain_delta(frame: Mapping[str, Any]) -> Delta | None:
    """Return a delta of tokens and text alone, as nearly all are. Return None for every other frame: the codec reads
    it, or reports its fault."""
    if len(frame) != len(_DELTA) or frame.get("type") != "delta":
        return None
    request, tokens, text = frame.get("request"), frame.get("tokens"), frame.get("text")
    if type(request) is not str or type(text) is not str or type(tokens) is not list:
        return None
    for token in tokens:
        if type(token) is not int:
            return None
    made = object.__new__(Delta)  # fields with their default are found in the class, as in any dataclass
    made.__dict__.update(request=request, tokens=tuple(tokens), text=text)
    return made


def request_frame(generate: Generate, **others: Any) -> bytes:
    """Return the frame of a request, without fields that have their default. The codec takes five times as long.
    ``others`` replaces fields of the request: a copy of it would cost more than all the rest. Raises ``WireError`` if it
    is too long."""
    told = {**_TYPE}
    for name, default in _REQUEST:
        value = others[name] if name in others else getattr(generate, name)
        if value is not default and value != default:
            told[name] = value
    try:
        return framed_bytes(orjson.dumps(told))
    except TypeError:  # half of a surrogate pair, which JSON can write and UTF-8 cannot
        return encode(to_wire(dataclasses.replace(generate, **others), brief=True))
