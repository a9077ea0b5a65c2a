"""Server-sent events as OpenAI writes them. Pure."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from reconciler.gateway.errors import ApiError
from reconciler.gateway.events import Part, Piece

from .errors import error_body

DONE = b"data: [DONE]\n\n"


class EventStream(ABC):
    """An answer as server-sent events."""

    content_type = b"text/event-stream; charset=utf-8"

    def encode(self, pieces: Sequence[Piece]) -> bytes:
        """Return all of ``pieces``, for one write."""
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
