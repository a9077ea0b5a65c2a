"""What all of OpenAI's answers have in common: their errors, headings and usage. Pure."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import orjson

from reconciler.gateway.errors import ApiError
from reconciler.wire.generation import Finished

KEEP_ALIVE = b": keep-alive\n\n"
"""A comment: no client hands it to its user."""
DONE = b"data: [DONE]\n\n"


@dataclasses.dataclass(frozen=True, slots=True)
class Heading:
    """What every chunk of an answer repeats."""

    id: str
    created: int
    """Seconds since the Unix epoch."""
    model: str
    """As the client named it."""


def error_body(fault: ApiError) -> bytes:
    """OpenAI's error object: all four fields, always."""
    error = {"message": fault.text, "type": fault.kind, "param": fault.param, "code": fault.code}
    return dumps({"error": error})


def error_headers(fault: ApiError) -> list[tuple[bytes, bytes]]:
    """``Retry-After``, and the header by which OpenAI's SDKs override their own judgement."""
    headers: list[tuple[bytes, bytes]] = []
    if fault.retry_after is not None:
        headers.append((b"retry-after", str(fault.retry_after).encode()))
    if fault.retry is not None:
        headers.append((b"x-should-retry", b"true" if fault.retry else b"false"))
    return headers


def header(heading: Heading, kind: str) -> dict[str, Any]:
    return {"id": heading.id, "object": kind, "created": heading.created, "model": heading.model}


def usage(finished: Sequence[Finished], answers: int) -> dict[str, int]:
    """Tokens of all choices, of which there are ``answers`` to each prompt; a prompt counts once."""
    asked = sum(choice.prompt_tokens for choice in finished) // answers
    answered = sum(choice.completion_tokens for choice in finished)
    return {"prompt_tokens": asked, "completion_tokens": answered, "total_tokens": asked + answered}


def dumps(value: Any) -> bytes:
    """JSON. A half of a surrogate pair, which has no UTF-8, becomes a question mark."""
    try:
        return orjson.dumps(value)
    except orjson.JSONEncodeError:
        return orjson.dumps(_mended(value))


def _mended(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, dict):
        return {key: _mended(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [_mended(entry) for entry in value]
    return value
