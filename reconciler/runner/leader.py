"""Rank 0's loop: admit requests, say the step to the others, do it, and turn its tokens into events."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from reconciler.wire.generation import Failed, Finished, Prefill, Sampling
from reconciler.wire.group import Insertion, Step

from .adapter import Read, Token
from .batch import Batch
from .inbox import Inbox, Ticket

PROMPT_TOKENS_PER_STEP = 1_000_000
"""Insertions of one step stop above this, so that its frame stays well below the wire's bound."""

Post = Callable[[Mapping[Any, Sequence[object]]], None]
"""Takes the events of one step, by connection; must not wait."""
Say = Callable[[Step], None]
"""Sends a step to every other rank."""


class Leader:
    """Decides what each step is. Runs on the main thread; sleeps in the inbox while nothing is open."""

    def __init__(self, batch: Batch, batch_max: int, inbox: Inbox, say: Say) -> None:
        self._batch = batch
        self._batch_max = batch_max
        self._inbox = inbox
        self._say = say
        self._waiting: deque[Ticket] = deque()
        self._running: dict[int, Ticket] = {}
        self._remove: list[int] = []
        self._events: dict[Any, list[object]] = {}
        self._ended = 0

    def warm(self, prompt: Sequence[int], tokens_max: int) -> None:
        """One short completion through the same path as every later one, heard by nobody."""
        insert: tuple[Insertion, ...] = (Insertion(tuple(prompt), tokens_max, Sampling(temperature=0.0)),)
        while insert or self._batch.live:
            step = Step(self._batch.next_step, insert=insert)
            self._say(step)
            self._batch.run(step)
            insert = ()

    def serve(self, post: Post) -> None:
        """Answer requests until the inbox has drained. Raises ``RankEnd``."""
        while True:
            orders = self._inbox.take(sleep=not (self._waiting or self._running or self._remove))
            if orders.draining:
                return
            self._waiting.extend(orders.tickets)
            for ticket in orders.cancelled:
                self._cancel(ticket)
            if self._waiting or self._running or self._remove:
                self._step()
            if self._events:
                post(self._events)
                self._events = {}
            if self._ended:
                self._inbox.close(self._ended)
                self._ended = 0

    def _step(self) -> None:
        step = Step(self._batch.next_step, tuple(self._remove), tuple(self._admissions()))
        self._remove.clear()
        self._say(step)
        read, tokens = self._batch.run(step)
        for progress in read:
            self._tell_read(progress)
        for token in tokens:
            self._take(token)

    def _admissions(self) -> list[Insertion]:
        insertions: list[Insertion] = []
        length = 0
        while self._waiting and len(self._running) < self._batch_max and length < PROMPT_TOKENS_PER_STEP:
            ticket = self._waiting.popleft()
            ticket.uid = self._batch.next_uid + len(insertions)
            self._running[ticket.uid] = ticket
            insertions.append(Insertion(ticket.prompt, ticket.tokens_max, ticket.sampling, ticket.position))
            length += len(ticket.prompt)
        return insertions

    def _tell_read(self, read: Read) -> None:
        ticket = self._running.get(read.uid)
        if ticket is not None:
            self._tell(ticket, [Prefill(ticket.answer.request, read.done, read.total)])

    def _take(self, token: Token) -> None:
        ticket = self._running[token.uid]
        ticket.answer.take(token.id)
        if ticket.answer.stopped and not token.ended:
            self._remove.append(token.uid)  # a stop string: only this rank reads text
        if ticket.answer.stopped or token.ended:
            self._end(ticket, "stop" if ticket.answer.stopped else "length")
        else:
            self._tell(ticket, ticket.answer.events())

    def _cancel(self, ticket: Ticket) -> None:
        if ticket.uid is not None and self._running.get(ticket.uid) is ticket:
            self._remove.append(ticket.uid)
            self._end(ticket, "cancelled")
        elif ticket in self._waiting:
            self._waiting.remove(ticket)
            self._end(ticket, "cancelled")

    def _end(self, ticket: Ticket, reason: str) -> None:
        if ticket.uid is not None:
            del self._running[ticket.uid]
        self._ended += 1
        self._tell(ticket, ticket.answer.finish(reason))

    def _tell(self, ticket: Ticket, events: Sequence[object]) -> None:
        if events:
            self._events.setdefault(ticket.connection, []).extend(events)


def is_last(event: object) -> bool:
    """Whether a request has no more events after this one."""
    return isinstance(event, (Finished, Failed))
