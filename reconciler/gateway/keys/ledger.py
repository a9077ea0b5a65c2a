"""Counts the use of each key against its limits: reserved when a request begins, settled when it ends. Pure: no clock.

``Ledger`` is the interface that the endpoint needs, so that several gateways can share one. ``MemoryLedger`` counts for
one gateway alone.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from enum import Enum
from typing import Protocol

from reconciler.gateway.figures import Figure, Figures
from reconciler.wire.keys import KeyLimits

from .window import Window

DAY_SECONDS = 86_400
PARALLEL_RETRY_SECONDS = 1.0
"""The time to wait if too many requests of a key are open: nobody knows when one ends."""


class Limit(Enum):
    PARALLEL = "parallel_requests"
    REQUESTS = "requests_per_minute"
    TOKENS = "tokens_per_minute"
    DAY = "tokens_per_day"


@dataclasses.dataclass(frozen=True, slots=True)
class Grant:
    """A request that may begin, and the tokens reserved for it."""

    tokens: int
    second: int
    """The second in which it was counted."""
    figures: Figures


@dataclasses.dataclass(frozen=True, slots=True)
class Refusal:
    """A request that may not begin."""

    limit: Limit
    retry_seconds: float
    """The time to wait; infinity if waiting does not help, before the next day or ever."""
    figures: Figures
    limits: KeyLimits
    """The limits in force: each of several gateways may have its share."""


@dataclasses.dataclass(frozen=True, slots=True)
class Moment:
    """The time by two clocks, in seconds."""

    monotonic: float
    wall: float
    """Since the Unix epoch, to count days; 0 if the day stays as it is."""


class Ledger(Protocol):
    """Counts the use of keys."""

    async def reserve(self, name: str, limits: KeyLimits, tokens: int, now: Moment) -> Grant | Refusal:
        """Count a request that begins, and the tokens that it may take. A refused request is not counted."""

    def settle(self, name: str, grant: Grant, tokens: int, now: Moment) -> None:
        """Replace the reserved tokens of a request by those that it took."""

    def release(self, name: str, grant: Grant, now: Moment) -> None:
        """Forget a request that never began: neither it nor its tokens count."""

    def keep(self, names: frozenset[str]) -> None:
        """Forget all other keys."""

    def add(self, name: str, day: int, tokens: int) -> None:
        """Count tokens of a day that were used elsewhere, or before."""


class Account:
    __slots__ = ("_other", "day", "open", "requests", "reserved", "tokens", "used_today")

    def __init__(self) -> None:
        self.requests = Window()
        self.tokens = Window()
        self.open = 0
        """The number of requests that have begun and not ended."""
        self.reserved = 0
        """Their tokens."""
        self.day = 0
        """Days since the Unix epoch."""
        self.used_today = 0
        """Tokens of requests that have ended on this day."""
        self._other = (0, 0)
        """The previous counted day, and its tokens."""

    def begin(self, tokens: int, now: Moment) -> int:
        """Count a request that begins. Returns the second under which its tokens are counted."""
        self.open += 1
        self.reserved += tokens
        self.requests.take(1, now.monotonic)
        return self.tokens.take(tokens, now.monotonic)

    def begin_day(self, wall: float) -> None:
        """Count for the day of the clock. A clock that is set back by a day continues that day's count; any other begins at
        zero. So a clock that was ahead locks nobody out."""
        day = int(wall // DAY_SECONDS)
        if wall and day != self.day:
            used = self._other[1] if self._other[0] == day else 0
            self._other = (self.day, self.used_today)
            self.day, self.used_today = day, used

    def refused(self, limits: KeyLimits, tokens: int, now: Moment) -> tuple[Limit, float] | None:
        """Return the limit that a request would exceed, and the time to wait; None if it may begin."""
        if limits.parallel_requests is not None and self.open >= limits.parallel_requests:
            return Limit.PARALLEL, PARALLEL_RETRY_SECONDS
        if limits.tokens_per_day is not None:
            if self.used_today + tokens > limits.tokens_per_day:
                return Limit.DAY, math.inf
            if self.used_today + self.reserved + tokens > limits.tokens_per_day:
                return Limit.DAY, PARALLEL_RETRY_SECONDS  # open requests may take less than is reserved
        for limit, window, amount, most in (
            (Limit.REQUESTS, self.requests, 1, limits.requests_per_minute),
            (Limit.TOKENS, self.tokens, tokens, limits.tokens_per_minute),
        ):
            if most is not None:
                seconds = window.room_in(amount, most, now.monotonic)
                if seconds:
                    return limit, seconds
        return None

    def figures(self, limits: KeyLimits, now: Moment) -> Figures:
        requests_reset = self.requests.reset_in(now.monotonic)  # forgets what no longer counts in ``total``
        tokens_reset = self.tokens.reset_in(now.monotonic)
        requests, tokens = (self.requests.total, requests_reset), (self.tokens.total, tokens_reset)
        return figures_of(limits, requests, tokens, self.used_today + self.reserved, now.wall)


def figures_of(
    limits: KeyLimits, requests: tuple[float, float], tokens: tuple[float, float], today: float, wall: float
) -> Figures:
    """Return the rest of the limits. ``requests`` and ``tokens``: those of the last minute, and the seconds until all of
    them are over. ``today``: the day's tokens."""
    of_requests = of_tokens = None
    if limits.requests_per_minute is not None:
        of_requests = _figure(limits.requests_per_minute, *requests)
    if limits.tokens_per_minute is not None:
        of_tokens = _figure(limits.tokens_per_minute, *tokens)
    elif limits.tokens_per_day is not None:
        of_tokens = _figure(limits.tokens_per_day, today, DAY_SECONDS - wall % DAY_SECONDS)
    return Figures(of_requests, of_tokens, wall)


def _figure(limit: int, taken: float, reset: float) -> Figure:
    return Figure(limit, max(0, limit - int(taken)), reset)


def share_of(limits: KeyLimits, gateways: int) -> KeyLimits:
    """Return the limits for one of so many gateways: the same part of each limit, and at least 1."""
    if gateways == 1:
        return limits

    def part(limit: int | None) -> int | None:
        return None if limit is None else max(1, limit // gateways)

    return KeyLimits(
        part(limits.requests_per_minute),
        part(limits.tokens_per_minute),
        part(limits.tokens_per_day),
        part(limits.parallel_requests),
    )


class MemoryLedger:
    """Counts for one gateway. It has an account for each existing key that has asked."""

    def __init__(self, gateways: int = 1) -> None:
        self.gateways = gateways
        """The number of gateways: each has its share of every limit."""
        self._accounts: dict[str, Account] = {}

    async def reserve(self, name: str, limits: KeyLimits, tokens: int, now: Moment) -> Grant | Refusal:
        return self.decide(name, limits, tokens, now)

    def decide(self, name: str, limits: KeyLimits, tokens: int, now: Moment) -> Grant | Refusal:
        """Do the same synchronously, by this gateway's share."""
        share, account = share_of(limits, self.gateways), self.account(name, now)
        refused = account.refused(share, tokens, now)
        if refused is not None:
            return Refusal(*refused, account.figures(share, now), share)
        return Grant(tokens, account.begin(tokens, now), account.figures(share, now))

    def settle(self, name: str, grant: Grant, tokens: int, now: Moment) -> None:
        account = self.account(name, now)
        account.open -= 1
        account.reserved -= grant.tokens
        account.used_today += tokens
        account.tokens.forget(now.monotonic)
        account.tokens.correct(grant.second, tokens - grant.tokens)

    def release(self, name: str, grant: Grant, now: Moment) -> None:
        self.settle(name, grant, 0, now)
        account = self._accounts[name]
        account.requests.forget(now.monotonic)
        account.requests.correct(grant.second, -1)

    def keep(self, names: frozenset[str]) -> None:
        """Forget all other keys that have no open request."""
        self._accounts = {
            name: account for name, account in self._accounts.items() if name in names or account.open
        }

    def add(self, name: str, day: int, tokens: int) -> None:
        account = self._accounts.setdefault(name, Account())
        latest = max(day, account.day)
        account.begin_day(day * DAY_SECONDS)
        account.used_today += tokens
        account.begin_day(latest * DAY_SECONDS)

    def go_on(self, name: str, requests: Sequence[float], tokens: Sequence[float], now: Moment) -> None:
        """Count the last minute of another gateway, as ``recent`` returns it."""
        account = self.account(name, now)
        account.requests.go_on(requests, now.monotonic)
        account.tokens.go_on(tokens, now.monotonic)

    def recent(self, name: str, now: Moment) -> tuple[list[float], list[float]]:
        """Return the requests and the tokens of the last minute, with their ages."""
        account = self.account(name, now)
        return account.requests.ages(now.monotonic), account.tokens.ages(now.monotonic)

    def names(self) -> tuple[str, ...]:
        """Return the keys that have asked."""
        return tuple(self._accounts)

    def account(self, name: str, now: Moment) -> Account:
        """Return the use of a key, as of now."""
        account = self._accounts.get(name)
        if account is None:
            account = self._accounts[name] = Account()
        account.begin_day(now.wall)
        account.requests.forget(now.monotonic)
        account.tokens.forget(now.monotonic)
        return account
