"""The loop of a rank whose model is for embeddings: texts in, vectors out. Runs on the main thread.

Many short texts are read together, alike in length so that little of it is padding. Clients take turns by tokens, also
within the texts of one question, so that a few do not wait for another's thousands.
"""

from __future__ import annotations

import base64
import dataclasses
import itertools
from collections.abc import Sequence
from typing import Any, Protocol

from reconciler.runner.decode.batch import known_endings
from reconciler.runner.decode.inbox import Inbox, Ticket
from reconciler.runner.decode.leader import Post
from reconciler.runner.decode.order import Turns
from reconciler.runner.process.progress import ProgressPipe
from reconciler.wire.generation import Delta, Failed, Finished
from reconciler.wire.question import Vector

STEP_TOKENS = 4096
"""Tokens of a step with their padding, or one text; others wait for its end."""
STEP_BYTES = 1 << 19
"""Bytes of the vectors of a step: the connection holds several times as much."""


class Vectors(Protocol):
    """What computes vectors."""

    @property
    def size(self) -> int:
        """Return the numbers of a vector."""

    def vectors(self, texts: Sequence[tuple[int, ...]], dimensions: Sequence[int | None]) -> list[bytes]:
        """Return the vector of each text."""


@dataclasses.dataclass(eq=False)
class _Work:
    """One question."""

    ticket: Ticket
    number: int
    left: list[tuple[int, tuple[int, ...]]]
    """Places and tokens of the texts without a vector, the longest first."""

    @property
    def name(self) -> str:
        return self.ticket.answer.request


class EmbeddingLoop:
    def __init__(self, embedder: Vectors, inbox: Inbox, progress: ProgressPipe) -> None:
        self._embedder = embedder
        self._inbox = inbox
        self._progress = progress
        self._texts_max = max(1, STEP_BYTES // (4 * embedder.size))
        self._numbers = itertools.count()
        self._works: list[_Work] = []
        self._turns = Turns()

    def serve(self, post: Post) -> None:
        """Answer until the inbox has drained. Raises ``RankEnd``."""
        while True:
            orders = self._inbox.collect(sleep=not self._works)
            if orders.draining:
                return
            events: dict[Any, list[object]] = {}
            ended = sum(self._begin(ticket, events) for ticket in orders.tickets)
            ended += sum(self._cancel(ticket, events) for ticket in orders.cancelled)
            if self._works:
                ended += self._step(events)
            post(events)
            self._inbox.close(ended)

    def _begin(self, ticket: Ticket, events: dict[Any, list[object]]) -> int:
        """Take a question, and return how many have ended with that."""
        request = ticket.answer.request
        if ticket.measure is not None:
            failed = Failed(
                request, "invalid_request", "a rank for embeddings is alone: it measures no links"
            )
            events.setdefault(ticket.connection, []).append(failed)
            return 1
        texts = sorted(enumerate(ticket.texts), key=lambda entry: -len(entry[1]))
        self._works.append(_Work(ticket, next(self._numbers), texts))
        return 0

    def _cancel(self, ticket: Ticket, events: dict[Any, list[object]]) -> int:
        """Forget a question, and return how many have ended with that."""
        found = [work for work in self._works if work.ticket is ticket]
        for work in found:
            self._works.remove(work)
            events.setdefault(ticket.connection, []).append(Finished(work.name, "cancelled", 0, 0))
        return len(found)

    def _step(self, events: dict[Any, list[object]]) -> int:
        """Read some texts, and add the events of that. Returns how many questions have ended."""
        chosen = self._choose()
        texts = [tokens for _, _, tokens in chosen]
        self._progress.reading(sum(map(len, texts)))
        with known_endings():
            vectors = self._embedder.vectors(texts, [work.ticket.dimensions for work, _, _ in chosen])
        self._progress.reading(0)
        self._progress.step()
        found: dict[_Work, list[Vector]] = {}
        for (work, place, _), vector in zip(chosen, vectors, strict=True):
            found.setdefault(work, []).append(Vector(place, base64.b64encode(vector).decode()))
        for work, parts in found.items():
            told = events.setdefault(work.ticket.connection, [])
            told.append(Delta(work.name, (), vectors=tuple(parts)))
            if not work.left:
                told.append(Finished(work.name, "stop", sum(map(len, work.ticket.texts)), 0))
                self._works.remove(work)
        return sum(not work.left for work in found)

    def _choose(self) -> list[tuple[_Work, int, tuple[int, ...]]]:
        """Take the texts of the next step out of their questions, as many as there is room for."""
        self._turns.among({work.ticket.client for work in self._works})
        read = self._turns.read
        chosen: list[tuple[_Work, int, tuple[int, ...]]] = []
        width = 0
        for work in sorted(self._works, key=lambda work: (read[work.ticket.client], work.number)):
            while work.left:
                longest = max(width, len(work.left[0][1]))
                if (chosen and longest * (len(chosen) + 1) > STEP_TOKENS) or len(chosen) == self._texts_max:
                    break
                place, tokens = work.left.pop(0)
                chosen.append((work, place, tokens))
                width = longest
                read[work.ticket.client] += len(tokens)
        return chosen
