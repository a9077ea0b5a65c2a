"""The ledger that several gateways share: it asks the store, and decides by this gateway's share while the store is
silent.

One call is under way at a time. It takes everything that waits: the requests that want to begin, and the counts of all
changed keys. So the store gets the current counts in order, and a burst of requests costs two round trips.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import logging
import math
from collections.abc import Callable
from typing import Any

import orjson

from reconciler.gateway.keys.ledger import (
    PARALLEL_RETRY_SECONDS,
    Account,
    Grant,
    Limit,
    MemoryLedger,
    Moment,
    Refusal,
    figures_of,
)
from reconciler.gateway.keys.window import SECONDS
from reconciler.wire.keys import KeyLimits

from .store import SharedStore, StoreAway

log = logging.getLogger(__name__)

WAIT_SECONDS = 0.05
"""The longest that a request waits for the store."""
BEAT_SECONDS = 1.0
"""The interval of calls from a gateway without news."""
LEASE_SECONDS = 5.0
"""The silence of a gateway after which its open requests count as ended."""
AGAIN_SECONDS = 0.25
"""Between two calls while the store does not answer."""
SETTLE_SECONDS = 3.0
"""The time that a restarted store gets to hear from every gateway before it decides."""
LINGER_SECONDS = 0.01
"""The time that ended requests wait for others, to share a call."""
KEYS_AT_ONCE = 200
_CODES: tuple[Limit, ...] = tuple(Limit)


class _Ask:
    """A request that waits for the store's word."""

    __slots__ = ("answer", "limits", "name", "tokens")

    def __init__(self, name: str, limits: KeyLimits, tokens: int) -> None:
        self.name, self.limits, self.tokens = name, limits, tokens
        self.answer: asyncio.Future[Grant | Refusal | None] = asyncio.get_running_loop().create_future()
        """None if this gateway's share decides."""

    def settle(self, verdict: Grant | Refusal | None) -> None:
        """Answer, unless it no longer waits."""
        if not self.answer.done():
            self.answer.set_result(verdict)


@dataclasses.dataclass(frozen=True, slots=True)
class Gateway:
    """The gateway that counts."""

    name: str
    """The same after a restart."""
    process: str
    """Another one after each."""


class SharedLedger:
    """Counts this gateway's grants in ``own``, and those of all gateways in the store. ``run`` keeps the two together.

    ``monotonic`` returns seconds of the clock of every ``Moment``. Days are those of the store's clock.
    """

    def __init__(
        self,
        own: MemoryLedger,
        store: SharedStore,
        gateway: Gateway,
        monotonic: Callable[[], float],
        changed: Callable[[], object],
    ) -> None:
        self._own = own
        self._store = store
        self._gateway = gateway
        self._monotonic = monotonic
        self._changed = changed
        self._asks: list[_Ask] = []
        self._dirty: dict[str, None] = dict.fromkeys(own.names())
        """Keys whose counts are newer than those in the store."""
        self._telling = False
        self._due = asyncio.Event()
        self._lingering: asyncio.TimerHandle | None = None
        self._ahead: float | None = None
        """The store's time less that of ``monotonic``."""
        self.shared = False
        """True while the store decides."""
        self.problem = ""
        """The reason if it does not."""
        self.failures = 0
        """Calls that failed, or took too long for a request."""
        self.by_share = 0
        """Requests that this gateway's share has decided."""

    @property
    def behind(self) -> bool:
        """Return whether there is news for the store."""
        return bool(self._dirty or self._telling)

    async def reserve(self, name: str, limits: KeyLimits, tokens: int, now: Moment) -> Grant | Refusal:
        verdict = await self._ask(_Ask(name, limits, tokens)) if self.shared else None
        if verdict is not None:
            return verdict
        self.by_share += 1
        self._touch(name)
        return self._own.decide(name, limits, tokens, self._by_store(self._monotonic(), now.wall))

    async def _ask(self, ask: _Ask) -> Grant | Refusal | None:
        self._asks.append(ask)
        self._due.set()
        waiting = asyncio.get_running_loop().call_later(WAIT_SECONDS, self._too_late, ask)
        try:
            return await ask.answer
        except asyncio.CancelledError:
            granted = None if ask.answer.cancelled() else ask.answer.result()
            if isinstance(granted, Grant):  # its client has left at the same moment
                self.release(ask.name, granted, Moment(self._monotonic(), 0.0))
            raise
        finally:
            waiting.cancel()

    def _too_late(self, ask: _Ask) -> None:
        if not ask.answer.done():
            self._lose(f"no answer within {WAIT_SECONDS * 1000:g} ms")
            ask.settle(None)

    def settle(self, name: str, grant: Grant, tokens: int, now: Moment) -> None:
        self._own.settle(name, grant, tokens, self._by_store(now.monotonic, now.wall))
        self._touch(name)

    def release(self, name: str, grant: Grant, now: Moment) -> None:
        self._own.release(name, grant, self._by_store(now.monotonic, now.wall))
        self._touch(name)

    def keep(self, names: frozenset[str]) -> None:
        self._own.keep(names)

    def add(self, name: str, day: int, tokens: int) -> None:
        self._own.add(name, day, tokens)
        self._touch(name)

    async def run(self) -> None:
        """Keep the store and this gateway together, until cancelled."""
        running = asyncio.current_task()
        try:
            while True:
                answered = await self._call()
                if running is not None and running.cancelling():
                    break  # the store's client may lose the cancellation while it connects
                await (self._until_due() if answered else asyncio.sleep(AGAIN_SECONDS))
        finally:
            if self.shared and self._dirty:
                await self._call()  # requests that have just ended free their slots for the other gateways
            self._give_up()
            await self._store.close()

    async def _until_due(self) -> None:
        if not self._dirty or self._lingering is not None:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(BEAT_SECONDS if self.shared else AGAIN_SECONDS):
                    await self._due.wait()
        self._due.clear()

    async def _call(self) -> bool:
        """Send the store the changed counts and the requests that wait. Returns whether it has answered."""
        asks, self._asks = self._asks, []
        wanted = dict.fromkeys(ask.name for ask in asks)
        for name in self._dirty:
            if len(wanted) >= KEYS_AT_ONCE:
                break
            wanted[name] = None
        names = list(wanted)
        for name in names:
            self._dirty.pop(name, None)
        self._telling = True
        try:
            self._take(await self._store.call(names, orjson.dumps(self._said(names, asks))), names, asks)
        except StoreAway as error:
            self._lose(str(error))
            self._dirty.update(wanted)
            for ask in asks:
                ask.settle(None)
            return False
        finally:
            self._telling = False
        return True

    def _said(self, names: list[str], asks: list[_Ask]) -> dict[str, Any]:
        now = self._by_store(self._monotonic(), 0.0)
        return {
            "gateway": self._gateway.name,
            "process": self._gateway.process,
            "gateways": self._own.gateways,
            "window": SECONDS + 1,
            "lease": LEASE_SECONDS,
            "settle": SETTLE_SECONDS,
            "parallel_retry": PARALLEL_RETRY_SECONDS,
            "keys": [self._key(name, [ask for ask in asks if ask.name == name], now) for name in names],
        }

    def _key(self, name: str, asks: list[_Ask], now: Moment) -> dict[str, Any]:
        """Return this gateway's counts for a key, and the requests that wait."""
        account = self._own.account(name, now)
        limits = asks[-1].limits if asks else KeyLimits()
        named = {
            "parallel": limits.parallel_requests,
            "requests": limits.requests_per_minute,
            "tokens": limits.tokens_per_minute,
            "day": limits.tokens_per_day,
        }
        return {
            "open": account.open,
            "reserved": account.reserved,
            "day": account.day,
            "used": account.used_today,
            "requests": account.requests.ages(now.monotonic),
            "tokens": account.tokens.ages(now.monotonic),
            "limits": {limit: most for limit, most in named.items() if most is not None},
            "asks": [ask.tokens for ask in asks],
        }

    def _take(self, said: dict[str, Any], names: list[str], asks: list[_Ask]) -> None:
        """Use an answer of the store."""
        monotonic, wall = self._monotonic(), float(said["now"])
        now = Moment(monotonic, wall)
        self._ahead = wall - monotonic
        if not said["known"]:  # it has lost its data, or never had any
            self._dirty.update(dict.fromkeys(name for name in self._own.names() if name not in names))
        for name, each in zip(names, said["answers"] or (), strict=True):
            account = self._own.account(name, now)
            account.used_today += each["ahead"]
            mine = [ask for ask in asks if ask.name == name]
            for ask, verdict in zip(mine, each["verdicts"] or (), strict=True):
                if ask.answer.done() or not said["settled"]:  # only the store counts it: correct it
                    self._dirty[name] = None
                    ask.settle(None)
                else:
                    ask.settle(_verdict(ask, verdict, account, now))
        if said["settled"] and not self._dirty:
            self._found()

    def _found(self) -> None:
        if not self.shared:
            log.info("limits are shared through %s", self._store)
            self.shared, self.problem = True, ""
            self._changed()

    def _lose(self, problem: str) -> None:
        self.failures += 1
        if self.shared or problem != self.problem:
            log.warning(
                "limits are not shared through %s, each gateway has its share: %s", self._store, problem
            )
            self.shared, self.problem = False, problem
            self._changed()

    def _give_up(self) -> None:
        self.shared = False
        for ask in self._asks:
            ask.settle(None)
        if self._lingering is not None:
            self._lingering.cancel()

    def _touch(self, name: str) -> None:
        """Send the counts of a key soon."""
        self._dirty[name] = None
        if self._lingering is None:
            self._lingering = asyncio.get_running_loop().call_later(LINGER_SECONDS, self._lingered)

    def _lingered(self) -> None:
        self._lingering = None
        self._due.set()

    def _by_store(self, monotonic: float, wall: float) -> Moment:
        """Return a moment by the store's clock, if that is known."""
        return Moment(monotonic, wall if self._ahead is None else monotonic + self._ahead)


def _verdict(ask: _Ask, said: list[float], account: Account, now: Moment) -> Grant | Refusal:
    """Return the store's decision, and count a request that may begin."""
    code, seconds, requests, requests_reset, tokens, tokens_reset, today = said
    figures = figures_of(ask.limits, (requests, requests_reset), (tokens, tokens_reset), today, now.wall)
    if code:
        retry = math.inf if seconds < 0 else seconds
        return Refusal(_CODES[int(code) - 1], retry, figures, ask.limits)
    return Grant(ask.tokens, account.begin(ask.tokens, now), figures)
