"""One request on its way through as many backends as it takes.

A run is attached to a link or waits for one. What it has received so far is kept as token ids, so that
after a loss another group continues the answer (``Generate.resume``) and the client sees a pause.
"""

from __future__ import annotations

import asyncio
import dataclasses
import logging
from collections import deque
from collections.abc import Callable, Sequence

from reconciler.gateway.errors import (
    ApiError,
    internal,
    invalid,
    model_loading,
    model_not_found,
    overloaded,
    prompt_too_long,
    too_large,
)
from reconciler.gateway.events import Answer, Event
from reconciler.gateway.metrics import Timeline
from reconciler.wire.codec import WireError
from reconciler.wire.frames import FRAME_BYTES_MAX
from reconciler.wire.generation import Accepted, Delta, Failed, Finished, Generate, Prefill, ToolCall

from .connection import RankConnection
from .pool import Pool

log = logging.getLogger(__name__)

_RETRY_AFTER_MAX = 30


@dataclasses.dataclass(frozen=True, slots=True)
class _Lost:
    """In the inbox, in order with events: the connection broke here."""


class Run:
    """One request until its ``Finished``. Use as a context manager: leaving it cancels what still runs.

    Never waits: ``ring`` is called whenever it is worth to ask it for ``answers`` and to ``look`` again.
    """

    def __init__(
        self, pool: Pool, model: str, generate: Generate, name: str, ring: Callable[[], None]
    ) -> None:
        self._pool = pool
        self._model = model
        self._generate = generate
        self._name = name
        self._loop = asyncio.get_running_loop()
        self._wake = ring
        self._inbox: deque[Event | _Lost] = deque()
        self._link: RankConnection | None = None
        self._request = ""
        """The id of the current attempt."""
        self._attempts = 0
        self._losses = 0
        self._avoid: dict[RankConnection, float] = {}
        """Backends that failed this request, and the time from which on they may be asked again."""
        self._tokens: list[int] = []
        self._tool_calls = 0
        self._started = False
        self._accepted = False
        """By the current backend."""
        self._last_event_at = 0.0
        self._began = self._loop.time()
        self._deadline = self._began + pool.hold_seconds
        self._abandoned = False
        self._timeline: Timeline | None = None
        """None before it is known that there is such a model."""
        self._finish = "error"
        self.done = False

    def __enter__(self) -> Run:
        self._pool.join(self)
        return self

    def __exit__(self, *_: object) -> None:
        self._detach(cancel=not self.done)
        self._pool.leave(self)
        if self._timeline is not None:
            self._timeline.end(
                "abort" if self._abandoned and not self.done else self._finish, self._loop.time()
            )

    def answers(self) -> Sequence[Answer]:
        """All that has arrived since the last call. Raises ``Fault`` when there is no answer to be had."""
        while self._inbox and not self.done:
            answers = self._take_events()
            if answers:
                return answers
        return ()

    def next_look(self) -> float:
        """Find a backend, or see whether the present one still is one; returns when to do so again.

        Raises ``Fault`` when there is none to be had.
        """
        now = self._loop.time()
        return self._find_connection(now) if self._link is None else self._watch(self._link, now)

    # --- called from callbacks ---------------------------------------------------------------------

    def on_event(self, event: Event) -> None:
        self._inbox.append(event)
        if self._timeline is not None:
            self._timeline.on_event(event, self._loop.time())
        self._wake()

    def on_lost(self) -> None:
        self._inbox.append(_Lost())
        self._wake()

    def abandon(self) -> None:
        """The client has gone."""
        self._abandoned = True

    def wake(self) -> None:
        self._wake()

    # --- attached or waiting -----------------------------------------------------------------------

    def _find_connection(self, now: float) -> float:
        """Send the request to a backend if there is one. Returns when to look again without news."""
        route = self._pool.find(self._model)
        if route is None:
            raise model_not_found(self._model)
        if len(self._generate.prompt_tokens or ()) >= route.context:
            raise prompt_too_long(len(self._generate.prompt_tokens or ()), route.context)
        if self._timeline is None:
            self._timeline = self._pool.metrics.begin(route.model, self._began)
        if self._attempts >= self._pool.timing.attempts_max:
            raise internal(f"given up after {self._attempts} attempts")
        self._avoid = {link: until for link, until in self._avoid.items() if until > now}
        link = self._pool.choose(route, self._avoid)
        if link is not None:
            self._send(link, now)
            return self._watch(link, now)
        if now >= self._deadline:
            raise self._loading_error()
        if not self._pool.hold(self, started=self._attempts > 0):
            raise overloaded("too many requests are waiting for a model already")
        return min([self._deadline, *self._avoid.values()])

    def _send(self, link: RankConnection, now: float) -> None:
        request = f"{self._name}.{self._attempts}"
        try:
            link.submit(
                dataclasses.replace(self._generate, request=request, resume=tuple(self._tokens)), self
            )
        except WireError:
            raise too_large(FRAME_BYTES_MAX) from None
        self._pool.release(self)
        self._link, self._request, self._accepted, self._last_event_at = link, request, False, now
        self._attempts += 1

    def _watch(self, link: RankConnection, now: float) -> float:
        """Leave a backend that is no longer routed to and silent. Returns when to look again."""
        if not link.withdrawn:
            return now + self._pool.timing.withdrawn_silence
        silent_at = max(self._last_event_at, link.last_event_at) + self._pool.timing.withdrawn_silence
        if now < silent_at:
            return silent_at
        log.warning("%s: %s is withdrawn and silent", self._name, link.backend.socket)
        self._detach(cancel=True)
        self.on_lost()
        return now

    def _detach(self, cancel: bool) -> None:
        link, self._link = self._link, None
        if link is not None:
            link.leave(self._request, cancel)

    def _loading_error(self) -> ApiError:
        wait = round(self._pool.hold_seconds)
        return model_loading(self._model, max(1, min(wait, _RETRY_AFTER_MAX)))

    # --- events ------------------------------------------------------------------------------------

    def _take_events(self) -> Sequence[Answer]:
        """What the inbox holds for the client. A failure waits until all before it is delivered."""
        answers: list[Answer] = []
        self._last_event_at = self._loop.time()
        while self._inbox and not self.done:
            event = self._inbox[0]
            ends = isinstance(event, (_Lost, Failed)) or _is_cut(event)
            if ends and answers:
                break
            self._inbox.popleft()
            match event:
                case Delta():
                    self._tokens.extend(event.tokens)
                    self._losses = 0
                    answers.append(event)
                case Accepted() if self._accept():
                    answers.append(event)
                case ToolCall() if event.index >= self._tool_calls:
                    self._tool_calls = event.index + 1
                    answers.append(event)
                case Finished() if not ends:
                    self._detach(cancel=False)
                    self.done, self._finish = True, event.reason
                    answers.append(event)
                case Failed():
                    self._fail(event)
                case Finished() | _Lost():
                    self._count_loss("the group that worked on it was lost")
                case Prefill() | Accepted() | ToolCall():
                    continue
        return answers

    def _accept(self) -> bool:
        """Note that a backend took the request. True for the first one."""
        self._accepted = True
        first = not self._started
        self._started = True
        return first

    def _fail(self, failed: Failed) -> None:
        """Continue elsewhere where that can help, else raise the ``Fault``."""
        link = self._link
        match failed.code:
            case "context_length_exceeded":
                raise invalid(failed.text, failed.parameter or "messages", "context_length_exceeded")
            case "invalid_request":
                raise invalid(failed.text, failed.parameter)
            case "draining":
                if link is not None:
                    link.draining = True
                self._requeue()
            case "overloaded":
                self._postpone(link)
                self._requeue()
                if not self._tokens and not self._has_other():
                    raise overloaded(failed.text)
            case _:
                self._count_loss(failed.text)

    def _has_other(self) -> bool:
        route = self._pool.find(self._model)
        return route is not None and self._pool.may_choose(route, self._avoid)

    def _postpone(self, link: RankConnection | None) -> None:
        if link is not None:
            self._avoid[link] = self._loop.time() + self._pool.timing.retry_same_backend

    def _count_loss(self, reason: str) -> None:
        self._losses += 1
        self._postpone(self._link)
        if self._losses >= self._pool.timing.losses_max:
            self._detach(cancel=False)
            raise internal(f"given up after {self._losses} attempts without a new token: {reason}")
        log.warning(
            "%s: attempt %d ended after %d tokens: %s", self._name, self._attempts, len(self._tokens), reason
        )
        self._requeue()

    def _requeue(self) -> None:
        """Back to waiting. The time to wait starts anew only if the request was being worked on."""
        self._detach(cancel=False)
        self._inbox.clear()
        if self._timeline is not None:
            self._timeline.wait(self._loop.time())
        if self._accepted:
            self._deadline = self._loop.time() + self._pool.hold_seconds
        self._accepted = False


def _is_cut(event: object) -> bool:
    """A rank that ends an answer which nobody asked it to end has not finished it."""
    return isinstance(event, Finished) and event.reason not in ("stop", "length", "tool_calls")
