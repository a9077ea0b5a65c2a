"""What the gateway itself costs: a scripted rank behind it, and beside it what people would put there instead."""

from __future__ import annotations

import asyncio
import shutil
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path

from reconciler.wire import SPOKEN
from reconciler.wire.codec import Hello, to_wire
from reconciler.wire.frames import encode, read
from reconciler.wire.generation import Generate
from tests.bench.asking import ask, processor_seconds
from tests.bench.backend import Backend, serving
from tests.bench.figures import Figure, paired
from tests.bench.middles import Middle, gateway, peers
from tests.bench.streams import COUNT

STEP_SECONDS = 0.02
"""Between two tokens of a stream: 50 a second, as fast as anybody reads."""
REQUEST = Generate("one", ({"role": "user", "content": COUNT},))
SLOW_SHARE = 5
"""What takes a millisecond for a chunk cannot keep this pace: it gets so much less to do."""


@dataclass
class _Costs:
    """Of one way, a value for each repetition."""

    chunk_us: list[float] = field(default_factory=list)
    request_us: list[float] = field(default_factory=list)
    added_ms: list[float] = field(default_factory=list)


def measure(quick: bool) -> Iterator[Figure]:
    """All ways at once: the others are idle while one is measured."""
    return iter(asyncio.run(_measure(quick)))


async def _measure(quick: bool) -> list[Figure]:
    streams, words, times, requests = (4, 5, 2, 5) if quick else (100, 250, 5, 200)
    async with AsyncExitStack() as stack:
        home = Path(tempfile.mkdtemp(prefix="r-"))
        stack.callback(shutil.rmtree, home)
        backend, port = await stack.enter_async_context(serving(home / "0.sock"))
        direct = f"http://127.0.0.1:{port}/v1"
        ways = [await stack.enter_async_context(gateway(home, home / "0.sock", keys=True))]
        ways += await stack.enter_async_context(peers(home, port, all_of_them=not quick))
        costs = {way.name: _Costs() for way in ways}
        for way in ways:
            await ask(way.url, 1, way.key)  # what is made at the first request is no part of the next ones
        for _ in range(times):
            for way in ways:
                share = SLOW_SHARE if way.name == "LiteLLM" else 1
                rank = direct_to_rank(home / "0.sock") if way is ways[0] else direct_to_http(direct)
                cost = costs[way.name]
                await _request(backend, way, rank, requests // share, cost)
                cost.chunk_us.append(await per_chunk(backend, way, streams, words // share))
    return [
        figure
        for name in list(costs)[1:]
        for figure in _beside(costs[ways[0].name], name, costs[name], streams)
    ]


def _beside(ours: _Costs, name: str, peer: _Costs, streams: int) -> Iterator[Figure]:
    chunk, request, added = ("<= 1.0", "<= 1.2", "<= 1.5") if name == "relay" else ("", "", "")
    yield paired(f"CPU a chunk, {streams} streams: {name}", "us", ours.chunk_us, peer.chunk_us, chunk)
    yield paired(f"CPU a request: {name}", "us", ours.request_us, peer.request_us, request)
    yield paired(f"added to a request: {name}", "ms", ours.added_ms, peer.added_ms, added)


async def _request(
    backend: Backend, way: Middle, direct: Callable[[], Awaitable[float]], requests: int, cost: _Costs
) -> None:
    """Short requests, one after the other: what each costs the middle, and by how much it is slower."""
    backend.words, backend.step_seconds = 1, 0.0
    before = processor_seconds(way.pids)
    seconds = await added(lambda: ask(way.url, 1, way.key), direct, requests)
    cost.added_ms.append(1e3 * seconds)
    cost.request_us.append(1e6 * (processor_seconds(way.pids) - before) / requests)


async def added(
    through: Callable[[], Awaitable[float]], direct: Callable[[], Awaitable[float]], requests: int
) -> float:
    """Median seconds through, less median seconds without: one after the other in turns."""
    longer, shorter = [], []
    for _ in range(requests):
        longer.append(await through())
        shorter.append(await direct())
    return statistics.median(longer) - statistics.median(shorter)


def direct_to_http(url: str) -> Callable[[], Awaitable[float]]:
    """As a client without anything in the middle would have it."""
    return lambda: ask(url, 1)


def direct_to_rank(socket: Path) -> Callable[[], Awaitable[float]]:
    """A new connection and one request, as a client without a gateway would have it."""

    async def once() -> float:
        began = time.perf_counter()
        reader, writer = await asyncio.open_unix_connection(str(socket))
        writer.write(encode(to_wire(Hello("bench", SPOKEN))) + encode(to_wire(REQUEST)))
        while (frame := await read(reader)) is not None and frame["type"] != "finished":
            continue
        took = time.perf_counter() - began
        writer.close()
        return took

    return once


async def per_chunk(
    backend: Backend, way: Middle, streams: int, words: int, pids: Sequence[int] = ()
) -> float:
    """Microseconds of the processes in the middle, or of others, for each chunk of a stream."""
    backend.words, backend.step_seconds = words, STEP_SECONDS
    before = processor_seconds(pids or way.pids)
    await asyncio.gather(*(ask(way.url, words, way.key) for _ in range(streams)))
    return 1e6 * (processor_seconds(pids or way.pids) - before) / (streams * words)
