"""Two gateways on two hosts that share limits through a store: they hold over both, and whoever dies loses nothing."""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import aiohttp
import pytest
from valkey.asyncio import Valkey

from reconciler.wire.gateway import LimitsStore
from reconciler.wire.keys import AccessKey, KeyLimits, SecretHash, hash_of
from tests.gateway.keys.shared.redis import RedisServer
from tests.gateway.rank_double import PROMPT, Turn, eventually

from .node_gateways import WORDS, Gateways, gateways

pytestmark = [pytest.mark.timeout(200), pytest.mark.second_tier, pytest.mark.needs("redis-server")]

EACH = len(PROMPT) + WORDS
"""Tokens of a whole answer."""
MOST = 40
"""What its client allows, so that more is reserved than used."""
LIMITS = {
    "requests": KeyLimits(requests_per_minute=31),
    "tokens": KeyLimits(tokens_per_minute=20 * EACH + 13),
    "day": KeyLimits(tokens_per_day=20 * EACH + 13),
    "parallel": KeyLimits(parallel_requests=4),
    "mixed": KeyLimits(requests_per_minute=100_000, tokens_per_day=10**9),
}
KEYS = tuple(
    AccessKey(name, (SecretHash(hash_of(f"sk-{name}")),), limits=each, metrics=name == "mixed")
    for name, each in LIMITS.items()
)
PASSWORD = "open sesame"
BY_SHARE = "reconciler_limits_by_share_total"


class Open:
    """The story of every answer, and how many are told at once."""

    def __init__(self) -> None:
        self.now = self.most = 0

    async def tell(self, turn: Turn) -> None:
        parallel = turn.generate.prompt == "parallel"
        self.now += parallel
        self.most = max(self.most, self.now)
        turn.accept()
        for number in range(len(turn.generate.resume), WORDS):
            if turn.cancelled.is_set():
                break
            turn.say(f"w{number} ", number)
            await asyncio.sleep(0.005)
        self.now -= parallel
        if not turn.cancelled.is_set():
            turn.finish()


@dataclass
class Shared:
    """The two gateways, and their store."""

    made: Gateways
    store: RedisServer
    open: Open
    session: aiohttp.ClientSession

    @property
    def names(self) -> list[str]:
        return list(self.made.hosts)

    def sharing(self) -> list[str]:
        """The gateways that say that the store decides."""
        seen = self.made.seen()
        return [name for name in self.names if (found := seen[name].limits) is not None and found.shared]

    async def ask(self, key: str, name: str, seconds: float = 20.0) -> int:
        """The status of one completion; 0 where none came, or its client left after ``seconds``."""
        body = {"model": "llama", "prompt": key, "max_tokens": MOST, "stream": seconds < 20}
        limit = aiohttp.ClientTimeout(seconds)
        try:
            async with self.session.post(
                self.made.url(name), json=body, headers={"x-api-key": f"sk-{key}"}, timeout=limit
            ) as got:
                await got.read()
                return got.status
        except (aiohttp.ClientError, TimeoutError):
            return 0

    async def many(self, key: str, count: int, at_once: int = 16) -> Counter[int]:
        """How so many requests end, sent to both in turn."""
        room, ends = asyncio.Semaphore(at_once), Counter[int]()

        async def one(number: int) -> None:
            async with room:
                ends[await self.ask(key, self.names[number % 2])] += 1

        async with asyncio.TaskGroup() as group:
            for number in range(count):
                group.create_task(one(number))
        return ends

    async def by_share(self) -> float:
        """How many requests the gateways' shares have decided: some, where this machine stood still for 50 ms."""
        found = 0.0
        for name in self.names:
            url = self.made.url(name).replace("/v1/completions", "/metrics")
            async with self.session.get(url, headers={"x-api-key": "sk-mixed"}) as got:
                assert got.status == 200
                lines = (await got.text()).splitlines()
            found += sum(float(line.split()[1]) for line in lines if line.startswith(BY_SHARE))
        return found

    async def used_in_store(self, key: str) -> dict[str, int]:
        """The tokens of this day by gateway, as the store has them."""
        script = """
        local found, all = {}, redis.call('HGETALL', KEYS[1])
        for i = 1, #all, 2 do found[all[i]] = cmsgpack.unpack(all[i + 1]).used end
        return cjson.encode(found)"""
        async with Valkey(host=self.store.host, port=self.store.port, password=PASSWORD) as client:
            used = await client.register_script(script)([f"{{hosts}}:limits:key:{key}"])
        return {name: int(tokens) for name, tokens in json.loads(used).items()}

    def used_in_files(self, key: str) -> dict[str, int]:
        """The same as each gateway says."""
        found: dict[str, int] = {}
        for name, host in self.made.hosts.items():
            file = host.root / "front" / "usage.json"  # written every two seconds
            keys = json.loads(file.read_text())["keys"] if file.exists() else ()
            found |= {name: each["tokens"] for each in keys if each["name"] == key}  # noqa: B035
        return found


@asynccontextmanager
async def sharing() -> AsyncIterator[Shared]:
    count = Open()
    async with gateways(count.tell) as made, aiohttp.ClientSession() as session:
        store = RedisServer(made.network.here, "--requirepass", PASSWORD)
        store.start()
        word = made.network.folder / "password"
        word.write_text(PASSWORD)
        made.keys = KEYS
        place = LimitsStore(store.address, "hosts", password_file=str(word))
        shared = Shared(made, store, count, session)
        made.loop.follow(made.routes(*shared.names, limits_store=place))
        try:
            await eventually(lambda: made.serving(2) and shared.sharing() == shared.names)
            yield shared
        finally:
            store.kill()


async def test_every_limit_holds_over_both_and_every_token_is_counted() -> None:
    async with sharing() as shared:
        began = time.monotonic()
        requests, tokens, day, parallel = await asyncio.gather(
            *(shared.many(key, 80) for key in ("requests", "tokens", "day", "parallel"))
        )
        assert time.monotonic() - began < 55  # all within a minute
        for ends in (requests, tokens, day, parallel):
            assert ends[200] + ends[429] == 80, ends
        for ends in (tokens, day):
            assert ends[200] >= 6  # for one more, less was left than it might take: nobody tries again here
        by_share = await shared.by_share()
        print(f"{by_share:g} requests were decided by shares")
        more = 2 if by_share else 1
        assert requests[200] == 31 or (more == 2 and requests[200] <= 62)
        assert max(tokens[200], day[200]) <= 19 * more
        assert shared.open.most == 4 or (more == 2 and shared.open.most <= 6)
        await mixed_requests_are_exact(shared)


async def mixed_requests_are_exact(shared: Shared) -> None:
    """Half of the clients leave at any time: the store has to the token what both gateways have counted."""
    dice = random.Random(7)

    async def one(number: int) -> None:
        seconds = dice.random() * 0.2 if number % 2 else 20.0
        await shared.ask("mixed", dice.choice(shared.names), seconds)

    for start in range(0, 240, 24):
        await asyncio.gather(*(one(number) for number in range(start, start + 24)))
    store, files = {}, {"": 0}
    for _ in range(100):
        store, files = await shared.used_in_store("mixed"), shared.used_in_files("mixed")
        if store == files:
            break
        await asyncio.sleep(0.1)
    assert store == files
    assert sum(store.values()) >= 120 * EACH
    assert len(store) == 2


@pytest.mark.nightly
async def test_slots_of_a_gateway_that_dies_come_back_and_clients_that_retry_lose_nothing() -> None:
    async with sharing() as shared:
        first, second = shared.names

        async def client(number: int) -> int:
            for attempt in range(400):
                if await shared.ask("parallel", shared.names[(number + attempt) % 2]) == 200:
                    return attempt
                await asyncio.sleep(0.05)
            raise TimeoutError("no gateway answered")

        asking = asyncio.gather(*(client(number) for number in range(64)))
        await asyncio.sleep(0.6)
        pid = shared.made.seen()[first].pid
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        assert len(await asking) == 64
        assert shared.open.most <= 8  # those of the dead one end as soon as the rank has seen that it is gone
        await eventually(lambda: shared.made.seen()[first].pid != pid and shared.sharing() == [first, second])
        assert (await shared.many("parallel", 4, at_once=4))[200] == 4


@pytest.mark.nightly
async def test_limits_fall_to_shares_without_the_store_and_come_back_with_it() -> None:
    async with sharing() as shared:
        assert (await shared.many("requests", 10))[200] == 10  # five at each
        shared.store.kill()
        began = time.monotonic()
        ends = await shared.many("requests", 60)
        assert ends[200] == 2 * (31 // 3) - 10  # the controller's own gateway has a share too
        assert time.monotonic() - began < 10
        await eventually(lambda: shared.sharing() == [])
        shared.store.start()
        await eventually(lambda: shared.sharing() == shared.names)
        assert (await shared.many("requests", 20))[200] == 11  # of 31, 20 were used meanwhile
