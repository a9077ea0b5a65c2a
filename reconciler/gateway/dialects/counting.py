"""The number of tokens in a prompt, instead of an answer to it. Pure.

Rank 0 counts them with the template, the tokenizer and the defaults that an answer would have.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from reconciler.gateway.events import Piece
from reconciler.wire.form import FREE
from reconciler.wire.generation import Finished, Generate
from reconciler.wire.question import Question

from .openai.shape import dumps


def counting(generate: Generate) -> Generate:
    """Return the question for the length of a request's prompt."""
    return dataclasses.replace(generate, tokens_max=0, form=FREE, question=Question())


class CountReply:
    """Writes the number as ``input_tokens``, next to the other fields of the object."""

    def __init__(self, heading: Mapping[str, Any]) -> None:
        self._heading = heading
        self._count = 0

    def add(self, pieces: Sequence[Piece]) -> None:
        self._count += sum(answer.prompt_tokens for _, answer in pieces if isinstance(answer, Finished))

    def body(self) -> bytes:
        return dumps({**self._heading, "input_tokens": self._count})
