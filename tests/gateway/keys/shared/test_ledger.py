"""Limits hold over all gateways that share a store, whatever becomes of the store and of a gateway."""

from __future__ import annotations

import asyncio
import contextlib
import math
import signal
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from valkey.asyncio import Valkey

from reconciler.gateway.keys.ledger import DAY_SECONDS, Grant, Limit, MemoryLedger, Moment, Refusal
from reconciler.gateway.keys.shared import ledger
from reconciler.gateway.keys.shared.ledger import Gateway, SharedLedger
from reconciler.gateway.keys.shared.store import SharedStore
from reconciler.wire.gateway import LimitsStore
from reconciler.wire.keys import KeyLimits
from tests.gateway.rank_double import eventually

from .redis import RedisServer, redis

pytestmark = pytest.mark.needs("redis-server")


def now() -> Moment:
    return Moment(time.monotonic(), time.time())


class Front:
    """What one gateway counts."""

    def __init__(self, name: str, process: str, place: LimitsStore, gateways: int) -> None:
        self.own = MemoryLedger(gateways)
        which = Gateway(name, process)
        self.ledger = SharedLedger(self.own, SharedStore(place), which, time.monotonic, lambda: None)
        self.running = asyncio.create_task(self.ledger.run())

    async def ask(self, limits: KeyLimits, tokens: int = 0) -> Grant | Refusal:
        return await self.ledger.reserve("webui", limits, tokens, now())

    async def granted(self, limits: KeyLimits, tokens: int = 0) -> Grant:
        verdict = await self.ask(limits, tokens)
        assert isinstance(verdict, Grant)
        return verdict

    async def refused(self, limits: KeyLimits, tokens: int = 0) -> tuple[Limit, float]:
        verdict = await self.ask(limits, tokens)
        assert isinstance(verdict, Refusal)
        return verdict.limit, verdict.retry_seconds

    def settle(self, grant: Grant, tokens: int) -> None:
        self.ledger.settle("webui", grant, tokens, now())

    async def die(self) -> None:
        """End without a word."""
        self.running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self.running


@contextlib.asynccontextmanager
async def fronts(
    server: RedisServer, count: int = 2, prefix: str = "test"
) -> AsyncIterator[tuple[Front, ...]]:
    place = LimitsStore(server.address, prefix)
    made = tuple(Front(f"n{number}", f"p{number}", place, count) for number in range(count))
    try:
        await eventually(lambda: all(each.ledger.shared for each in made))
        yield made
    finally:
        for each in made:
            await each.die()


@pytest.fixture(scope="module")
def server() -> Iterator[RedisServer]:
    with redis() as running:
        yield running


async def told(*all_of_them: Front) -> None:
    """Wait until the store knows everything."""
    await eventually(lambda: not any(each.ledger.behind for each in all_of_them))


async def test_what_one_gateway_grants_is_missing_at_the_other(server: RedisServer) -> None:
    limits = KeyLimits(requests_per_minute=3, tokens_per_minute=100)
    async with fronts(server, prefix="both") as (a, b):
        await a.granted(limits, 40)
        await b.granted(limits, 40)
        assert (await a.refused(limits, 30))[0] is Limit.TOKENS
        left = (await b.granted(limits, 5)).figures
        assert left.requests is not None
        assert left.tokens is not None
        assert (left.requests.limit, left.requests.remaining) == (3, 0)
        assert (left.tokens.limit, left.tokens.remaining) == (100, 15)
        limit, seconds = await a.refused(limits, 1)
        assert limit is Limit.REQUESTS
        assert 50 < seconds <= 61


async def test_what_was_reserved_and_not_used_is_there_again_for_all(server: RedisServer) -> None:
    limits = KeyLimits(tokens_per_minute=100, parallel_requests=1)
    async with fronts(server, prefix="again") as (a, b):
        grant = await a.granted(limits, 80)
        assert (await b.refused(limits, 10))[0] is Limit.PARALLEL
        a.settle(grant, 12)
        await told(a)
        grant = await b.granted(limits, 88)
        b.ledger.release("webui", grant, now())
        await told(b)
        await a.granted(limits, 88)


async def test_what_an_idle_gateway_has_used_is_told_at_once_and_not_at_its_next_sign_of_life(
    server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ledger, "BEAT_SECONDS", 600.0)
    limits = KeyLimits(tokens_per_minute=100)
    async with fronts(server, prefix="idle") as (a, b):
        grant = await a.granted(limits, 80)
        await told(a)
        a.settle(grant, 12)
        await told(a)
        await b.granted(limits, 88)


async def test_a_day_is_the_stores_and_the_same_for_all(server: RedisServer) -> None:
    limits = KeyLimits(tokens_per_day=100)
    async with fronts(server, prefix="day") as (a, b):
        a.settle(await a.granted(limits, 60), 60)
        await told(a)
        open_one = await b.granted(limits, 30)
        limit, seconds = await a.refused(limits, 20)
        assert limit is Limit.DAY
        assert math.isfinite(seconds)
        b.settle(open_one, 39)
        await told(b)
        assert await a.refused(limits, 2) == (Limit.DAY, math.inf)
        await a.granted(limits, 1)


async def test_a_burst_over_two_gateways_gets_just_what_the_limit_allows(server: RedisServer) -> None:
    limits = KeyLimits(parallel_requests=50)
    async with fronts(server, prefix="burst") as (a, b):
        verdicts = await asyncio.gather(*(each.ask(limits) for each in (a, b) for _ in range(100)))
        assert sum(isinstance(verdict, Grant) for verdict in verdicts) == 50


@pytest.mark.second_tier
async def test_the_requests_of_a_gateway_that_died_are_given_back_and_what_it_used_is_not(
    server: RedisServer,
) -> None:
    limits = KeyLimits(requests_per_minute=1000, tokens_per_day=100, parallel_requests=2)
    async with fronts(server, prefix="dead") as (a, b):
        a.settle(await a.granted(limits, 10), 10)
        await a.granted(limits, 20)
        await a.granted(limits, 20)
        assert (await b.refused(limits))[0] is Limit.PARALLEL
        await a.die()
        verdict = await b.ask(limits, 50)
        while isinstance(verdict, Refusal):
            assert verdict.limit is Limit.PARALLEL
            await asyncio.sleep(0.1)
            verdict = await b.ask(limits, 50)
        assert verdict.figures.requests is not None
        assert verdict.figures.requests.remaining == 1000 - 4  # what it began counts for its minute
        # what it had reserved may have been used: for another day there is nothing left
        assert await b.refused(limits, 1) == (Limit.DAY, 1.0)
        b.settle(verdict, 50)
        assert await b.refused(limits, 1) == (Limit.DAY, math.inf)


async def test_a_gateway_that_starts_again_gives_its_slots_back_at_once_and_goes_on_with_its_day(
    server: RedisServer,
) -> None:
    limits = KeyLimits(tokens_per_minute=100, tokens_per_day=1000, parallel_requests=1)
    async with fronts(server, prefix="restart") as (a, b):
        a.settle(await a.granted(limits, 30), 30)
        await told(a)
        await a.granted(limits, 5)
        await a.die()
        again = Front("n0", "another process", LimitsStore(server.address, "restart"), 2)
        again.ledger.add("webui", int(time.time() // DAY_SECONDS), 20)  # its file was written before
        try:
            await eventually(lambda: again.ledger.shared)
            grant = await b.granted(limits, 65)  # of the minute: 30 and 5 were taken
            assert grant.figures.tokens is not None
            assert grant.figures.tokens.remaining == 0
            b.settle(grant, 0)
            await told(b)
            assert again.own.account("webui", now()).used_today == 30
            await again.granted(limits, 65)
        finally:
            await again.die()


async def test_each_has_its_share_while_the_store_is_away_and_returns_with_all_that_was_used() -> None:
    limits = KeyLimits(requests_per_minute=100, tokens_per_minute=100)
    with redis() as server:
        async with fronts(server) as (a, b):
            a.settle(await a.granted(limits, 30), 30)
            server.kill()
            grant = await a.granted(limits, 20)  # of its 50, 30 are used
            assert (await a.refused(limits, 1))[0] is Limit.TOKENS
            await b.granted(limits, 50)
            assert (await b.refused(limits, 1))[0] is Limit.TOKENS
            a.settle(grant, 5)
            await eventually(lambda: not a.ledger.shared and not b.ledger.shared)
            assert "onnect" in a.ledger.problem
            server.start()
            await eventually(lambda: a.ledger.shared and b.ledger.shared)
            assert (await b.refused(limits, 16))[0] is Limit.TOKENS  # 35 and 50 are used
            await b.granted(limits, 15)


async def test_no_request_waits_for_a_store_that_is_stuck(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("reconciler.gateway.keys.shared.ledger.WAIT_SECONDS", 0.05)
    limits = KeyLimits(requests_per_minute=10)
    with redis() as server:
        async with fronts(server) as (a, b):
            server.send(signal.SIGSTOP)
            verdicts = await asyncio.gather(*(a.ask(limits) for _ in range(8)))
            assert sum(isinstance(verdict, Grant) for verdict in verdicts) == 5
            assert not a.ledger.shared
            with pytest.raises(StopIteration):  # it is known to be away: the next waits for nothing at all
                a.refused(limits).send(None)
            server.send(signal.SIGCONT)
            await eventually(lambda: a.ledger.shared and b.ledger.shared)
            for _ in range(5):
                await b.granted(limits)
            assert (await b.refused(limits))[0] is Limit.REQUESTS


async def test_the_store_is_told_again_what_it_was_made_to_forget(server: RedisServer) -> None:
    limits = KeyLimits(requests_per_minute=2)
    async with fronts(server, prefix="forgotten") as (a, b):
        await a.granted(limits)
        await told(a)
        async with Valkey(host=server.host, port=server.port) as client:
            await client.flushall()
            names: list[bytes] = []
            while len(names) < 3:  # of the gateways, of their beginning, and of the one key
                names = [name async for name in client.scan_iter("{forgotten}:*")]
                await asyncio.sleep(0.05)
        await b.granted(limits)
        assert (await b.refused(limits))[0] is Limit.REQUESTS


async def test_everything_that_is_kept_expires(server: RedisServer) -> None:
    async with fronts(server, prefix="expiry") as (a, _):
        await a.granted(KeyLimits(requests_per_minute=2))
        async with Valkey(host=server.host, port=server.port) as client:
            names = [name async for name in client.scan_iter("{expiry}:*")]
            assert len(names) == 3
            for name in names:
                assert 0 < await client.ttl(name) <= DAY_SECONDS + 200


async def test_a_store_with_a_password_says_that_it_is_wrong_and_is_used_once_it_is_right(
    tmp_path: Path,
) -> None:
    with redis("--requirepass", "open sesame") as server:
        file = tmp_path / "password"
        file.write_text("one\ntwo\n")
        place = LimitsStore(server.address, "test", password_file=str(file))
        front = Front("n0", "p0", place, 1)
        try:
            await eventually(lambda: "holds 2 lines; expected one line" in front.ledger.problem)
            file.write_text("wrong\n")
            await eventually(lambda: "invalid username-password pair" in front.ledger.problem)
            file.write_text("open sesame\n")
            await eventually(lambda: front.ledger.shared)
        finally:
            await front.die()


# --- properties --------------------------------------------------------------------------------------


ACTIONS = st.lists(
    st.one_of(
        st.tuples(st.just("ask"), st.integers(0, 1), st.integers(0, 60)),
        st.tuples(st.just("burst"), st.integers(2, 8), st.integers(1, 30)),
        st.tuples(st.just("end"), st.integers(0, 1), st.integers(0, 100)),
        st.tuples(st.just("release"), st.integers(0, 1), st.just(0)),
        st.tuples(st.just("wait"), st.just(0), st.just(0)),
    ),
    max_size=25,
)
LIMITS = st.builds(
    KeyLimits,
    st.none() | st.integers(1, 8),
    st.none() | st.integers(10, 100),
    st.none() | st.integers(50, 300),
    st.none() | st.integers(1, 4),
)


@pytest.mark.second_tier
@settings(max_examples=25, deadline=None)
@given(LIMITS, ACTIONS, st.integers(0, 10**9))
def test_both_together_never_grant_more_than_the_limit_and_lose_no_token(
    server: RedisServer, limits: KeyLimits, actions: list[tuple[str, int, int]], number: int
) -> None:
    asyncio.run(_never_more(server, limits, actions, f"h{number}"))


async def _never_more(
    server: RedisServer, limits: KeyLimits, actions: list[tuple[str, int, int]], prefix: str
) -> None:
    """All happens within a minute: every request and every token counts."""
    async with fronts(server, prefix=prefix) as both:
        open_ones: list[tuple[Front, Grant]] = []
        began = used = 0
        for what, which, amount in actions:
            if what in ("ask", "burst"):
                makers = [both[n % 2] for n in range(which)] if what == "burst" else [both[which]]
                verdicts = await asyncio.gather(*(maker.ask(limits, amount) for maker in makers))
                for maker, verdict in zip(makers, verdicts, strict=True):
                    if isinstance(verdict, Grant):
                        open_ones.append((maker, verdict))
                        began += 1
            elif what == "wait":
                await told(*both)
            elif open_ones:
                maker, grant = open_ones.pop(0)
                if what == "end":
                    tokens = grant.tokens * amount // 100
                    used += tokens
                    maker.settle(grant, tokens)
                else:
                    began -= 1
                    maker.ledger.release("webui", grant, now())
            reserved = sum(grant.tokens for _, grant in open_ones)
            # a machine that stood still for 50 ms had both grant shares: at most as much again
            most = 2 if any(front.ledger.by_share for front in both) else 1
            assert limits.requests_per_minute is None or began <= most * limits.requests_per_minute
            assert limits.tokens_per_minute is None or used + reserved <= most * limits.tokens_per_minute
            assert limits.tokens_per_day is None or used + reserved <= most * limits.tokens_per_day
            assert limits.parallel_requests is None or len(open_ones) <= most * limits.parallel_requests
        await told(*both)
        accounts = [front.own.account("webui", now()) for front in both]
        assert sum(account.used_today for account in accounts) == used
        assert sum(account.open for account in accounts) == len(open_ones)


@pytest.mark.parametrize("days", [1, 365])
async def test_what_a_store_wrote_whose_clock_was_ahead_keeps_no_key_out(
    server: RedisServer, days: int
) -> None:
    """Another gateway, which is gone, has used up everything on a day to come, and holds a slot."""
    prefix, name = f"ahead{days}", "webui"
    ahead = time.time() + days * 86_400
    begin = f"{{{prefix}}}:limits"
    entry = (
        "redis.call('HSET', KEYS[1], 'gone', cmsgpack.pack({process='gone', open=1, reserved=90, day=tonumber(ARGV[2]),"
        " used=100, requests={tonumber(ARGV[1]), 9}, tokens={tonumber(ARGV[1]), 900}, requests_before={}, tokens_before={}}))"
        " redis.call('ZADD', KEYS[2], ARGV[1], 'gone') redis.call('SET', KEYS[3], ARGV[1])"
    )
    keys = [f"{begin}:key:{name}", f"{begin}:gateways", f"{begin}:since"]
    host, _, port = server.address.rpartition(":")
    async with Valkey(host=host, port=int(port)) as client:
        await client.eval(entry, 3, *keys, str(ahead), str(int(ahead // 86_400)))  # type: ignore[misc]
    limits = KeyLimits(requests_per_minute=2, tokens_per_minute=100, tokens_per_day=100, parallel_requests=1)
    async with fronts(server, 1, prefix) as (a,):
        a.settle(await a.granted(limits, 100), 100)
