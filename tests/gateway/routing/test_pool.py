"""Routes, connections and places for those who wait, without a server in front of them."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from reconciler.gateway.errors import ApiError
from reconciler.gateway.routing.connection import RankConnection, key_of
from reconciler.gateway.routing.pool import Pool
from reconciler.gateway.routing.routes import RoutesFile
from reconciler.gateway.routing.run import Run
from reconciler.gateway.routing.suspicion import Suspicion
from reconciler.gateway.routing.timeouts import Timing
from reconciler.wire import SPOKEN
from reconciler.wire.generation import Backend, Delta, Failed, Generate, Route, Routes
from tests.gateway.conftest import write_routes
from tests.gateway.rank_double import RankDouble, Turn, eventually, silent, story

TIMING = Timing(held_max=1, reconnect_first=0.01)


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
        self.file = RoutesFile(path / "routes.json")

    def write(self, *routes: Route, hold_seconds: float = 60.0, token: int = 1) -> None:
        self.written += 1
        write_routes(self.path, Routes(SPOKEN[-1], self.written, "127.0.0.1:1", hold_seconds, routes, token))

    async def rank(self, script: object = silent, epoch: int = 1) -> Backend:
        rank = RankDouble(self.path / f"r-{len(self.ranks)}.sock", script, epoch)  # type: ignore[arg-type]
        self.ranks.append(await rank.start())
        return Backend(len(self.ranks) - 1, epoch, str(rank.path), "node-a", None)

    def pool(self) -> Pool:
        self.file.refresh()
        return Pool(self.file, TIMING, reach, lambda: 1_700_000_000.0)


@asynccontextmanager
async def home() -> AsyncIterator[Home]:
    with tempfile.TemporaryDirectory(prefix="g-") as folder:
        made = Home(Path(folder))
        yield made
        for rank in made.ranks:
            await rank.stop()


class Waiter:
    def __init__(self, pool: Pool) -> None:
        self.woken = 0
        self.suspicion = Suspicion(pool, Generate("", ()), "chat", "req")

    def wake(self) -> None:
        self.woken += 1


def run(pool: Pool, ring: asyncio.Event | None = None) -> Run:
    return Run(pool, "llama", Generate("", ()), "chat", (ring or asyncio.Event()).set)


async def test_the_routes_of_one_controller_follow_each_other_and_no_alias_takes_a_name() -> None:
    async with home() as made:
        made.write(route(model="llama"))
        assert made.file.refresh()
        assert not made.file.refresh()
        made.write(route(model="qwen", aliases=("llama", "gpt-4o")), route(model="llama"))
        assert made.file.refresh()
        names = {name: each.model for name, each in made.file.names().items()}
        assert names == {"qwen": "qwen", "llama": "llama", "gpt-4o": "qwen"}


async def test_what_came_before_a_failure_is_told_before_it() -> None:
    async def play(turn: Turn) -> None:
        turn.send(
            Delta(turn.generate.request, (1,), "a word "),
            Failed(turn.generate.request, "context_length_exceeded", "too long"),
        )
        await turn.hang()

    async with home() as made:
        made.write(route(await made.rank(play)))
        pool = made.pool()
        await eventually(lambda: pool.connected() == {"llama": 1})
        rung = asyncio.Event()
        with run(pool, rung) as asking:
            asking.next_look()
            await rung.wait()
            assert [type(each).__name__ for each in asking.answers()] == ["Delta"]
            with pytest.raises(ApiError):
                asking.answers()
        pool.close()


async def test_a_rank_that_breaks_the_protocol_loses_its_connection() -> None:
    async def play(turn: Turn) -> None:
        turn.send(turn.generate)  # no rank may say that
        await turn.hang()

    async with home() as made:
        made.write(route(await made.rank(play)))
        pool = made.pool()
        await eventually(lambda: pool.connected() == {"llama": 1})
        with run(pool) as asking:
            asking.next_look()
            await eventually(lambda: made.ranks[0].connections > 1 or made.ranks[0].left)
        pool.close()


async def test_a_connection_that_fails_late_leaves_the_one_that_works_alone() -> None:
    async with home() as made:
        backend = await made.rank(story(1))
        protocols: list[asyncio.Protocol] = []

        async def noting(to: Backend, protocol: asyncio.Protocol) -> None:
            protocols.append(protocol)
            await reach(to, protocol)

        link = RankConnection(backend, TIMING, noting, lambda: None)
        assert key_of(backend) == (None, backend.socket, 1)
        link.open(0.0)
        await eventually(lambda: link.ready)
        protocols[0].connection_lost(None)
        link.open(asyncio.get_running_loop().time())
        await eventually(lambda: link.ready)
        protocols[0].connection_lost(None)
        assert link.ready
        link.close()


async def test_whoever_has_waited_for_longest_is_woken_first() -> None:
    async with home() as made:
        made.write(route())
        pool = made.pool()
        woken: list[int] = []

        class Numbered(Waiter):
            def __init__(self, number: int) -> None:
                super().__init__(pool)
                self.number = number

            def wake(self) -> None:
                woken.append(self.number)

        waiters = [Numbered(number) for number in range(50)]
        for waiter in waiters:
            pool.hold(waiter, started=True)
        pool.wake_held()
        assert woken == list(range(50))
        pool.close()


async def test_when_the_gateway_closes_every_request_is_told() -> None:
    async with home() as made:
        made.write(route())
        pool = made.pool()
        answered, held, gone = (Waiter(pool) for _ in range(3))
        for each in (answered, held, gone):
            pool.join(each)
        pool.leave(gone)
        assert pool.hold(held, started=False)
        pool.close()
        assert [each.woken for each in (answered, held, gone)] == [1, 1, 0]
