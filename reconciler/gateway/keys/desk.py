"""Lets a key's requests in, settles them when they end, and ends those of keys that are no longer good."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from types import TracebackType
from typing import Protocol

from reconciler.gateway.errors import ApiError, daily_budget_used, rate_limited
from reconciler.gateway.figures import Figures
from reconciler.wire.generation import Generate
from reconciler.wire.keys import AccessKey, KeyLimits, KeyUsage

from .caller import Caller, KeyRing
from .estimate import estimate
from .ledger import Grant, Ledger, Limit, MemoryLedger, Moment, Refusal
from .usage import Book, Usage

LOOKS_SECONDS = 1.0
"""The interval at which the secrets of running requests are checked: they may have expired."""


class Metered(Protocol):
    """A request of a key while it runs."""

    def usage(self, answers: int) -> Usage:
        """Return its tokens so far. Every ``answers`` choices have the same prompt."""

    def end(self, error: ApiError) -> None:
        """End it with an error."""


class Ticket:
    """One request of a key. Use as a context manager: leaving it settles the request's use."""

    __slots__ = ("_answers", "_desk", "_metered", "caller", "figures", "grant")

    def __init__(
        self, desk: Desk, caller: Caller, grant: Grant | None, metered: Metered, answers: int
    ) -> None:
        self._desk = desk
        self._metered = metered
        self._answers = answers
        self.grant = grant
        self.caller = caller
        self.figures = grant.figures if grant is not None else Figures()
        """The rest of the key's limits."""

    def __enter__(self) -> Ticket:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        if self.grant is None:
            return
        usage = self.usage()
        never_began = not usage.total and isinstance(error, ApiError) and error.status >= 500
        self._desk.close(self, self.grant, usage, never_began)

    def usage(self) -> Usage:
        return self._metered.usage(self._answers)

    def end(self, error: ApiError) -> None:
        self._metered.end(error)


class Desk:
    """Lets requests of keys in. ``wall`` returns seconds since the Unix epoch, ``monotonic`` those of a clock that only
    grows."""

    def __init__(self, wall: Callable[[], float], monotonic: Callable[[], float]) -> None:
        self._wall = wall
        self._monotonic = monotonic
        self._open: dict[Ticket, None] = {}
        self._looked_at = 0.0
        self.book = Book()
        self.ledger: Ledger = MemoryLedger()

    async def admit(
        self, caller: Caller, choices: Sequence[Generate], answers: int, metered: Metered
    ) -> Ticket:
        """Let a request in. Raises ``ApiError`` (429) if its key has reached a limit."""
        key = caller.key
        if key is None:
            return Ticket(self, caller, None, metered, answers)
        limits = key.limits
        counts_tokens = limits.tokens_per_minute is not None or limits.tokens_per_day is not None
        tokens = estimate(choices, answers).within(limits) if counts_tokens else 0
        verdict = await self.ledger.reserve(key.name, limits, tokens, self.now())
        if isinstance(verdict, Refusal):
            self.book.refused(key.name, verdict.limit, self._wall())
            raise _refusal(key, verdict, tokens)
        self.book.began(key.name, self._wall())
        ticket = Ticket(self, caller, verdict, metered, answers)
        self._open[ticket] = None
        return ticket

    def seen(self, caller: Caller) -> None:
        """Note that a key was used for a request that costs nothing."""
        if caller.key is not None:
            self.book.seen(caller.key.name, self._wall())

    def close(self, ticket: Ticket, grant: Grant, usage: Usage, never_began: bool) -> None:
        """Settle the use of a request. One that ``never_began`` through no fault of its client does not count."""
        self._open.pop(ticket, None)
        name = ticket.caller.key_name
        if never_began:
            self.ledger.release(name, grant, self.now())
            self.book.never_began(name, self._wall())
        else:
            self.ledger.settle(name, grant, usage.total, self.now())
            self.book.ended(name, usage, self._wall())

    @property
    def busy(self) -> bool:
        return bool(self._open)

    def follow(self, ring: KeyRing | None) -> None:
        """Use the keys of ``ring``: forget the use of removed keys, and end requests that are refused now."""
        if ring is None:
            return
        names = frozenset(ring.keys)
        self.ledger.keep(names)
        self.book.keep(names)
        self._end_refused(ring)

    def look(self, ring: KeyRing | None) -> None:
        """End requests whose secrets are no longer good. It is called often, and acts once a second."""
        now = self._monotonic()
        if ring is not None and now - self._looked_at >= LOOKS_SECONDS:
            self._looked_at = now
            self._end_refused(ring)

    def add(self, used: KeyUsage, ended: int = 0, prompt: int = 0, completion: int = 0) -> None:
        """Count what a key has used elsewhere, or before: of a day, and since the process began."""
        self.book.add(used, ended, prompt, completion)
        self.ledger.add(used.name, used.day, used.tokens)

    def snapshot(self) -> tuple[KeyUsage, ...]:
        """Return the day's counts, also of requests that still run: a gateway that is killed does not settle them."""
        running: Counter[str] = Counter()
        for ticket in self._open:
            running[ticket.caller.key_name] += ticket.usage().total
        return tuple(replace(each, tokens=each.tokens + running[each.name]) for each in self.book.snapshot())

    def _end_refused(self, ring: KeyRing) -> None:
        now = self._wall()
        for ticket in tuple(self._open):
            error = ring.ended(ticket.caller.hash, now)
            if error is not None:
                ticket.end(error)

    def now(self) -> Moment:
        return Moment(self._monotonic(), self._wall())


def _refusal(key: AccessKey, refusal: Refusal, tokens: int) -> ApiError:
    limits, seconds = refusal.limits, refusal.retry_seconds
    retry_after = math.ceil(seconds) if math.isfinite(seconds) else None
    if refusal.limit is Limit.DAY and retry_after is None:
        return daily_budget_used(_said(key, refusal.limit, limits, tokens), refusal.figures)
    return rate_limited(_said(key, refusal.limit, limits, tokens), retry_after, refusal.figures)


def _said(key: AccessKey, limit: Limit, limits: KeyLimits, tokens: int) -> str:
    name = f"the API key {key.name!r}"
    match limit:
        case Limit.PARALLEL:
            return f"{name} may have {limits.parallel_requests} requests at a time, and has them"
        case Limit.REQUESTS:
            return f"{name} may start {limits.requests_per_minute} requests a minute, and has"
        case Limit.TOKENS:
            most = limits.tokens_per_minute
            return f"{name} may use {most} tokens a minute, and this request may take {tokens}, more than are left"
        case Limit.DAY:
            most = limits.tokens_per_day
            return f"{name} may use {most} tokens a day (UTC), and this request may take {tokens}, more than are left"
