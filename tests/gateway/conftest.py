"""A real gateway on a loopback port, with real Unix sockets behind it."""

from __future__ import annotations

import asyncio
import contextlib
import io
import secrets
import shutil
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

import aiohttp
import orjson
import pytest
from openai import AsyncOpenAI

from reconciler.gateway import state_file
from reconciler.gateway.dialects.dialect import Sources
from reconciler.gateway.routing.timeouts import Timing
from reconciler.gateway.server import serve
from reconciler.remote.gateway_key import ensure_line, public_key, relay_line
from reconciler.remote.runtime.agent_file import write_bundle
from reconciler.serving.limiter import ConnectionLimits
from reconciler.wire.codec import to_wire
from reconciler.wire.generation import Backend, Formed, Machine, Route, Routes
from reconciler.wire.keys import AccessKey
from reconciler.wire.prompts import QuarantinedPrompt
from tests.ports import free_port
from tests.sshd import Sshd

from .rank_double import RankDouble, Script, eventually

HELLO: Any = [{"role": "user", "content": "hello"}]
SOURCES = Sources(time.time, lambda: secrets.token_hex(12), lambda: secrets.randbits(63))


def write_routes(home: Path, routes: Routes) -> None:
    """Replace the routes file as the controller does: atomically."""
    draft = home / "routes.draft"
    draft.write_bytes(orjson.dumps(to_wire(routes)))
    draft.replace(home / "routes.json")


class Routed(Protocol):
    """A rank 0 that a route can name."""

    @property
    def path(self) -> Path: ...

    @property
    def epoch(self) -> int: ...


class Cluster:
    """A gateway, its routes and its ranks."""

    def __init__(self, home: Path, hold_seconds: float) -> None:
        self.home = home
        self.listen = f"127.0.0.1:{free_port()}"
        self.hold_seconds = hold_seconds
        self.sequence = 0
        self.token = 0
        self.front: dict[str, Any] = {}
        """What the routes say of the endpoint beyond its address."""
        self.machine: Machine | None = None
        """Where all ranks are, if they are to be reached through SSH."""
        self.ranks: list[RankDouble] = []
        self.stop = asyncio.Event()
        self.client = AsyncOpenAI(base_url=self.url("/v1"), api_key="unused", max_retries=0, timeout=60)
        self.http = aiohttp.ClientSession()

    def url(self, path: str) -> str:
        return f"http://{self.listen}{path}"

    @property
    def address(self) -> tuple[str, int]:
        """Host and port, for connections without a client of HTTP."""
        host, _, port = self.listen.rpartition(":")
        return host, int(port)

    async def rank(self, script: Script, epoch: int = 1) -> RankDouble:
        """Start one more rank 0; ``route`` makes it known."""
        rank = RankDouble(self.home / f"r-{len(self.ranks):012x}.sock", script, epoch)
        self.ranks.append(rank)
        return await rank.start()

    def route(
        self,
        *ranks: Routed,
        model: str = "llama",
        stall_seconds: float = 0.0,
        context: int = 4096,
        formed: tuple[Formed, ...] = (),
        attempt_at: float = 0.0,
        batch: int = 0,
        hosts: tuple[str, ...] = (),
        keys: tuple[AccessKey, ...] | None = None,
        beside: tuple[Route, ...] = (),
    ) -> None:
        """Write the routes: one model, and whoever answers for it. With ``keys``, requests need one of them."""
        self.sequence += 1
        backends = tuple(
            Backend(index, rank.epoch, str(rank.path), "node-a", self.machine, ("node-a", "node-b"))
            for index, rank in enumerate(ranks)
        )
        route = Route(
            model,
            ("gpt-4o",),
            context,
            1_700_000_000,
            backends,
            stall_seconds,
            formed=formed,
            attempt_at=attempt_at,
            batch=batch,
        )
        routes = Routes(1, self.sequence, self.listen, self.hold_seconds, (route, *beside), self.token, hosts)
        if keys is not None:
            routes = replace(routes, auth="keys", keys=keys)
        write_routes(self.home, replace(routes, **self.front))

    async def routed(self, *ranks: Routed, **fields: Any) -> None:
        """Write the routes, and wait until they are in force."""
        self.route(*ranks, **fields)
        await self.until(self.up)

    def state(self) -> dict[str, Any]:
        """What the gateway says of itself."""
        state = orjson.loads((self.home / "gateway.json").read_bytes())
        assert isinstance(state, dict)
        return state

    async def until(self, condition: Callable[[], bool]) -> None:
        await eventually(condition)

    async def until_connected(self, count: int) -> None:
        """Wait until so many groups can be asked."""
        for _ in range(2000):
            async with self.http.get(self.url("/ready")) as answer:
                if orjson.loads(await answer.read())["models"] == {"llama": count}:
                    return
            await asyncio.sleep(0.01)
        raise TimeoutError(f"never were {count} groups connected")

    async def until_sample(self, name: str, value: float) -> None:
        """Wait until a metric has a value."""
        for _ in range(2000):
            if (await self.samples()).get(name) == value:
                return
            await asyncio.sleep(0.02)
        raise TimeoutError(f"{name} never became {value}")

    async def until_waiting(self, count: int) -> None:
        """Wait until so many requests for ``llama`` have come, of which nothing is computed yet."""
        await self.until_sample('vllm:num_requests_waiting{model_name="llama"}', count)

    async def samples(self, **headers: str) -> dict[str, float]:
        """Every sample by its name with labels, as Prometheus would read it."""
        async with self.http.get(self.url("/metrics"), headers=headers) as answer:
            assert answer.status == 200
            assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
            text = await answer.text()
        lines = [line for line in text.splitlines() if line and not line.startswith("#")]
        return {name: float(value) for name, value in (line.rsplit(" ", 1) for line in lines)}

    def up(self) -> bool:
        return (self.home / "gateway.json").exists() and self.state()["sequence"] == self.sequence

    async def post(self, body: Any, **headers: str) -> tuple[int, dict[str, str], Any]:
        """Status, headers (lower case) and JSON of a chat completion asked for without any SDK."""
        data = io.BytesIO(body if isinstance(body, bytes) else orjson.dumps(body))
        async with self.http.post(self.url("/v1/chat/completions"), data=data, headers=headers) as answer:
            names = {name.lower(): value for name, value in answer.headers.items()}
            return answer.status, names, orjson.loads(await answer.read())

    async def events(self, **fields: Any) -> list[str]:
        """The lines of a streamed chat completion, without the empty ones."""
        body = {"model": "llama", "messages": HELLO, "stream": True, **fields}
        async with self.http.post(self.url("/v1/chat/completions"), data=orjson.dumps(body)) as answer:
            assert answer.status == 200, await answer.text()
            text = (await answer.read()).decode()
        return [line for line in text.split("\n") if line]

    async def chunks(self, **fields: Any) -> AsyncIterator[dict[str, Any]]:
        """The chunks of a streamed chat completion, each as soon as it comes."""
        body = {"model": "llama", "messages": HELLO, "stream": True, **fields}
        async with self.http.post(self.url("/v1/chat/completions"), data=orjson.dumps(body)) as answer:
            assert answer.status == 200, await answer.text()
            async for line in answer.content:
                if line.startswith(b"data: {"):
                    yield orjson.loads(line[6:])


def let_in(server: Sshd, home: Path) -> str:
    """Have a machine let the gateway of ``home`` reach the ranks whose sockets are there; the line that does it."""
    agent = write_bundle(home / "agents")
    line = relay_line(sys.executable, str(agent), str(home), public_key(home / "keys" / "gateway"))
    server.authorized.write_text(ensure_line(server.authorized.read_text(), line))
    return line


TICK_SECONDS, STEP_SECONDS_MAX = 0.02, 0.05


class _Awake:
    """Seconds in which this process ran, as far as it looked at the clock."""

    def __init__(self, now: float) -> None:
        self._now = now
        self._seen = time.monotonic()

    def __call__(self) -> float:
        seen = time.monotonic()
        self._now += min(seen - self._seen, STEP_SECONDS_MAX)
        self._seen = seen
        return self._now


@pytest.fixture
async def awake(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[None]:
    """The event loop's time stands still while the process does.

    The gateway shares the loop with its clients and the doubles of its ranks: when that stands still for a second,
    none of them has been silent for one.
    """
    loop = asyncio.get_running_loop()
    monkeypatch.setattr(loop, "time", _Awake(loop.time()))

    ticking = loop.call_later(TICK_SECONDS, lambda: tick())

    def tick() -> None:
        nonlocal ticking
        ticking = loop.call_later(TICK_SECONDS, tick)

    yield
    ticking.cancel()


@pytest.fixture
def home() -> Iterator[Path]:
    """A path that leaves room for sockets."""
    path = Path(tempfile.mkdtemp(prefix="r-"))
    yield path
    shutil.rmtree(path)


Start = Callable[..., Awaitable[Cluster]]


@pytest.fixture
async def start(awake: None) -> AsyncIterator[Start]:
    """Call with a rank's script, or none for a model without a living group; all of them are connected then."""
    async with contextlib.AsyncExitStack() as stack:

        async def begin(
            *scripts: Script,
            hold_seconds: float = 20.0,
            timing: Timing | None = None,
            limits: ConnectionLimits | None = None,
            through: Sshd | None = None,
            prompts: tuple[QuarantinedPrompt, ...] = (),
        ) -> Cluster:
            home = Path(tempfile.mkdtemp(prefix="r-"))
            cluster = Cluster(home, hold_seconds)
            if through is not None:
                cluster.machine = through.machine
                let_in(through, home)
            if prompts:
                state_file.write_prompts(home / "prompts.json", prompts)
            serving = asyncio.create_task(
                serve(home, False, cluster.stop, timing or Timing(shutdown=0.5, hello=60.0), SOURCES, limits)
            )
            stack.push_async_callback(end, cluster, serving)
            cluster.route(*[await cluster.rank(script) for script in scripts])
            await cluster.until(lambda: serving.done() or cluster.up())
            if serving.done():
                await serving
            await cluster.until_connected(len(scripts))
            return cluster

        async def end(cluster: Cluster, serving: asyncio.Task[None]) -> None:
            await cluster.client.close()
            await cluster.http.close()
            cluster.stop.set()
            async with asyncio.timeout(30):
                await serving
            for rank in cluster.ranks:
                await rank.stop()
            shutil.rmtree(cluster.home)

        yield begin
