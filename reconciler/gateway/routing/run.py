"""One answer of a request, from as many backends as it takes.

``progress`` decides; a ``Run`` sends, wakes, counts and asks the pool. It keeps the token ids so far, so that after a
loss another group continues the answer (``Generate.resume``) and the client sees a pause.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence

from reconciler.gateway.errors import model_not_found, overloaded, prompt_too_long, too_large
from reconciler.gateway.events import Answer, Event
from reconciler.gateway.keys.usage import Usage
from reconciler.gateway.metrics import Timeline
from reconciler.wire.codec import WireError
from reconciler.wire.frames import FRAME_BYTES_MAX
from reconciler.wire.generation import Accepted, Backend, Delta, Failed, Finished, Generate, Route

from .affinity import Beginnings, beginnings
from .connection import RankConnection, key_of
from .defaults import settled, with_defaults
from .fairness import Turn, queue_of
from .pool import Pool
from .progress import (
    Attempt,
    Decision,
    Deliver,
    Done,
    Fail,
    Hold,
    Ignore,
    Lost,
    Progress,
    Requeue,
    Send,
    begin,
    postponed,
    seek,
    silent_at,
    step,
)
from .suspicion import Suspicion

log = logging.getLogger(__name__)


class Run:
    """One request until its ``Finished``. Use as a context manager: leaving it cancels the running attempt.

    Never waits: ``wake`` is called whenever ``answers`` or ``next_look`` may have something new.
    """

    def __init__(
        self,
        pool: Pool,
        model: str,
        generate: Generate,
        name: str,
        wake: Callable[[], None],
        client: str = "",
        request: str = "",
        session: str = "",
    ) -> None:
        """``name`` is unique; ``request`` is the client's id for it, ``session`` the client's name for requests that
        belong together."""
        self._pool = pool
        self._model = model
        self._generate = generate
        self._name = name
        self.wake = wake
        """Requests a call of ``next_look`` soon."""
        self.take: Callable[[Sequence[Delta]], bool] = lambda _: False
        """Called with further text if all text before it was taken. ``answers`` does not return text that this
        takes."""
        self._client = client
        self._session = session
        self._begins: Beginnings = ()
        """Empty while there is one group at most."""
        self._loop = asyncio.get_running_loop()
        self._began = self._loop.time()
        self._decided: Progress[RankConnection] = Progress(self._began + pool.hold_seconds)
        self._taken: list[int] | None = None
        """Tokens that ``take`` has taken and that ``_decided`` does not have yet; None if there are none."""
        self._attempt: Attempt[RankConnection] | None = None
        self._inbox: deque[Event | Lost] = deque()
        """Events of the attempt, in the order in which they came."""
        self._kept: list[Answer] = []
        """Parts from before the request gave way, which ``answers`` returns first."""
        self._abandoned = False
        self._prompt_tokens = 0
        self._finished: Finished | None = None
        """The last event of the attempt, once it has come."""
        self.suspicion = Suspicion(pool, generate, name, request or name)
        self.timeline: Timeline | None = None
        """The measurements; None before the model is known to exist."""
        self.groups: list[tuple[int, int]] = []
        """Replica and epoch of each group that it was sent to."""
        self._turn: Turn | None = None
        """None before a group could take the request."""

    @property
    def _progress(self) -> Progress[RankConnection]:
        if self._taken is not None:
            self._decided = self._decided.after(tuple(self._taken))
            self._taken = None
        return self._decided

    @_progress.setter
    def _progress(self, progress: Progress[RankConnection]) -> None:
        self._decided = progress

    @property
    def end(self) -> str:
        """Return its end: a finish reason, ``abort`` for a client that has gone, or ``error``."""
        return self._progress.finish or ("abort" if self._abandoned else "error")

    @property
    def backend(self) -> Backend | None:
        """Return the group that works on it; None while none does."""
        return self._attempt.connection.backend if self._attempt is not None else None

    @property
    def done(self) -> bool:
        """Return whether ``answers`` has returned the end of the answer."""
        return bool(self._decided.finish)

    def __enter__(self) -> Run:
        self._pool.join(self)
        return self

    def __exit__(self, *_: object) -> None:
        self._detach(cancel=True)
        self._pool.leave(self)
        self.suspicion.left()
        if self.timeline is not None:
            self.timeline.end(self.end, self._loop.time())
        self._turn, self.wake, self.take = None, lambda: None, lambda _: False  # all lead back to it

    def usage(self) -> Usage:
        """Return the tokens so far, including those that the client does not have yet. A question without computation
        has none."""
        if not self._generate.computes:
            return Usage()
        if self._finished is not None:
            finished = self._finished
            return Usage(finished.prompt_tokens, finished.completion_tokens, finished.cached_tokens)
        unread = sum(len(event.tokens) for event in self._inbox if isinstance(event, Delta))
        return Usage(self._prompt_tokens, self.tokens + unread)

    def answers(self) -> Sequence[Answer]:
        """Return all parts since the last call. Raises ``ApiError`` if the request cannot be answered.

        Parts from before a failure are returned first; the next call raises the failure.
        """
        now, limits = self._loop.time(), self._pool.limits()
        answers, self._kept = self._kept, []
        while self._inbox and self._attempt is not None:
            progress, attempt, decision = step(self._progress, self._attempt, self._inbox[0], now, limits)
            if answers and isinstance(decision, Requeue | Fail):
                break
            self._inbox.popleft()
            self._carry_out(progress, attempt, decision, now)
            if isinstance(decision, Deliver | Done):
                answers.append(decision.answer)
        return answers

    def next_look(self) -> float:
        """Find a backend, or check that the present one still exists. Returns the time of the next look.

        Raises ``ApiError`` if the request cannot be answered.
        """
        now = self._loop.time()
        return self._find_connection(now) if self._attempt is None else self._watch(self._attempt, now)

    # --- called from callbacks ---------------------------------------------------------------------

    def on_events(self, events: Sequence[Event], now: float) -> None:
        """Take events of the attempt. All events other than text are kept until ``answers`` is called."""
        timeline, suspicion = self.timeline, self.suspicion
        deltas: list[Delta] = []
        for event in events:
            if type(event) is Delta:
                deltas.append(event)
                tokens = len(event.tokens)
                suspicion.on_tokens(tokens)
                if timeline is not None:
                    timeline.on_tokens(tokens, now)
                continue
            self._note(event)
            suspicion.on_event(event)
            if timeline is not None:
                timeline.on_event(event, now)
        if len(deltas) < len(events) or self._inbox or self._kept or not self.take(deltas):
            self._inbox.extend(events)
            self.wake()
            return
        taken = self._taken = self._taken or []
        for delta in deltas:
            taken += delta.tokens

    def on_lost(self) -> None:
        """Keep the end of the connection until ``answers`` is called."""
        self._note_death()
        self._inbox.append(Lost())
        if self._turn is not None:
            self._pool.turns.leave(self._turn)
        self.wake()

    def abandon(self) -> None:
        self._abandoned = True

    # --- turns -------------------------------------------------------------------------------------

    @property
    def tokens(self) -> int:
        return self._progress.tokens.count

    def read(self, unread: bool) -> None:
        """Note whether the client reads its answer."""
        if self._turn is not None:
            self._pool.turns.read(self._turn, unread)

    def give_way(self) -> None:
        """Stop the group for another request. A request whose end has come has no place to give."""
        now = self._loop.time()
        self._kept = list(self.answers())
        self._detach(cancel=True)
        self._renew(now)
        if self.timeline is not None:
            self.timeline.give_way(now)
        self.wake()

    def _note(self, event: Event) -> None:
        if isinstance(event, Accepted):
            self._generate = settled(self._generate, event)
            self._prompt_tokens = len(event.prompt_tokens)
            if self._turn is not None:
                self._turn.prompt = self._prompt_tokens
        elif isinstance(event, Finished | Failed):
            self._finished = event if isinstance(event, Finished) else self._finished
            if self._turn is not None:  # its place is free, whether or not the client has read everything
                self._pool.turns.leave(self._turn)

    def _waits_until(self, route: Route, connection: RankConnection | None, now: float) -> float | None:
        """Take a place in the batch of a group. Returns None, or the time of the next look if others go first."""
        queue, places = queue_of(self._generate, route)
        if self._turn is None:
            self._turn = self._pool.turns.turn(queue, self._client, self._generate.tokens_max, self)
        if connection is None:
            self._pool.turns.leave(self._turn)
            return None
        wait = self._pool.turns.take(self._turn, (queue, connection), places)
        if wait is None:
            return None
        self._pool.release(self)
        self._renew(now)
        return now + wait

    def _renew(self, now: float) -> None:
        """Renew the deadline: there is a group, but others go first."""
        self._progress = self._progress._replace(deadline=now + self._pool.hold_seconds)

    # --- without an attempt ------------------------------------------------------------------------

    def _find_connection(self, now: float) -> float:
        """Send the request to a backend if there is one. Returns the time of the next look if there is no news."""
        route = self._route()
        if self._generate.computes:
            self._look_at(route)
        connection = self._pool.choose(route, self._progress.avoided(now), self._begins)
        turn = self.suspicion.wait(route.model, connection is not None, now)
        if turn is not None:
            if self._turn is not None:
                self._pool.turns.leave(self._turn)  # those behind it need not wait for its trial
            self._hold()
            self._progress = postponed(self._progress, turn, self._pool.limits())
            return turn
        until = self._waits_until(route, connection, now)
        if until is not None:
            return until
        match seek(self._progress, connection, self._model, now, self._pool.limits(route)):
            case Fail(error):
                raise error
            case Hold(until):
                self._hold()
                return until
            case Send(chosen):
                self._generate = with_defaults(self._generate, route)
                return self._watch(self._send(chosen, now), now)

    def _look_at(self, route: Route) -> None:
        """Begin to measure the request, and compute its beginnings if several groups may have read them."""
        if self.timeline is None:
            self.timeline = self._pool.metrics.begin(route.model, self._began)
        if len(route.backends) > 1 and not self._begins:
            self._begins = beginnings(route.model, self._generate, self._session)

    def _hold(self) -> None:
        """Wait for changes. Raises ``ApiError`` if too many wait already."""
        if not self._pool.hold(self, started=self._progress.attempts > 0):
            raise overloaded("too many requests are waiting for a model already")

    def _route(self) -> Route:
        """Return the model's route. Raises ``ApiError`` if it cannot take the request."""
        route = self._pool.find(self._model)
        if route is None:
            raise model_not_found(self._model)
        tokens = len(self._generate.prompt_tokens or ())
        if tokens >= route.context > 0 and self._generate.question is None:
            raise prompt_too_long(tokens, route.context)
        return route

    def _send(self, connection: RankConnection, now: float) -> Attempt[RankConnection]:
        progress, attempt = begin(self._progress, connection, self._name, now)
        resume = progress.tokens.ids()
        try:
            client = self._pool.pseudonym(self._client)
            connection.submit(self._generate, self, request=attempt.request, resume=resume, client=client)
        except WireError:
            raise too_large(FRAME_BYTES_MAX) from None
        self._pool.release(self)
        self._pool.affinity.note(self._begins, key_of(connection.backend))
        self._progress, self._attempt = progress, attempt
        self.groups.append((connection.backend.replica, connection.backend.epoch))
        self.suspicion.sent(attempt.request, now)
        return attempt

    # --- with an attempt ---------------------------------------------------------------------------

    def _watch(self, attempt: Attempt[RankConnection], now: float) -> float:
        """Leave a silent backend without a route. Returns the time of the next look."""
        connection, limits = attempt.connection, self._pool.limits()
        if not connection.withdrawn:
            return now + limits.timing.withdrawn_silence
        until = silent_at(attempt, connection.last_event_at, limits)
        if now < until:
            return until
        log.warning("%s: %s is withdrawn and silent", self._name, connection.backend.socket)
        self._note_death()
        self._detach(cancel=True)
        self._carry_out(*step(self._progress, attempt, Lost(), now, limits), now)
        return now

    def _carry_out(
        self,
        progress: Progress[RankConnection],
        attempt: Attempt[RankConnection] | None,
        decision: Decision,
        now: float,
    ) -> None:
        """Carry out a decision. Raises ``ApiError`` if it is a failure."""
        self._progress = progress
        match decision:
            case Deliver() | Ignore():
                self._attempt = attempt
            case Done():
                self._detach(cancel=False)
            case Requeue():
                self._requeue(decision, now)
            case Fail(error):
                self._detach(cancel=False)
                raise error

    def _requeue(self, decision: Requeue, now: float) -> None:
        """Leave the backend and wait for another."""
        if decision.loss:
            counts = (self._progress.attempts, self._progress.tokens.count)
            log.warning("%s: attempt %d ended after %d tokens: %s", self._name, *counts, decision.loss)
        if decision.draining and self._attempt is not None:
            self._attempt.connection.draining = True
        self._detach(cancel=False)
        self._inbox.clear()
        self._finished = None
        if self.timeline is not None:
            self.timeline.wait(now)
        route = self._pool.find(self._model)
        other = route is not None and self._pool.may_choose(route, self._progress.avoided(now))
        if decision.unless_alone is not None and not other:
            raise decision.unless_alone

    def _detach(self, cancel: bool) -> None:
        attempt, self._attempt = self._attempt, None
        if self._turn is not None:
            self._pool.turns.leave(self._turn)
        if attempt is not None:
            attempt.connection.leave(attempt.request, cancel)
            self.suspicion.ended(self.done)

    def _note_death(self) -> None:
        if self._attempt is not None:
            self.suspicion.died(self._attempt.connection.backend, self._loop.time())
