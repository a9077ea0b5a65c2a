"""Server-sent events as OpenAI writes them. Pure."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

from reconciler.gateway.errors import ApiError
from reconciler.gateway.events import Part, Piece
from reconciler.wire.generation import Finished

from .errors import error_body
from .shape import Heading, dumps, header, usage

DONE = b"data: [DONE]\n\n"


class EventStream(ABC):
    """An answer as server-sent events."""

    content_type = b"text/event-stream; charset=utf-8"

    def __init__(self, heading: Heading, kind: str, include_usage: bool, choices: int, answers: int) -> None:
        """``answers`` is the number of choices to each prompt."""
        self._head = b"data: " + dumps(header(heading, kind))[:-1]
        self._include_usage = include_usage
        self._no_usage = b',"usage":null' if include_usage else b""
        self._answers = answers
        self._open = dict.fromkeys(range(choices))
        """The choices that are not finished."""
        self._finished: list[Finished] = []

    def encode(self, pieces: Sequence[Piece]) -> bytes:
        if len(pieces) == 1:  # as nearly always
            ((index, answer),) = pieces
            return self._encode_one(index, answer)
        return b"".join([self._encode_one(index, answer) for index, answer in pieces])

    def error(self, error: ApiError) -> bytes:
        """Return the end of a stream that broke: an error that SDKs raise, and no ``[DONE]``."""
        return b"data: " + error_body(error) + b"\n\n"

    @abstractmethod
    def keep_alive(self) -> bytes:
        """Return a chunk that adds nothing to a choice that is not finished."""

    @abstractmethod
    def _encode_one(self, index: int, answer: Part) -> bytes:
        """Return one piece of choice ``index``."""

    def _chunk(self, choice: dict[str, Any]) -> bytes:
        return self._head + self._no_usage + b',"choices":' + dumps([choice]) + b"}\n\n"

    def _end(self, index: int, finished: Finished) -> bytes:
        """Return the end of the stream, unless another choice is open."""
        self._open.pop(index, None)
        self._finished.append(finished)
        if self._open:
            return b""
        if not self._include_usage:
            return DONE
        counted = dumps(usage(self._finished, self._answers))
        return self._head + b',"choices":[],"usage":' + counted + b"}\n\n" + DONE
