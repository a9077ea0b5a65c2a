"""Routes and connections without a server in front of them, and a machine whose ranks are reached through SSH."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from reconciler.gateway.routing.pool import Pool
from reconciler.gateway.routing.routes import RoutesFile
from reconciler.gateway.routing.timeouts import Timing
from reconciler.wire import SPOKEN
from reconciler.wire.generation import Backend, Route, Routes
from reconciler.wire.prompts import QuarantinedPrompt
from tests.gateway.conftest import write_routes
from tests.gateway.rank_double import RankDouble, Script, eventually, silent
from tests.needs import needing
from tests.ports import free_port
from tests.sshd import Sshd, sshd

TIMING = Timing(held_max=1, reconnect_first=0.01)
WALL = 1_700_000_000.0


def route(*backends: Backend, model: str = "llama", aliases: tuple[str, ...] = ()) -> Route:
    return Route(model, aliases, 4096, 1_700_000_000, backends, 0.0)


async def reach(backend: Backend, protocol: asyncio.Protocol) -> None:
    await asyncio.get_running_loop().create_unix_connection(lambda: protocol, backend.socket)


class Home:
    """A folder with a routes file, and the ranks that it names."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.written = 0
        self.ranks: list[RankDouble] = []
        self.pools: list[Pool] = []
        self.file = RoutesFile(path / "routes.json")

    def write(self, *routes: Route, hold_seconds: float = 60.0, token: int = 1) -> None:
        self.written += 1
        write_routes(self.path, Routes(SPOKEN[-1], self.written, "127.0.0.1:1", hold_seconds, routes, token))

    async def rank(self, script: object = silent, epoch: int = 1) -> Backend:
        rank = RankDouble(self.path / f"r-{len(self.ranks)}.sock", script, epoch)  # type: ignore[arg-type]
        self.ranks.append(await rank.start())
        return Backend(len(self.ranks) - 1, epoch, str(rank.path), "node-a", None)

    def pool(self, *quarantined: QuarantinedPrompt, timing: Timing = TIMING) -> Pool:
        """A pool of the routes, until the end of the test."""
        self.file.refresh()
        self.pools.append(Pool(self.file, timing, reach, lambda: WALL, quarantined))
        return self.pools[-1]


@pytest.fixture
async def made(home: Path) -> AsyncIterator[Home]:
    made = Home(home)
    yield made
    for pool in made.pools:
        pool.close()
    for rank in made.ranks:
        await rank.stop()


class Groups:
    """A pool before groups of one rank each."""

    def __init__(self, at: Home) -> None:
        self.at = at
        self.pool = at.pool()
        self.routes: list[Route] = []

    async def route(self, *scripts: Script, epoch: int = 1, batch: int = 0) -> list[RankDouble]:
        """The groups that the routes name from now on, connected."""
        backends = [await self.at.rank(script, epoch) for script in scripts]
        self.at.write(replace(route(*backends), batch=batch))
        self.pool.refresh()
        await eventually(lambda: self.pool.connected() == {"llama": len(scripts)})
        return self.at.ranks[-len(scripts) :]

    def ended(self, reason: str) -> float:
        """How many requests have ended so."""
        return self.sample(f'vllm:request_success_total{{finished_reason="{reason}",model_name="llama"}}')

    def sample(self, name: str) -> float:
        lines = self.pool.metrics.page().decode().splitlines()
        return next(float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith(name))


@pytest.fixture
async def groups(made: Home) -> Groups:
    """A pool that no routes have named a group for yet."""
    made.write(route())
    return Groups(made)


@pytest.fixture
@needing("sshd")
async def machine(tmp_path: Path) -> AsyncIterator[Sshd]:
    async with sshd(tmp_path / "sshd", free_port()) as server:
        yield server
