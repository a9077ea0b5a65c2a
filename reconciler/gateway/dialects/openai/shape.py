"""The common parts of OpenAI's answers: headings, usage and JSON. Pure."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import orjson

from reconciler.gateway.dialects.dialect import Sources
from reconciler.wire.generation import Finished


@dataclasses.dataclass(frozen=True, slots=True)
class Heading:
    """Fields that every chunk of an answer repeats."""

    id: str
    created: int
    """Seconds since the Unix epoch."""
    model: str
    """As the client named it."""


def new_heading(prefix: str, model: str, sources: Sources) -> Heading:
    """Return the heading of a new answer, whose id begins with ``prefix``."""
    return Heading(prefix + sources.new_id(), int(sources.now()), model)


def header(heading: Heading, kind: str) -> dict[str, Any]:
    """Return the fields of a heading for an object of a kind."""
    return {"id": heading.id, "object": kind, "created": heading.created, "model": heading.model}


REPETITION = "repetition_detected"
"""vLLM's ``stop_reason``. vLLM's ``finish_reason`` is ``repetition``, which clients that check it do not know."""


def finish(finished: Finished | None) -> dict[str, Any]:
    """Return the fields for the end of a choice; ``finish_reason`` is None before it."""
    if finished is None:
        return {"finish_reason": None}
    more = {"stop_reason": REPETITION} if finished.repeated else {}
    return {"finish_reason": finished.reason, **more}


def usage(finished: Sequence[Finished], answers: int) -> dict[str, Any]:
    """Return the tokens of all choices, with ``answers`` choices to each prompt. A prompt counts once, and so do its
    cached tokens."""
    prompt = sum(choice.prompt_tokens for choice in finished) // answers
    completion = sum(choice.completion_tokens for choice in finished)
    cached = sum(choice.cached_tokens for choice in finished) // answers
    return {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
        "prompt_tokens_details": {"cached_tokens": cached},
    }


def dumps(value: Any) -> bytes:
    """Return JSON. A half of a surrogate pair, which has no UTF-8, becomes a question mark."""
    try:
        return orjson.dumps(value)
    except orjson.JSONEncodeError:
        return orjson.dumps(_without_surrogates(value))


def _without_surrogates(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, dict):
        return {key: _without_surrogates(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [_without_surrogates(entry) for entry in value]
    return value
