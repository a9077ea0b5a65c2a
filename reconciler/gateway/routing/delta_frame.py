"""Reads deltas from frames of rank 0, with less work than the codec, because thousands come."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from reconciler.wire.generation import Delta

_FIELDS = ("type", "request", "tokens", "text")


def plain_delta(frame: Mapping[str, Any]) -> Delta | None:
    """Return a delta of tokens and text alone, as nearly all are. Return None for every other frame: the codec reads
    it, or reports its fault."""
    if len(frame) != len(_FIELDS) or frame.get("type") != "delta":
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
