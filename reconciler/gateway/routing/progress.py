"""The state of one request, and the decision after each event. Pure: no clock, no socket, no log.

A request goes through attempts. ``seek`` decides while it has none, ``begin`` starts one, and ``step`` decides after
each of its events. ``Run`` carries the decisions out.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Generic, NamedTuple, TypeAlias, TypeVar

from reconciler.gateway.errors import (
    ApiError,
    internal,
    invalid,
    model_loading,
    model_refused,
    model_waiting,
    older_group,
    overloaded,
)
from reconciler.gateway.events import Event
from reconciler.wire.generation import Accepted, Delta, Failed, Finished, Prefill, Scored, ToolCall

from .timeouts import Timing

RETRY_AFTER_MAX = 30
"""Seconds. A client that retries soon finds a new group sooner than one that waits long."""
_FINISHED = ("stop", "length", "tool_calls")
"""For any other reason, the answer is not finished."""

C = TypeVar("C", bound=Hashable)
"""A connection to a backend, here only as a name."""


@dataclass(frozen=True, slots=True)
class Limits:
    """The bounds that decisions depend on."""

    timing: Timing
    hold_seconds: float
    """The longest time that a request waits for a group."""
    attempt_in: float | None = None
    """The seconds until the next attempt to form a group; None if that is not known."""
    refused: str = ""
    """``Route.refused``."""


@dataclass(frozen=True, slots=True, eq=False)
class Tokens:
    """The token ids of an answer. The time to add some does not depend on the number so far."""

    count: int = 0
    _last: tuple[int, ...] = ()
    _before: Tokens | None = field(default=None, repr=False)

    def plus(self, more: tuple[int, ...]) -> Tokens:
        return Tokens(self.count + len(more), more, self) if more else self

    def ids(self) -> tuple[int, ...]:
        parts: list[tuple[int, ...]] = []
        tokens: Tokens | None = self
        while tokens is not None:
            parts.append(tokens._last)
            tokens = tokens._before
        return tuple(token for part in reversed(parts) for token in part)


@dataclass(frozen=True, slots=True)
class Attempt(Generic[C]):
    """One backend that works on the request."""

    connection: C
    request: str
    """The id of the request on this connection."""
    last_event_at: float
    """The time when the request was sent, or its last event was read."""
    accepted: bool = False


class Progress(NamedTuple, Generic[C]):
    """The result of all attempts so far. Times are in seconds of one monotonic clock.

    A changed one is made for every token. ``dataclasses.replace`` would take several times as long as ``_replace``.
    """

    deadline: float
    """The time when the request is given up unless a backend works on it."""
    started: bool = False
    """True once a backend has accepted the request, and the client knows."""
    tokens: Tokens = Tokens()
    tool_calls: int = 0
    losses: int = 0
    """Attempts since the last new token that ended because of the backend."""
    attempts: int = 0
    avoid: Mapping[C, float] = MappingProxyType({})
    """Backends that failed this request, with the times when they may be tried again."""
    finish: str = ""
    """The reason of ``Finished``; empty while the answer continues."""

    def after(self, tokens: tuple[int, ...]) -> Progress[C]:
        """Return the progress after further text with its tokens."""
        return self._replace(tokens=self.tokens.plus(tokens), losses=0)

    def avoided(self, now: float) -> Mapping[C, float]:
        """Return the backends that may not be tried yet."""
        if not self.avoid:
            return self.avoid
        return {connection: until for connection, until in self.avoid.items() if until > now}


@dataclass(frozen=True, slots=True)
class Lost:
    """An event that is not of the wire: the connection broke, or the backend was silent for too long."""


# --- decisions ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Deliver:
    """Hand the answer to the client."""

    answer: Accepted | Scored | Delta | ToolCall


@dataclass(frozen=True, slots=True)
class Done:
    """Hand the end of the answer to the client; the attempt is over."""

    answer: Finished


@dataclass(frozen=True, slots=True)
class Ignore:
    """Send the client nothing."""


@dataclass(frozen=True, slots=True)
class Requeue:
    """The attempt is over. Wait for another backend."""

    loss: str = ""
    """The reason that the backend did not finish the answer; empty if it properly refused the request."""
    draining: bool = False
    """The backend takes no new requests."""
    unless_alone: ApiError | None = None
    """Fail with this error if no other backend may take the request."""


@dataclass(frozen=True, slots=True)
class Fail:
    """The attempt is over, and there is no answer."""

    error: ApiError


@dataclass(frozen=True, slots=True)
class Send(Generic[C]):
    """Begin an attempt."""

    connection: C


@dataclass(frozen=True, slots=True)
class Hold:
    """Wait for a backend, and look again by ``until``."""

    until: float


Decision: TypeAlias = Deliver | Done | Ignore | Requeue | Fail
Next: TypeAlias = tuple[Progress[C], Attempt[C] | None, Decision]
"""The attempt is ``None`` after ``Done``, ``Requeue`` and ``Fail``, and only then."""


# --- while no backend works on the request ------------------------------------------------------------


def seek(
    progress: Progress[C], connection: C | None, model: str, now: float, limits: Limits
) -> Send[C] | Hold | Fail:
    """Decide the next step without an attempt. ``connection`` is that of a backend that can take the request now."""
    if progress.attempts >= limits.timing.attempts_max:
        return Fail(internal(f"given up after {progress.attempts} attempts"))
    if connection is not None:
        return Send(connection)
    if limits.attempt_in is not None and now + limits.attempt_in > progress.deadline:
        return Fail(model_waiting(model, max(1, math.ceil(limits.attempt_in))))
    if now >= progress.deadline:
        later = max(1, min(round(limits.hold_seconds), RETRY_AFTER_MAX))
        return Fail(
            model_refused(model, limits.refused, later) if limits.refused else model_loading(model, later)
        )
    return Hold(min([progress.deadline, *progress.avoided(now).values()]))


def postponed(progress: Progress[C], until: float, limits: Limits) -> Progress[C]:
    """Return the progress of a request that waits although a backend could take it: such a wait does not count."""
    return progress._replace(deadline=max(progress.deadline, until + limits.hold_seconds))


def begin(progress: Progress[C], connection: C, name: str, now: float) -> tuple[Progress[C], Attempt[C]]:
    """Start the next attempt. ``name`` is the request's; each attempt adds its number to it."""
    attempt = Attempt(connection, f"{name}.{progress.attempts}", now)
    return progress._replace(attempts=progress.attempts + 1), attempt


# --- while a backend works on it ----------------------------------------------------------------------


def silent_at(attempt: Attempt[C], connection_last_event_at: float, limits: Limits) -> float:
    """Return the time when a backend without a route counts as lost.

    A backend that works on other requests is not silent: this request has to wait for its turn.
    """
    return max(attempt.last_event_at, connection_last_event_at) + limits.timing.withdrawn_silence


def step(
    progress: Progress[C], attempt: Attempt[C], event: Event | Lost, now: float, limits: Limits
) -> Next[C]:
    """Decide the next step after one event of an attempt.

    Tokens are delivered in the order in which they come, and a resumed attempt begins after the last one, so that none
    comes twice. A resumed attempt repeats earlier tool calls; the index separates new calls from old ones.
    """
    accepted = attempt.accepted or isinstance(event, Accepted)
    attempt = Attempt(attempt.connection, attempt.request, now, accepted)
    match event:
        case Delta():
            return progress.after(event.tokens), attempt, Deliver(event)
        case Scored():
            return progress, attempt, Deliver(event)
        case Accepted():
            return progress._replace(started=True), attempt, Ignore() if progress.started else Deliver(event)
        case ToolCall() if event.index >= progress.tool_calls:
            return progress._replace(tool_calls=event.index + 1), attempt, Deliver(event)
        case Prefill() | ToolCall():
            return progress, attempt, Ignore()
        case Finished() if event.reason in _FINISHED:
            how = "repetition" if event.repeated else event.reason
            return progress._replace(finish=how), None, Done(event)
        case Failed():
            return _refused(progress, attempt, event, now, limits)
        case Finished() | Lost():
            return _lost(progress, attempt, "the group that worked on it was lost", now, limits)


def _refused(
    progress: Progress[C], attempt: Attempt[C], failed: Failed, now: float, limits: Limits
) -> Next[C]:
    """Try another backend if that can help."""
    match failed.code:
        case "context_length_exceeded":
            parameter = failed.parameter or "messages"
            return progress, None, Fail(invalid(failed.text, parameter, "context_length_exceeded"))
        case "invalid_request" if failed.parameter == "tokens_max":
            # Only a rank that knows no questions refuses this: clients cannot ask for less than one token.
            waiting = _avoiding(_waiting(progress, attempt, now, limits), attempt, now, limits)
            return waiting, None, Requeue(unless_alone=older_group())
        case "invalid_request":
            return progress, None, Fail(invalid(failed.text, failed.parameter))
        case "draining":
            return _waiting(progress, attempt, now, limits), None, Requeue(draining=True)
        case "overloaded":
            waiting = _avoiding(_waiting(progress, attempt, now, limits), attempt, now, limits)
            # an answer that has begun waits for room: its client has already seen a part of it
            alone = None if progress.tokens.count else overloaded(failed.text)
            return waiting, None, Requeue(unless_alone=alone)
        case _:
            return _lost(progress, attempt, failed.text, now, limits)


def _lost(progress: Progress[C], attempt: Attempt[C], reason: str, now: float, limits: Limits) -> Next[C]:
    """Count a loss: a request that ends every group that takes it is given up."""
    progress = progress._replace(losses=progress.losses + 1)
    if progress.losses >= limits.timing.losses_max:
        text = f"given up after {progress.losses} attempts without a new token: {reason}"
        return progress, None, Fail(internal(text))
    waiting = _avoiding(_waiting(progress, attempt, now, limits), attempt, now, limits)
    return waiting, None, Requeue(loss=reason)


def _waiting(progress: Progress[C], attempt: Attempt[C], now: float, limits: Limits) -> Progress[C]:
    """Renew the deadline, but only if the backend had accepted the request."""
    return progress._replace(deadline=now + limits.hold_seconds) if attempt.accepted else progress


def _avoiding(progress: Progress[C], attempt: Attempt[C], now: float, limits: Limits) -> Progress[C]:
    until = now + limits.timing.retry_same_backend
    return progress._replace(avoid={**progress.avoided(now), attempt.connection: until})
