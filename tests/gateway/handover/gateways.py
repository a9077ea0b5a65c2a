"""Gateways as processes of one home, one after the other, with doubles of ranks behind them."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import sys
import tempfile
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import aiohttp
import orjson

from reconciler.gateway.routing.timeouts import Timing
from reconciler.gateway.server import serve
from reconciler.services.lock import holder
from reconciler.wire.generation import Backend, Route, Routes
from reconciler.wire.keys import AccessKey
from tests.gateway.conftest import HELLO, SOURCES, Cluster, write_routes
from tests.gateway.rank_double import RankDouble, Script, Turn, eventually
from tests.ports import free_port

ROOT = Path(__file__).parents[3]


WORDS = 100
USED = 3 + WORDS
"""Tokens of a ``Tale``, with its prompt."""


class Tale:
    """A script of a rank that says a few words, and the others when it is told to."""

    def __init__(self) -> None:
        self.go_on = asyncio.Event()

    async def __call__(self, turn: Turn) -> None:
        turn.accept()
        for number in range(WORDS):
            if number == WORDS // 2:
                await self.go_on.wait()
            turn.say(f"w{number} ", number)
        turn.finish()


class Gateways:
    """A home, its ranks, and every gateway that was started for it."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.listen = f"127.0.0.1:{free_port()}"
        self.keys: tuple[AccessKey, ...] = ()
        self.front: dict[str, Any] = {}
        """What the routes say of the endpoint beyond its address."""
        self.ranks: list[RankDouble] = []
        self.started: list[asyncio.subprocess.Process] = []
        self._sequence = 0

    @property
    def log(self) -> str:
        """What all of them have logged."""
        return (self.home / "log").read_text()

    def url(self, path: str) -> str:
        return f"http://{self.listen}{path}"

    def route(self) -> None:
        """Write the routes."""
        self._sequence += 1
        backends = tuple(Backend(number, 1, str(rank.path), "n") for number, rank in enumerate(self.ranks))
        routes = (Route("llama", (), 100_000, 1_700_000_000, backends),)
        written = Routes(1, self._sequence, self.listen, 20.0, routes)
        if self.keys:
            written = replace(written, auth="keys", keys=self.keys)
        write_routes(self.home, replace(written, **self.front))

    async def start(self, *options: str) -> asyncio.subprocess.Process:
        """Start one. It may have to take over first."""
        command = (sys.executable, "-m", "reconciler", "--home", str(self.home), "gateway", *options)
        with (self.home / "log").open("ab") as log:
            process = await asyncio.create_subprocess_exec(*command, stderr=log, cwd=ROOT)
        self.started.append(process)
        return process

    def owner(self) -> int:
        """Pid of the gateway that has the lock, once it has said so; 0 if none has it."""
        found = holder(self.home / "gateway.lock")
        return found.pid if found else 0

    def state(self) -> dict[str, Any]:
        state = orjson.loads((self.home / "gateway.json").read_bytes())
        assert isinstance(state, dict)
        return state

    async def serves(self, process: asyncio.subprocess.Process) -> None:
        """Wait until a gateway has the lock and listens."""

        def so() -> bool:
            assert process.returncode is None, self.log
            path = self.home / "gateway.json"
            return self.owner() == process.pid and path.exists() and self.state()["pid"] == process.pid

        await eventually(so)

    async def serving(self, *options: str) -> asyncio.subprocess.Process:
        """Start one, and wait until it serves."""
        process = await self.start(*options)
        await self.serves(process)
        return process

    async def ask(
        self, http: aiohttp.ClientSession, said: str = "hello", secret: str = "", **fields: Any
    ) -> tuple[int, bytes]:
        """Ask, on a connection that is kept; the status and the whole body."""
        messages = [{"role": "user", "content": said}] if said != "hello" else HELLO
        headers = {"authorization": f"Bearer {secret}"} if secret else {}
        body = orjson.dumps({"model": "llama", "messages": messages, **fields})
        async with http.post(self.url("/v1/chat/completions"), data=body, headers=headers) as answer:
            return answer.status, await answer.read()

    def used(self) -> dict[str, int]:
        """Tokens of this day by key, as the file says."""
        try:
            keys = orjson.loads((self.home / "usage.json").read_bytes())["keys"]
        except FileNotFoundError:
            return {}
        return {key["name"]: key["tokens"] for key in keys}


@contextlib.asynccontextmanager
async def gateways(
    *scripts: Script, keys: tuple[AccessKey, ...] = (), **front: Any
) -> AsyncIterator[Gateways]:
    """A home with ranks; everything that was started ends with the block."""
    home = Path(tempfile.mkdtemp(prefix="r-"))
    made = Gateways(home)
    made.keys, made.front = keys, front
    try:
        for number, script in enumerate(scripts):
            rank = RankDouble(home / f"r-{number:012x}.sock", script)
            made.ranks.append(await rank.start())
        made.route()
        yield made
    finally:
        for process in made.started:
            with contextlib.suppress(ProcessLookupError):  # it may have ended just now
                process.kill()
            await process.wait()
        for rank in made.ranks:
            await rank.stop()
        shutil.rmtree(home)


@contextlib.asynccontextmanager
async def another(cluster: Cluster) -> AsyncIterator[None]:
    """Another gateway of this process has taken over, and serves within the block."""
    began, stop = cluster.state()["started_at"], asyncio.Event()
    serving = asyncio.create_task(serve(cluster.home, False, stop, Timing(), SOURCES, take_over=True))
    try:
        await eventually(lambda: serving.done() or cluster.state()["started_at"] > began)
        yield
    finally:
        stop.set()
        await serving
