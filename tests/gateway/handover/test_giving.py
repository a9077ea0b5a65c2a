"""The old gateway's side: whatever goes wrong while it hands over, it serves on, or ends with a reason."""

from __future__ import annotations

import asyncio
import contextlib
import resource
import shutil
import socket
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import aiohttp
import pytest

from reconciler.errors import Conflict
from reconciler.gateway.estate import Estate
from reconciler.gateway.handover import giving
from reconciler.gateway.handover.lock import Lock
from reconciler.gateway.handover.messages import SOCKET, NotHandedOver
from reconciler.gateway.handover.taking import Taking
from reconciler.gateway.keys.sharing import Sharing
from reconciler.gateway.routing.timeouts import Timing
from reconciler.gateway.server import serve
from reconciler.serving.addresses import address_of
from reconciler.wire.generation import Routes
from reconciler.wire.handover import Offer
from tests.gateway.conftest import SOURCES, Cluster
from tests.gateway.rank_double import eventually
from tests.ports import free_port


@contextlib.asynccontextmanager
async def serving() -> AsyncIterator[tuple[Cluster, asyncio.Task[None]]]:
    """A gateway that serves; it is stopped at the end, if it has not ended."""
    cluster = Cluster(Path(tempfile.mkdtemp(prefix="r-")), 20.0)
    cluster.route()
    task = asyncio.create_task(serve(cluster.home, False, cluster.stop, Timing(shutdown=0.5), SOURCES))
    try:
        await eventually(lambda: task.done() or cluster.up())
        yield cluster, task
    finally:
        await cluster.client.close()
        await cluster.http.close()
        cluster.stop.set()
        await asyncio.wait([task])
        shutil.rmtree(cluster.home)


@contextlib.asynccontextmanager
async def asking(cluster: Cluster) -> AsyncIterator[Taking]:
    taking = await asyncio.to_thread(Taking, cluster.home, _inherits_nothing, False)
    with contextlib.closing(taking):
        yield taking


def _inherits_nothing(descriptor: int) -> Lock:
    raise AssertionError("there was no lock")


async def taken(taking: Taking) -> None:
    """Have the gateway say all, and leave the listening socket to it."""
    (await asyncio.to_thread(taking.take)).sock.close()


@contextlib.contextmanager
def no_more_descriptors() -> Iterator[None]:
    """This process may open nothing within the block."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))  # the standard ones, which are open
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


async def answers(cluster: Cluster) -> bool:
    """Whether who connects now is answered."""
    async with aiohttp.ClientSession() as http, http.get(cluster.url("/v1/models")) as answer:
        return answer.status == 200


async def test_a_gateway_that_cannot_accept_again_ends_and_says_why() -> None:
    async with serving() as (cluster, task), asking(cluster) as taking:
        await taken(taking)
        with no_more_descriptors():
            taking.close()
            with pytest.raises(Conflict, match="cannot accept again: Too many open files"):
                await asyncio.wait_for(task, 5.0)


async def test_a_successor_for_whom_there_is_no_descriptor_is_answered_later(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(giving, "AGAIN_SECONDS", 0.01)
    async with serving() as (cluster, task):
        with socket.socket(socket.AF_UNIX) as sock, no_more_descriptors():
            sock.connect(str(cluster.home / SOCKET))
            await eventually(lambda: task.done() or "nothing is handed over" in caplog.text)
        async with asking(cluster) as taking:
            assert taking.offer == Offer(cluster.listen, cluster.listen)
        assert await answers(cluster)


async def test_a_fault_in_handing_over_ends_no_gateway(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(giving, "AGAIN_SECONDS", 0.01)
    async with serving() as (cluster, _):
        with monkeypatch.context() as broken:
            broken.delattr(Estate, "given")
            async with asking(cluster) as taking:
                with pytest.raises(NotHandedOver):
                    await asyncio.to_thread(taking.take)
        assert await answers(cluster)
        async with asking(cluster) as taking:
            await taken(taking)


async def test_what_is_handed_over_in_the_middle_of_a_move_is_what_was_moved_to(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    follow, moving, go_on = Sharing.follow, asyncio.Event(), asyncio.Event()

    async def waits(self: Sharing, routes: Routes) -> None:
        moving.set()
        await go_on.wait()
        await follow(self, routes)

    async with serving() as (cluster, task):
        async with asking(cluster) as taking:
            monkeypatch.setattr(Sharing, "follow", waits)
            cluster.listen = f"127.0.0.1:{free_port()}"
            cluster.route()
            await moving.wait()
            take = asyncio.create_task(asyncio.to_thread(taking.take))
            await asyncio.wait([take], timeout=0.1)
            go_on.set()
            with (handed := await take).sock:
                assert address_of(handed.sock) == handed.given.listen == cluster.listen
        assert await answers(cluster)
        await eventually(lambda: task.done() or cluster.up())


async def test_a_gateway_that_is_stopped_in_the_middle_of_the_switch_leaves_nothing_behind(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with serving() as (cluster, task), asking(cluster) as taking:
        await taken(taking)
        cluster.stop.set()
        await task
        assert [each for each in asyncio.all_tasks() if each.get_name() == "hand over"] == []
        assert "nothing is handed over" not in caplog.text
