"""One gateway takes over from another under clients that ask all the time: nobody is refused, nothing is cut, all is counted."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections import Counter
from collections.abc import AsyncIterator

import aiohttp
import orjson
import pytest

from reconciler.wire.handover import OLD_RECEIVES, Offer
from reconciler.wire.keys import AccessKey, KeyLimits, SecretHash, hash_of, secret_of
from tests.gateway.keys.test_accounting import tell
from tests.gateway.rank_double import eventually, story

from .gateways import Gateways, gateways

SECRET = secret_of(bytes([7] * 32))
CLIENTS = 8
SWITCHES = 3


def key(**limits: int) -> AccessKey:
    return AccessKey("agent", (SecretHash(hash_of(SECRET)),), limits=KeyLimits(**limits))


class Load:
    """Clients that ask one answer after the other, on kept connections and on new ones, and what became of it."""

    def __init__(self, made: Gateways) -> None:
        self.made = made
        self.seen: Counter[str] = Counter()
        self.used = 0
        self._done = asyncio.Event()

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        async with asyncio.TaskGroup() as group:
            for number in range(CLIENTS):
                group.create_task(self._client(number))
            try:
                yield
            finally:
                self._done.set()

    async def _client(self, number: int) -> None:
        keep = aiohttp.TCPConnector(force_close=number % 2 == 0)
        async with aiohttp.ClientSession(connector=keep) as http:
            while not self._done.is_set():
                prompt, tokens = 3 + number, 5 + 7 * number
                fields = {"stream": True, "stream_options": {"include_usage": True}}
                try:
                    said = f"{prompt} {tokens} stop"
                    status, body = await self.made.ask(http, said, SECRET, **fields)
                except aiohttp.ClientConnectorError:
                    self.seen["refused"] += 1
                    continue
                except aiohttp.ClientError as error:
                    self.seen[f"cut: {type(error).__name__}"] += 1
                    continue
                whole = status == 200 and body.endswith(b"data: [DONE]\n\n")
                whole = whole and body.count(b'"content":"w ') == tokens
                self.seen["whole" if whole else f"not whole: {status} {body[-300:]!r}"] += 1
                self.used += orjson.loads(body.split(b"\n\n")[-3].removeprefix(b"data: "))["usage"][
                    "total_tokens"
                ]


async def test_nobody_is_refused_nothing_is_cut_and_all_is_counted() -> None:
    async with gateways(tell, keys=(key(tokens_per_day=10**9, parallel_requests=CLIENTS),)) as made:
        before = await made.start()
        await made.serves(before)
        load = Load(made)
        async with load.running():
            for _ in range(SWITCHES):
                await asyncio.sleep(0.5)
                after = await made.start("--take-over")
                await made.serves(after)
                await asyncio.sleep(0.5)
        assert set(load.seen) == {"whole"}
        assert load.seen["whole"] > CLIENTS * SWITCHES
        await eventually(lambda: all(each.returncode == 0 for each in made.started[:-1]))
        await eventually(lambda: made.used() == {"agent": load.used})
        made.started[-1].send_signal(signal.SIGTERM)
        assert await made.started[-1].wait() == 0
        assert made.used() == {"agent": load.used}
        assert made.owner() == 0
        assert (made.home / "gateway.lock").read_bytes() == b"", "the last one has ended in order"
