"""What the gateway itself costs: a scripted rank behind it, and a bare relay of bytes beside it."""

from __future__ import annotations

import asyncio
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path

from reconciler.wire import SPOKEN
from reconciler.wire.codec import Hello, to_wire
from reconciler.wire.frames import encode, read
from reconciler.wire.generation import Backend, Delta, Finished, Generate, Machine, Route, Routes
from tests.bench.figures import Figure, paired
from tests.bench.streams import COUNT, stream
from tests.gateway.conftest import write_routes
from tests.gateway.rank_double import RankDouble, Turn, eventually, story
from tests.ports import free_port
from tests.processes import cpu_seconds

PAUSE_SECONDS = 0.02
"""Between two tokens of a stream: 50 a second, as fast as anybody reads."""
MODEL = "llama"
REQUEST = Generate("one", ({"role": "user", "content": COUNT},))


@dataclass
class Endpoint:
    """One way to the backend, and the process in its middle."""

    url: str
    pid: int


def measure(quick: bool) -> Iterator[Figure]:
    """Both ways at once: one is idle while the other is measured."""
    return iter(asyncio.run(_measure(quick)))


async def _measure(quick: bool) -> list[Figure]:
    streams, words, times, requests = (4, 5, 2, 5) if quick else (100, 100, 5, 200)
    async with AsyncExitStack() as stack:
        home = Path(tempfile.mkdtemp(prefix="r-"))
        stack.callback(shutil.rmtree, home)
        rank = await RankDouble(home / "0.sock", story(1)).start()
        stack.push_async_callback(rank.stop)
        backend = await stack.enter_async_context(_sse_backend(rank))
        direct = f"http://127.0.0.1:{backend}/v1"
        ours = await stack.enter_async_context(gateway(home, rank))
        relay = await stack.enter_async_context(_relay(backend))
        latency: tuple[list[float], list[float]] = ([], [])
        cost: tuple[list[float], list[float]] = ([], [])
        for _ in range(times):
            rank.script = story(1)
            latency[0].append(1000 * await added(ours.url, lambda: _direct_to_rank(rank), requests))
            latency[1].append(1000 * await added(relay.url, lambda: timed_stream(direct), requests))
            rank.script = story(words, pause=PAUSE_SECONDS)
            cost[0].append(await per_chunk(ours, streams, words))
            cost[1].append(await per_chunk(relay, streams, words))
    return [
        paired("gateway: added to an idle request", "ms", *latency, "<= 1 ms"),
        paired(f"gateway: CPU a chunk, {streams} streams", "us", *cost, "<= 50 us"),
    ]


async def added(url: str, direct: Callable[[], Awaitable[float]], requests: int) -> float:
    """Median seconds through, less median seconds without: one after the other in turns."""
    through, without = [], []
    for _ in range(requests):
        through.append(await timed_stream(url))
        without.append(await direct())
    return statistics.median(through) - statistics.median(without)


async def timed_stream(url: str) -> float:
    """Seconds of a request that is answered with one token."""
    started = time.perf_counter()
    await stream(url, MODEL, COUNT, 1)
    return time.perf_counter() - started


async def _direct_to_rank(rank: RankDouble) -> float:
    """A new connection and one request, as a client without a gateway would have it."""
    started = time.perf_counter()
    reader, writer = await asyncio.open_unix_connection(str(rank.path))
    writer.write(encode(to_wire(Hello("bench", SPOKEN))) + encode(to_wire(REQUEST)))
    while (frame := await read(reader)) is not None and frame["type"] != "finished":
        continue
    writer.close()
    return time.perf_counter() - started


async def per_chunk(endpoint: Endpoint, streams: int, words: int, pids: Sequence[int] = ()) -> float:
    """Microseconds of the process in the middle, or of others, for each chunk of a stream."""
    before = cpu_seconds(pids or [endpoint.pid])
    done = await asyncio.gather(*(stream(endpoint.url, MODEL, COUNT, words) for _ in range(streams)))
    return 1e6 * (cpu_seconds(pids or [endpoint.pid]) - before) / sum(len(one.events) for one in done)


@asynccontextmanager
async def gateway(home: Path, rank: RankDouble, machine: Machine | None = None) -> AsyncIterator[Endpoint]:
    """A gateway process with one rank behind it, on this machine or on another."""
    listen = f"127.0.0.1:{free_port()}"
    backend = Backend(0, rank.epoch, str(rank.path), "node-a", machine)
    write_routes(home, Routes(1, 1, listen, 20.0, (Route(MODEL, (), 4096, 1_700_000_000, (backend,)),)))
    command = [sys.executable, "-m", "reconciler", "--home", str(home), "gateway"]
    with _process(command) as process:
        await eventually(lambda: (home / "gateway.json").exists())
        yield Endpoint(f"http://{listen}/v1", process.pid)


@asynccontextmanager
async def _relay(backend: int) -> AsyncIterator[Endpoint]:
    port = free_port()
    command = [sys.executable, "-m", "tests.bench.relay", str(port), str(backend)]
    with _process(command) as process:
        assert process.stdout is not None
        process.stdout.readline()  # it says one when it listens
        yield Endpoint(f"http://127.0.0.1:{port}/v1", process.pid)


@contextmanager
def _process(command: list[str]) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate(timeout=10)


@asynccontextmanager
async def _sse_backend(rank: RankDouble) -> AsyncIterator[int]:
    """What the relay relays: the same script, told as server-sent events by an HTTP server; its port."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).lower()
        await reader.readexactly(int(head.partition(b"content-length:")[2].partition(b"\r\n")[0]))
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n")
        await rank.script(_Events(writer))
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield int(server.sockets[0].getsockname()[1])
    finally:
        server.close()


class _Events(Turn):
    """A turn of a script that speaks HTTP."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        super().__init__(REQUEST, writer, asyncio.Event())

    def send(self, *events: object) -> None:
        for event in events:
            text = event.text if isinstance(event, Delta) else ""
            body: dict[str, object] = {
                "id": "chatcmpl-0123456789abcdef01234567",
                "object": "chat.completion.chunk",
                "created": 1_700_000_000,
                "model": MODEL,
                "choices": [
                    {"index": 0, "logprobs": None, "finish_reason": None, "delta": {"content": text}}
                ],
            }
            if isinstance(event, Finished):
                body["usage"] = {"completion_tokens": event.completion_tokens}
            self._writer.write(b"data: " + json.dumps(body).encode() + b"\n\n")
