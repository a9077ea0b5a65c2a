"""As many clients as there can be, in a process of its own: those that send nothing, too much, or read nothing."""

from __future__ import annotations

import asyncio
import contextlib
import os
import resource
import signal
import ssl
import sys
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import aiohttp
import orjson
import pytest

from reconciler.inventory.gateway_probe import ask
from reconciler.state import GatewayAnswer
from reconciler.wire.gateway import Tls
from reconciler.wire.generation import Backend, Route, Routes
from tests.certificates import made as made_certificate
from tests.gateway.conftest import write_routes
from tests.gateway.rank_double import RankDouble, eventually, story
from tests.ports import free_port

pytestmark = pytest.mark.second_tier

PROGRAM = """
import resource, signal, sys, pathlib
def limit(count):
    resource.setrlimit(resource.RLIMIT_NOFILE, (count, count))
count = int(sys.argv[2])
if count:
    limit(count)
signal.signal(signal.SIGUSR1, lambda *_: limit(256))
from reconciler.gateway.process import run_gateway
sys.exit(run_gateway(pathlib.Path(sys.argv[1]), False))
"""
HALF = b"GET /health HTTP/1.1\r\nhost: local"
GREETING = b"\x16\x03\x01\x02\x00\x01\x00"
"""How a client begins to speak TLS; the rest of its first 512 bytes never comes."""
WHOLE = b"GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n"


@pytest.fixture
def descriptors() -> Iterator[int]:
    """How many this process may have meanwhile, and its gateways with it. MLX lowers the hard limit to 4096 for good,
    where another test of this process has imported it."""
    given = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = 65_536 if given[1] == resource.RLIM_INFINITY else given[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, given[1]))
    yield most
    resource.setrlimit(resource.RLIMIT_NOFILE, given)


class Gateway:
    def __init__(self, listen: str, pid: int, http: aiohttp.ClientSession, scheme: str = "http") -> None:
        self.url = f"{scheme}://{listen}"
        self.address = ("127.0.0.1", int(listen.rpartition(":")[2]))
        self.pid = pid
        self.http = http

    async def timed(self, **fields: Any) -> float:
        """Seconds of one completion."""
        body = {"model": "llama", "prompt": "a", "max_tokens": 4, "temperature": 0, **fields}
        began = time.monotonic()
        async with self.http.post(f"{self.url}/v1/completions", json=body) as answer:
            assert answer.status == 200, await answer.text()
            await answer.read()
        return time.monotonic() - began

    async def quickest(self, times: int) -> float:
        """Seconds of the quickest of so many completions: of what else the machine does it has the least."""
        return min([await self.timed() for _ in range(times)])

    def memory_bytes(self) -> int:
        pages = int(Path(f"/proc/{self.pid}/statm").read_text().split()[1])
        return pages * resource.getpagesize()


@contextlib.asynccontextmanager
async def gateway(
    home: Path, socket: Path, descriptors: int = 0, tls: Tls | None = None, **route: int
) -> AsyncIterator[Gateway]:
    """A gateway in its own process before one group; with so many descriptors, or with all there are."""
    listen = f"127.0.0.1:{free_port()}"
    backend = Backend(0, 1, str(socket), "node-a")
    model = Route("llama", (), route.get("context", 4096), 1, (backend,), 0.0, route.get("batch", 0))
    write_routes(home, Routes(1, 1, listen, 20.0, (model,), tls=tls))
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", PROGRAM, str(home), str(descriptors), stderr=asyncio.subprocess.DEVNULL
    )
    trusting = ssl.create_default_context(cafile=tls.certificate) if tls else True
    connector = aiohttp.TCPConnector(limit=0, ssl=trusting)
    try:
        async with aiohttp.ClientSession(connector=connector) as http:
            await eventually((home / "gateway.json").exists)
            made = Gateway(listen, process.pid, http, "https" if tls else "http")
            for _ in range(200):
                if await ask(made.url + "/v1") == GatewayAnswer(True):
                    break
                await asyncio.sleep(0.05)
            yield made
    finally:
        process.kill()
        await process.wait()


@contextlib.asynccontextmanager
async def connections(gateway: Gateway, count: int, sent: bytes) -> AsyncIterator[None]:
    """So many connections on which the same was sent."""
    writers: list[asyncio.StreamWriter] = []
    try:
        for begun in range(0, count, 100):
            made = await asyncio.gather(
                *(asyncio.open_connection(*gateway.address) for _ in range(min(100, count - begun)))
            )
            for _, writer in made:
                writers.append(writer)
                writer.write(sent)
            if sent == WHOLE:
                for reader, _ in made:
                    await reader.readuntil(b"}")
        yield
    finally:
        for writer in writers:
            writer.close()


async def test_400_half_sent_heads_with_256_descriptors_keep_nobody_out(home: Path) -> None:
    rank = await RankDouble(home / "0.sock", story(4)).start()
    async with gateway(home, rank.path, 256) as made:
        alone = await made.quickest(20)
        async with connections(made, 400, HALF):
            for _ in range(20):
                assert await ask(made.url + "/v1") == GatewayAnswer(True)
            assert await made.quickest(20) < 2 * alone + 0.01
        shortage = orjson.loads((home / "gateway.json").read_bytes())["shortage"]
        assert "256 descriptors" in shortage
    await rank.stop()


async def test_a_limit_that_is_lowered_while_it_runs_is_kept_to(home: Path) -> None:
    rank = await RankDouble(home / "0.sock", story(4)).start()
    async with gateway(home, rank.path) as made:
        os.kill(made.pid, signal.SIGUSR1)
        await eventually(lambda: "256 descriptors" in (home / "gateway.json").read_text())
        async with connections(made, 400, HALF):
            assert await ask(made.url + "/v1") == GatewayAnswer(True)
            assert await made.timed() > 0
    await rank.stop()


async def test_ten_thousand_connections_are_held_and_slow_nobody_down(home: Path, descriptors: int) -> None:
    rank = await RankDouble(home / "0.sock", story(4)).start()
    async with gateway(home, rank.path) as made:
        alone = await made.quickest(50)
        count = min(10_000, 3 * descriptors // 4)
        async with connections(made, count, WHOLE):
            async with made.http.get(made.url + "/metrics") as answer:
                assert f'reconciler_connections{{state="idle"}} {count:.1f}' in await answer.text()
            assert await made.quickest(50) < 2 * alone + 0.01
    await rank.stop()


@pytest.mark.needs("linux")
async def test_ten_thousand_handshakes_that_stall_slow_nobody_down_and_take_little_memory(
    home: Path, descriptors: int, tmp_path: Path
) -> None:
    tls = Tls(f"{tmp_path}/certificate.pem", f"{tmp_path}/key.pem")
    for path, content in zip((tls.certificate, tls.key), made_certificate(), strict=True):
        Path(path).write_bytes(content)
    rank = await RankDouble(home / "0.sock", story(4)).start()
    async with gateway(home, rank.path, tls=tls) as made:
        alone, before = await made.quickest(20), made.memory_bytes()
        count = min(10_000, 3 * descriptors // 4)
        async with connections(made, count, GREETING):
            slowest = await made.quickest(20)
            grown = made.memory_bytes() - before
            print(
                f"{count} handshakes: {alone * 1e3:.1f} ms, then {slowest * 1e3:.1f} ms; {grown / count:.0f} bytes each"
            )
            assert slowest < 2 * alone + 0.01
            assert grown < count * 100_000
        ended = 'reconciler_connections_ended_total{reason="slow_head"} '
        for _ in range(300):
            async with made.http.get(made.url + "/metrics") as answer:
                text = await answer.text()
            if 'reconciler_connections{state="unfinished"} 0.0' in text:
                break
            await asyncio.sleep(0.1)
        assert ended in text
    await rank.stop()


@pytest.mark.needs("linux")
async def test_a_header_of_86_megabytes_is_refused_unread(home: Path) -> None:
    rank = await RankDouble(home / "0.sock", story(4)).start()
    async with gateway(home, rank.path) as made:
        before = made.memory_bytes()
        reader, writer = await asyncio.open_connection(*made.address)
        writer.write(b"GET /health HTTP/1.1\r\nhost: localhost\r\nx-much: ")
        with contextlib.suppress(ConnectionError):
            for _ in range(86):
                writer.write(b"x" * 1_000_000)
                await writer.drain()
        assert (await reader.readline()).startswith(b"HTTP/1.1 431")
        assert made.memory_bytes() - before < 8_000_000
        writer.close()
    await rank.stop()
