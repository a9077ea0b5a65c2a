"""Lets a key's requests in, settles them when they end, and ends those of keys that are no longer good."""

from __future__ import annotations

import itertools
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


class Heir(Protocol):
    """The gateway that has taken over, and counts for both."""

    async def begin(self, number: int, name: str, limits: KeyLimits, tokens: int) -> Grant | Refusal | None:
        """Let a request in; None if nobody answers."""

    def ended(self, number: int, usage: Usage, never_began: bool) -> None:
        """Count the use of a request."""

    def seen(self, name: str) -> None:
        """Note that a key was used."""


class Ticket:
    """One request of a key. Use as a context manager: leaving it settles the request's use."""

    __slots__ = ("_answers", "_desk", "_metered", "caller", "counted_here", "figures", "grant", "number")

    def __init__(
        self,
        desk: Desk,
        caller: Caller,
        grant: Grant | None,
        metered: Metered,
        answers: int,
        number: int = 0,
        counted_here: bool = True,
    ) -> None:
        self._desk = desk
        self._metered = metered
        self._answers = answers
        self.grant = grant
        self.number = number
        self.counted_here = counted_here
        """True if this gateway's ledger has granted it, and not the heir's."""
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
        """Return the tokens of the request so far."""
        return self._metered.usage(self._answers)

    def end(self, error: ApiError) -> None:
        """End the request with an error."""
        self._metered.end(error)


class Desk:
    """Lets requests of keys in. ``wall`` returns seconds since the Unix epoch, ``monotonic`` those of a clock that only
    grows."""

    def __init__(self, wall: Callable[[], float], monotonic: Callable[[], float]) -> None:
        self._wall = wall
        self._monotonic = monotonic
        self._open: dict[Ticket, None] = {}
        self._looked_at = 0.0
        self._numbers = itertools.count(1)
        self.heir: Heir | None = None
        """The gateway that has taken over and counts now; None before."""
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
        opened = await self.open(caller, key.name, limits, tokens, metered, answers)
        if isinstance(opened, Refusal):
            raise _refusal(key, opened, tokens)
        return opened

    async def open(
        self, caller: Caller, name: str, limits: KeyLimits, tokens: int, metered: Metered, answers: int = 1
    ) -> Ticket | Refusal:
        """Let in a request of a key that takes at most ``tokens`` tokens."""
        number, asked = next(self._numbers), self.heir
        verdict = await self._ask_heir(number, name, limits, tokens)
        here = verdict is None
        if verdict is None:
            verdict = await self.ledger.reserve(name, limits, tokens, self.now())
            if isinstance(verdict, Grant) and self.heir is not asked:  # it has taken over meanwhile
                decided = await self._decided(number, name, limits, tokens, verdict)
                if decided is not None:
                    here, verdict = False, decided
        if isinstance(verdict, Refusal):
            if here:
                self.book.refused(name, verdict.limit, self._wall())
            return verdict
        if here:
            self.book.began(name, self._wall())
        return self._note(Ticket(self, caller, verdict, metered, answers, number, here))

    def adopt(self, caller: Caller, grant: Grant, metered: Metered) -> Ticket:
        """Continue with a request that another gateway has let in, and that is in the counts taken over from it."""
        self.ledger.adopt(caller.key_name, grant, self.now())
        return self._note(Ticket(self, caller, grant, metered, 1, next(self._numbers)))

    def _note(self, ticket: Ticket) -> Ticket:
        self._open[ticket] = None
        return ticket

    async def _ask_heir(
        self, number: int, name: str, limits: KeyLimits, tokens: int
    ) -> Grant | Refusal | None:
        return None if self.heir is None else await self.heir.begin(number, name, limits, tokens)

    async def _decided(
        self, number: int, name: str, limits: KeyLimits, tokens: int, own: Grant
    ) -> Grant | Refusal | None:
        """Ask the other gateway about a request that this one has granted; None if this one's grant holds."""
        holds = False
        try:
            decided = await self._ask_heir(number, name, limits, tokens)
            holds = decided is None
        finally:  # also if the client leaves meanwhile
            if not holds:
                self.ledger.release(name, own, self.now())
        return decided

    def seen(self, caller: Caller) -> None:
        """Note that a key was used for a request that costs nothing."""
        if caller.key is not None:
            self.book.seen(caller.key.name, self._wall())
            if self.heir is not None:
                self.heir.seen(caller.key.name)

    def close(self, ticket: Ticket, grant: Grant, usage: Usage, never_began: bool) -> None:
        """Settle the use of a request. One that ``never_began`` through no fault of its client does not count."""
        self._open.pop(ticket, None)
        if self.heir is not None:
            self.heir.ended(ticket.number, usage, never_began)
        if not ticket.counted_here:
            return
        name = ticket.caller.key_name
        if never_began:
            self.ledger.release(name, grant, self.now())
            self.book.never_began(name, self._wall())
        else:
            self.ledger.settle(name, grant, usage.total, self.now())
            self.book.ended(name, usage, self._wall())

    @property
    def open_tickets(self) -> tuple[Ticket, ...]:
        """Return the tickets of running requests."""
        return tuple(self._open)

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

    def restore(self, used: Sequence[KeyUsage]) -> None:
        """Continue with the day's counts from before a restart."""
        self.book.restore(used)
        for each in used:
            self.ledger.restore(each.name, each.day, each.tokens)

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
        """Return the time by both clocks."""
        return Moment(self._monotonic(), self._wall())


def _refusal(key: AccessKey, refusal: Refusal, tokens: int) -> ApiError:
    """Return the error for a request that its key may not begin now."""
    limits, seconds = refusal.limits, refusal.retry_seconds
    retry_after = math.ceil(seconds) if math.isfinite(seconds) else None
    if refusal.limit is Limit.DAY and retry_after is None:
        return daily_budget_used(_said(key, refusal.limit, limits, tokens), refusal.figures)
    return rate_limited(_said(key, refusal.limit, limits, tokens), retry_after, refusal.figures)


def _said(key: AccessKey, limit: Limit, limits: KeyLimits, tokens: int) -> str:
    """Return the message about the limit that was met."""
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
