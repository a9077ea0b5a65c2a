"""``POST /v1/embeddings``: texts in, their vectors out. Pure.

Only the rank knows whether its model makes vectors. Ranks of other models refuse, and such a rank refuses to
generate.
"""

from __future__ import annotations

import base64
import struct
from collections.abc import Sequence
from typing import Any

from reconciler.gateway.dialects.dialect import Catalog, Parsed, Sources
from reconciler.gateway.dialects.fields import Fields
from reconciler.gateway.errors import invalid, unsupported
from reconciler.gateway.events import Piece
from reconciler.wire.generation import Delta, Finished, Generate
from reconciler.wire.question import Question, Texts, Vector

from .model_list import only_model
from .parameters import TOKEN_IDS, parse_model, parse_object, parse_texts
from .shape import dumps

TEXTS_MAX = 2048
"""OpenAI's limit."""
DIMENSIONS_MAX = 1 << 20
"""Only the rank knows how many dimensions its model has."""
NUMBERS_MAX = 1 << 22
"""Of all vectors together, if numbers are written as text, each as some twenty characters."""
_REFUSED = {
    "messages": "use input",
    "truncate_prompt_tokens": "cut the text before",
    "add_special_tokens": "send token ids",
    "modality": "models here take text alone",
}
"""Parameters of other servers that would change the vectors, and what to do instead."""


def parse(body: bytes, sources: Sources, catalog: Catalog) -> Parsed:
    """Parse a body, and choose the writer of the vectors. Raises ``ApiError`` (400)."""
    fields = parse_object(body)
    for name, why in _REFUSED.items():
        if fields.value(name) not in (None, True, "text"):
            raise unsupported(name, name, why)
    model = parse_model(fields) or only_model(catalog)
    in_base64 = fields.optional_choice("encoding_format", ("float", "base64")) == "base64"
    dimensions = fields.optional_integer("dimensions", low=1, high=DIMENSIONS_MAX)
    question = Question("input", texts=_texts(fields, dimensions))
    generate = Generate("", (), tokens_max=0, question=question)
    return Parsed(model, [generate], EmbeddingsReply(model, in_base64))


def _texts(fields: Fields, dimensions: int | None) -> Texts:
    value = parse_texts(fields, "input", TEXTS_MAX, "texts")
    if isinstance(value[0], str):
        return Texts(
            texts=tuple(_text(entry, at, len(value)) for at, entry in enumerate(value)), dimensions=dimensions
        )
    tokens = tuple(_tokens(entry, at, len(value)) for at, entry in enumerate(value))
    return Texts(tokens=tokens, dimensions=dimensions)


def _text(value: Any, at: int, count: int) -> str:
    if not isinstance(value, str) or not value:
        raise invalid("a text must be a non-empty string, as the first one is", _place(at, count))
    return value


def _tokens(value: Any, at: int, count: int) -> tuple[int, ...]:
    if not isinstance(value, list) or not value:
        raise invalid("expected a non-empty string, or a non-empty list of token ids", _place(at, count))
    if not all(type(token) is int and 0 <= token < TOKEN_IDS for token in value):
        raise invalid("expected token ids, as the first one is", _place(at, count))
    return tuple(value)


def _place(at: int, count: int) -> str:
    return "input" if count == 1 else f"input[{at}]"


class EmbeddingsReply:
    """Writes the vectors, in the order of the texts. Each is written when it comes: all at the end would hold up others."""

    def __init__(self, model: str, in_base64: bool) -> None:
        self._model = model
        self._in_base64 = in_base64
        self._written: dict[int, bytes] = {}
        self._numbers = 0
        self._tokens = 0

    def add(self, pieces: Sequence[Piece]) -> None:
        """Keep a vector from rank 0; it may come again from another group. Raises ``ApiError`` (400) for too many
        numbers."""
        for _, answer in pieces:
            if isinstance(answer, Delta):
                for vector in answer.vectors:
                    self._add(vector)
            elif isinstance(answer, Finished):
                self._tokens = answer.prompt_tokens

    def body(self) -> bytes:
        usage = {"prompt_tokens": self._tokens, "total_tokens": self._tokens}
        rest = dumps({"object": "list", "model": self._model, "usage": usage})
        data = b",".join(self._written[place] for place in sorted(self._written))
        return rest[:-1] + b',"data":[' + data + b"]}"

    def _add(self, vector: Vector) -> None:
        numbers: str | tuple[float, ...] = vector.numbers
        if not self._in_base64:
            raw = base64.b64decode(vector.numbers)
            numbers = struct.unpack(f"<{len(raw) // 4}f", raw)
            self._numbers += len(numbers) if vector.place not in self._written else 0
            if self._numbers > NUMBERS_MAX:
                text = f"more than {NUMBERS_MAX} numbers: set encoding_format to base64, or send fewer texts"
                raise invalid(text, "input")
        entry = {"object": "embedding", "index": vector.place, "embedding": numbers}
        self._written[vector.place] = dumps(entry)
