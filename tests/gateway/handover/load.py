"""Clients of a gateway that ask all the time, while one gateway takes over from another."""

from __future__ import annotations

import asyncio
import signal
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import orjson

from reconciler.services.lock import holder
from reconciler.wire.keys import AccessKey, KeyLimits, SecretHash, hash_of, secret_of
from tests.gateway.keys.test_accounting import tell
from tests.gateway.rank_double import eventually

from .gateways import Gateways, gateways

SECRET = secret_of(bytes([7] * 32))
CLIENTS = 8
SWITCHES = 3
KNOCK_SECONDS = 0.01
LOOK_SECONDS = 0.001


def key(**limits: int) -> AccessKey:
    return AccessKey("agent", (SecretHash(hash_of(SECRET)),), limits=KeyLimits(**limits))


class Load:
    """Clients that ask one answer after the other, on kept connections and on new ones, and what became of it."""

    def __init__(self, made: Gateways) -> None:
        self.made = made
        self.seen: Counter[str] = Counter()
        self.used = 0
        self._done = asyncio.Event()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        async with asyncio.TaskGroup() as group:
            for number in range(CLIENTS):
                group.create_task(self._client(number))
            group.create_task(self._knock())
            group.create_task(self._look())
            try:
                yield
            finally:
                self._done.set()

    async def _knock(self) -> None:
        """Connect all the time: whoever accepts, somebody does."""
        host, _, port = self.made.listen.rpartition(":")
        while not self._done.is_set():
            try:
                _, writer = await asyncio.open_connection(host, int(port))
                writer.close()
            except ConnectionError:
                self.seen["refused"] += 1
            await asyncio.sleep(KNOCK_SECONDS)

    async def _look(self) -> None:
        """Look all the time whether somebody holds the lock."""
        while not self._done.is_set():
            if holder(self.made.home / "gateway.lock") is None:
                self.seen["not locked"] += 1
            await asyncio.sleep(LOOK_SECONDS)

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


async def check_switches(**front: Any) -> None:
    """That nobody is refused, nothing is cut and all is counted once. ``front``: what the routes say of the endpoint."""
    limits = key(tokens_per_day=10**9, parallel_requests=3 * CLIENTS)
    async with gateways(tell, keys=(limits,), **front) as made:
        await made.serving()
        await eventually(lambda: _shares(made))
        load = Load(made)
        async with load.running():
            for _ in range(SWITCHES):
                await asyncio.sleep(0.5)
                await made.serving("--take-over")
                await asyncio.sleep(0.5)
        assert set(load.seen) == {"whole"}
        assert load.seen["whole"] > CLIENTS * SWITCHES
        await eventually(lambda: all(each.returncode == 0 for each in made.started[:-1]))
        await eventually(lambda: made.used() == {"agent": load.used})
        await eventually(lambda: _shares(made))
        made.started[-1].send_signal(signal.SIGTERM)
        assert await made.started[-1].wait() == 0
        assert made.used() == {"agent": load.used}
        assert made.owner() == 0
        assert (made.home / "gateway.lock").read_bytes() == b"", "the last one has ended in order"


def _shares(made: Gateways) -> bool:
    """Whether limits are shared, if they are to be."""
    return "limits_store" not in made.front or bool(made.state()["limits"]["shared"])
