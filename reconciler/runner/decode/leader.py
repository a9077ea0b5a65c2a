"""Rank 0's loop: admit requests, send the step to the other ranks, do it, and turn its tokens into events."""

from __future__ import annotations

import dataclasses
import itertools
import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from reconciler.runner.forms.matching import Matcher
from reconciler.runner.model.generator import Read, Token
from reconciler.wire.generation import Failed, Finished, Prefill
from reconciler.wire.group import Gauging, Insertion, KeepAlive, Reading, Step
from reconciler.wire.launch import CONTEXT_MAX
from reconciler.wire.measuring import Measured
from reconciler.wire.sampling import Sampling

from .answer import Answer
from .batch import Batch, Own, Pulse
from .inbox import Inbox, Ticket
from .lanes import Lanes
from .order import Order, together
from .pacing import TOKENS_MIN, Pacing
from .reuse import Reuse

PROMPT_TOKENS_PER_STEP = CONTEXT_MAX
"""All insertions of one step together, so that its frame stays well below the wire's bound."""
SCORED_PER_STEP = 256
"""Tokens of a scored prompt. With a vocabulary of 150,000, their logits take some 150 MB."""

Post = Callable[[Mapping[Any, Sequence[object]]], None]
"""Takes the events of one step, by connection; must not wait."""
Say = Callable[[Step | KeepAlive], None]
"""Sends a step to every other rank."""

BUSY = "requests are being answered; measure when there are none, or under load"

log = logging.getLogger("reconciler.runner")


class Leader:
    """Decides what each step is. Runs on the main thread; sleeps in the inbox while nothing is open."""

    def __init__(
        self, batch: Batch, batch_max: int, inbox: Inbox, say: Say, reuse: Reuse, lanes: Lanes
    ) -> None:
        self._reuse = reuse
        self._lanes = lanes
        self._order = Order()
        self._pacing = Pacing()
        self._numbers = itertools.count()
        self._batch = batch
        self._batch_max = batch_max
        self._inbox = inbox
        self._say = say
        self._waiting: list[Ticket] = []
        self._running: dict[int, Ticket] = {}
        """Those in the batch, by uid."""
        self._remove: list[int] = []
        self._untold: list[tuple[Ticket, Token]] = []
        """Tokens of the last step. Their text is read while the other ranks begin the next step."""
        self._post: Post = _drop_events
        self._events: dict[Any, list[object]] = {}
        self._ended = 0

    def warm(self, prompt: Sequence[int], tokens_max: int) -> None:
        """Decode one short completion on the same path as every later one, and discard it."""
        insertion = Insertion(tuple(prompt), tokens_max, Sampling(temperature=0.0))
        step = Step(self._batch.next_step, insert=(insertion,), read=(Reading((self._batch.next_uid,)),))
        while step.insert or self._batch.live:
            self._say(step)
            self._batch.run(step)
            step = Step(self._batch.next_step)

    def serve(self, post: Post, pulse: Pulse | None = None) -> None:
        """Answer requests until the inbox has drained, with the pulse of a group whose links decay. Raises
        ``RankEnd``."""
        self._post = post
        while True:
            idle = not (self._waiting or self._running or self._remove)
            if idle:
                self._tell()
            orders = self._inbox.collect(sleep=idle, seconds=pulse.seconds if pulse else None)
            if orders.draining:
                return
            if pulse and idle and orders.none:
                with self._inbox.owing():
                    self._say(KeepAlive(self._batch.next_step))
                    pulse.beat()
                continue
            self._wait([ticket for ticket in orders.tickets if ticket.measure is None])
            self._measure([ticket for ticket in orders.tickets if ticket.measure is not None])
            for ticket in orders.cancelled:
                self._cancel(ticket)
            if self._waiting or self._running or self._remove:
                self._step()

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
                self._step(gauging=gauging)
                paces = self._batch.paces
                unmeasured = Failed(request, "invalid_request", "this rank cannot measure")
                self._send(ticket, [paces.as_measured(request, gauging) if paces else unmeasured])
            self._ended += 1

    def _wait(self, tickets: Iterable[Ticket]) -> None:
        for ticket in tickets:
            ticket.number = next(self._numbers)
            self._waiting.append(ticket)

    def _step(self, gauging: Gauging | None = None) -> None:
        for uid in self._lanes.step():
            self._give_way(uid)
        forget, keep = self._reuse.change()  # first, so that new sequences find the entries that are kept now
        insert, readings = ([], []) if gauging else self._readings()
        step = Step(
            self._batch.next_step,
            tuple(self._remove),
            tuple(insert),
            gauging,
            forget,
            keep,
            tuple(readings),
        )
        self._remove.clear()
        self._say(step)
        self._tell()
        began = time.monotonic()
        read, tokens = self._batch.run(step, self._own() if insert else None)
        if gauging is None and (read or tokens):
            amount = sum(part.done - part.before for part in read)
            self._pacing.measured(time.monotonic() - began, amount, bool(tokens))
        for part in read:
            self._on_read(part)
        for token in tokens:
            self._on_token(token)

    def _tell(self) -> None:
        """Read the text of the last step's tokens, and send the new events."""
        untold, self._untold = self._untold, []
        for ticket, token in untold:
            self._read_token(ticket, token)
        if self._events:
            self._post(self._events)
            self._events = {}
        if self._ended:
            self._inbox.close(self._ended)
            self._ended = 0

    def _give_way(self, uid: int) -> None:
        """Take a sequence out of the batch because memory is too small. It continues when there is room."""
        ticket = self._running.pop(uid)
        self._remove.append(uid)
        self._reuse.end(ticket)
        ticket.begin_again()
        self._waiting.append(ticket)

    def _own(self) -> dict[int, Own]:
        return {
            uid: Own(ticket.logprobs, ticket.matcher, ticket.scores) for uid, ticket in self._running.items()
        }

    def _readings(self) -> tuple[list[Insertion], list[Reading]]:
        """Return the sequences that begin with the next step, and the tokens that it reads."""
        running = [ticket for ticket in self._running.values() if ticket.unread]
        if not (running or self._waiting):
            return [], []
        admission = _Admission(self._batch_max - len(self._running))
        left = self._pacing.tokens(self._patience())
        chosen: list[tuple[Ticket, int]] = []
        for ticket in self._order.of([*running, *self._waiting]):
            ticket.passed_over += 1
            if left >= TOKENS_MIN and (ticket.uid is not None or self._admit(ticket, admission)):
                chosen.append((ticket, min(ticket.unread, left)))
                left -= chosen[-1][1]
        readings: list[Reading] = []
        whole: list[Ticket] = []
        for ticket, most in chosen:
            assert ticket.uid is not None
            tokens = min(most, self._reuse.up_to_cut(ticket))
            if ticket.scoring:
                tokens = min(tokens, SCORED_PER_STEP, ticket.unread - 1)
            self._order.read(ticket, tokens)
            if tokens == ticket.unread:
                whole.append(ticket)
            else:
                readings.append(Reading((ticket.uid,), tokens))
        for group in together(whole, self._lanes.go_together):
            uids = tuple(ticket.uid for ticket in group if ticket.uid is not None)
            readings.append(Reading(uids, lane=self._lanes.start(uids)))
        return admission.insertions, readings

    def _patience(self) -> float | None:
        """Return how long the answers that are being decoded can wait; None if there are none."""
        answers = [ticket.max_stall_seconds for ticket in self._running.values() if not ticket.unread]
        return min(answers, default=None)

    def _admit(self, ticket: Ticket, admission: _Admission) -> bool:
        """Let a request begin, if there is room; others after it wait for it where there is too little memory."""
        if admission.closed or admission.places <= 0 or self._reuse.is_worth_waiting(ticket):
            return False
        if admission.length and admission.length + len(ticket.prompt) > PROMPT_TOKENS_PER_STEP:
            return False
        if not self._lanes.have_room(len(ticket.prompt)):
            admission.closed = True
            return False
        self._waiting.remove(ticket)
        ticket.uid = self._batch.next_uid + len(admission.insertions)
        self._running[ticket.uid] = ticket
        self._lanes.enter(ticket.uid, len(ticket.prompt))
        admission.add(self._reuse.begin(ticket))
        return True

    def _on_read(self, part: Read) -> None:
        ticket = self._running[part.uid]
        self._reuse.read(ticket, part.done + ticket.reused)
        self._send(ticket, [Prefill(ticket.answer.request, ticket.read, len(ticket.prompt))])
        if part.logprobs:
            ticket.scored = part.done + 1  # a sequence that has given way is scored from the beginning again
            self._send(ticket, [ticket.answer.scored(part.before + 1, part.logprobs)])
        if not (ticket.tokens_max or ticket.scoring):
            self._send(ticket, ticket.answer.finish("length"))
            self._drop(ticket)

    def _on_token(self, token: Token) -> None:
        ticket = self._running.get(token.uid)
        if ticket is None:  # its text has ended it since this step was said
            if token.ended:
                self._remove.remove(token.uid)
            return
        ticket.said.append(token.id)
        if token.ended:
            self._end(ticket)
        self._untold.append((ticket, token))

    def _read_token(self, ticket: Ticket, token: Token) -> None:
        if not (token.ended or self._is_open(ticket)):
            return  # it was cancelled
        try:
            events, over = _events_of(ticket.answer, token)
            if ticket.matcher and ticket.matcher.failure and not over:
                events, over = [*events, _unheld(ticket.answer.request, ticket.matcher)], True
        except Exception:
            # Tokenizers and parsers come with a model: a failure of one answer does not end the others.
            log.exception("request %s: cannot decode its answer", ticket.answer.request)
            events, over = [_unreadable(ticket.answer.request)], True
        if over and not token.ended:
            self._drop(ticket)  # only this rank reads text
        self._send(ticket, events)

    def _is_open(self, ticket: Ticket) -> bool:
        return self._is_running(ticket) or ticket in self._waiting

    def _is_running(self, ticket: Ticket) -> bool:
        return ticket.uid is not None and self._running.get(ticket.uid) is ticket

    def _cancel(self, ticket: Ticket) -> None:
        if self._is_open(ticket):
            self._drop(ticket)
            self._send(ticket, ticket.answer.finish("cancelled"))

    def _drop(self, ticket: Ticket) -> None:
        """End a request that the batch has not ended."""
        if self._is_running(ticket):
            assert ticket.uid is not None
            self._remove.append(ticket.uid)
        else:
            self._waiting.remove(ticket)
        self._end(ticket)

    def _end(self, ticket: Ticket) -> None:
        if ticket.uid is not None:
            del self._running[ticket.uid]
            self._lanes.leave(ticket.uid)
            self._reuse.end(ticket)
        self._ended += 1

    def _send(self, ticket: Ticket, events: Sequence[object]) -> None:
        if events:
            events = [self._told_of_cache(event, ticket) for event in events]
            self._events.setdefault(ticket.connection, []).extend(events)

    def _told_of_cache(self, event: object, ticket: Ticket) -> object:
        if not isinstance(event, Finished):
            return event
        cached = min(ticket.cached, event.prompt_tokens)
        return dataclasses.replace(event, cached_tokens=cached, prefix_cache=self._reuse.kept)


@dataclasses.dataclass
class _Admission:
    """The room that one step still has for new sequences."""

    places: int
    length: int = 0
    """Their tokens in the step so far."""
    closed: bool = False
    """A sequence waits for memory."""
    insertions: list[Insertion] = dataclasses.field(default_factory=list)

    def add(self, insertion: Insertion) -> None:
        self.insertions.append(insertion)
        self.places -= 1
        self.length += _length(insertion)


def _length(insertion: Insertion) -> int:
    seen = insertion.seen
    return len(insertion.prompt) + (len(seen.prompt) + len(seen.answer) if seen else 0)


def _events_of(answer: Answer, token: Token) -> tuple[Sequence[object], bool]:
    """Return the events of one more token, and whether the answer is over."""
    answer.take(token.id, token.logprobs)
    if answer.stopped or token.ended:
        return answer.finish("stop" if answer.stopped else "length"), True
    return answer.events(), False


def _unreadable(request: str) -> Failed:
    # Not ``internal``, which is tried again: the next group's reader would be the same.
    return Failed(request, "invalid_request", "the model's answer cannot be turned into text or tool calls")


def _unheld(request: str, matcher: Matcher) -> Failed:
    # Not ``internal``: the same form would fail in the next group as well.
    text = f"the answer cannot be held to its form any longer: {matcher.failure}"
    return Failed(request, "invalid_request", text, matcher.path)


def _drop_events(events: Mapping[Any, Sequence[object]]) -> None:
    """Nobody has asked for them yet."""


def is_last(event: object) -> bool:
    """Return whether a request has no further events."""
    return isinstance(event, (Finished, Failed, Measured))
