"""Rank 0's loop: admit requests, say the step to the others, do it, and turn its tokens into events."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from reconciler.runner.model.adapter import Read, Token
from reconciler.runner.process.config import CONTEXT_MAX
from reconciler.wire.generation import Failed, Finished, Measured, Prefill, Sampling
from reconciler.wire.group import Gauging, Insertion, KeepAlive, Step

from .answer import Answer
from .batch import Batch
from .inbox import Inbox, Ticket
from .keep_alive import Pulse

PROMPT_TOKENS_PER_STEP = CONTEXT_MAX
"""All insertions of one step together, so that its frame stays well below the wire's bound."""

Post = Callable[[Mapping[Any, Sequence[object]]], None]
"""Takes the events of one step, by connection; must not wait."""
Say = Callable[[Step | KeepAlive], None]
"""Sends a step to every other rank."""

BUSY = "requests are being answered; measure when there are none, or under load"

log = logging.getLogger("reconciler.runner")


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
        """Decode one short completion on the same path as every later one, and discard it."""
        insert: tuple[Insertion, ...] = (Insertion(tuple(prompt), tokens_max, Sampling(temperature=0.0)),)
        while insert or self._batch.live:
            step = Step(self._batch.next_step, insert=insert)
            self._say(step)
            self._batch.run(step)
            insert = ()

    def serve(self, post: Post, pulse: Pulse | None = None) -> None:
        """Answer requests until the inbox has drained, with the pulse of a group whose links decay. Raises
        ``RankEnd``."""
        while True:
            idle = not (self._waiting or self._running or self._remove)
            orders = self._inbox.collect(sleep=idle, seconds=pulse.seconds if pulse else None)
            if orders.draining:
                return
            if pulse and idle and orders.none:
                with self._inbox.owing():
                    self._say(KeepAlive(self._batch.next_step))
                    pulse.beat()
                continue
            self._waiting.extend(ticket for ticket in orders.tickets if ticket.measure is None)
            self._measure([ticket for ticket in orders.tickets if ticket.measure is not None])
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

    def _measure(self, tickets: Sequence[Ticket]) -> None:
        """Let all ranks measure their speed, one request after the other, in a step that does nothing else."""
        for ticket in tickets:
            measure, request = ticket.measure, ticket.answer.request
            assert measure is not None
            busy = bool(self._running or self._waiting)
            if busy and not measure.under_load:
                self._send(ticket, [Failed(request, "busy", BUSY)])
            else:
                gauging = Gauging(measure.rounds, measure.small_bytes, measure.large_bytes)
                step = Step(self._batch.next_step, gauging=gauging)
                self._say(step)
                self._carry_out(step)
                paces = self._batch.paces
                self._send(ticket, [paces.as_measured(request, gauging) if paces else _unmeasured(request)])
            self._ended += 1

    def _step(self) -> None:
        step = Step(self._batch.next_step, tuple(self._remove), tuple(self._admissions()))
        self._remove.clear()
        self._say(step)
        self._carry_out(step)

    def _carry_out(self, step: Step) -> None:
        read, tokens = self._batch.run(step)
        for progress in read:
            self._report_prefill(progress)
        for token in tokens:
            self._on_token(token)

    def _admissions(self) -> list[Insertion]:
        insertions: list[Insertion] = []
        length = 0
        while self._waiting and len(self._running) < self._batch_max:
            if length + len(self._waiting[0].prompt) > PROMPT_TOKENS_PER_STEP:
                break
            ticket = self._waiting.popleft()
            ticket.uid = self._batch.next_uid + len(insertions)
            self._running[ticket.uid] = ticket
            insertions.append(Insertion(ticket.prompt, ticket.tokens_max, ticket.sampling, ticket.position))
            length += len(ticket.prompt)
        return insertions

    def _report_prefill(self, read: Read) -> None:
        ticket = self._running.get(read.uid)
        if ticket is not None:
            self._send(ticket, [Prefill(ticket.answer.request, read.done, read.total)])

    def _on_token(self, token: Token) -> None:
        ticket = self._running[token.uid]
        try:
            events, over = _events_of(ticket.answer, token)
        except Exception:
            # Tokenizers and parsers come with a model: a failure of one answer does not end the others.
            log.exception("request %s: cannot decode its answer", ticket.answer.request)
            events, over = [_unreadable(ticket.answer.request)], True
        if over and not token.ended:
            self._remove.append(token.uid)  # only this rank reads text
        if over:
            self._end(ticket)
        self._send(ticket, events)

    def _cancel(self, ticket: Ticket) -> None:
        if ticket.uid is not None and self._running.get(ticket.uid) is ticket:
            self._remove.append(ticket.uid)
        elif ticket in self._waiting:
            self._waiting.remove(ticket)
        else:
            return
        self._end(ticket)
        self._send(ticket, ticket.answer.finish("cancelled"))

    def _end(self, ticket: Ticket) -> None:
        if ticket.uid is not None:
            del self._running[ticket.uid]
        self._ended += 1

    def _send(self, ticket: Ticket, events: Sequence[object]) -> None:
        if events:
            self._events.setdefault(ticket.connection, []).extend(events)


def _events_of(answer: Answer, token: Token) -> tuple[Sequence[object], bool]:
    """Return the events of one more token, and whether the answer is over."""
    answer.take(token.id)
    if answer.stopped or token.ended:
        return answer.finish("stop" if answer.stopped else "length"), True
    return answer.events(), False


def _unreadable(request: str) -> Failed:
    # Not ``internal``, which is tried again: the next group's reader would be the same.
    return Failed(request, "invalid_request", "the model's answer cannot be turned into text or tool calls")


def _unmeasured(request: str) -> Failed:
    return Failed(request, "invalid_request", "this rank cannot measure")


def is_last(event: object) -> bool:
    """Return whether a request has no further events."""
    return isinstance(event, (Finished, Failed, Measured))
