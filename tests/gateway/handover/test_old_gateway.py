"""An old gateway that is asked: it serves on if nothing comes of it, and else finishes its answers and leaves all else."""

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

from reconciler.gateway import files, server, state_file
from reconciler.gateway.handover import handing_over
from reconciler.gateway.handover.channel import SOCKET, Channel
from reconciler.gateway.handover.reports import Reports
from reconciler.gateway.keys.sharing import Sharing
from reconciler.gateway.routing.timeouts import Timing
from reconciler.gateway.server import serve
from reconciler.serving.addresses import address_of
from reconciler.serving.limiter import ConnectionLimits
from reconciler.wire.generation import Routes
from reconciler.wire.handover import NEW, NEW_RECEIVES, OLD, OLD_RECEIVES, Drain, Given, Report, Stop, Used
from reconciler.wire.keys import AccessKey, SecretHash, hash_of, secret_of
from tests.gateway.conftest import SOURCES, Cluster
from tests.gateway.rank_double import eventually
from tests.ports import free_port

SECRET = secret_of(bytes([7] * 32))
KEY = AccessKey("agent", (SecretHash(hash_of(SECRET)),))
NOTHING = "no gateway has taken over"


@contextlib.asynccontextmanager
async def serving() -> AsyncIterator[tuple[Cluster, asyncio.Task[None]]]:
    """A gateway that serves; it is stopped at the end, if it has not ended."""
    cluster = Cluster(Path(tempfile.mkdtemp(prefix="r-")), 20.0)
    cluster.route(keys=(KEY,))
    limits = ConnectionLimits(99, 99, 9, leaving_seconds=0.01)
    serving = serve(cluster.home, False, cluster.stop, Timing(shutdown=0.5), SOURCES, limits)
    task = asyncio.create_task(serving)
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
async def asking(cluster: Cluster) -> AsyncIterator[Channel]:
    """A new gateway that has said hello."""
    channel = Channel(socket.socket(socket.AF_UNIX), NEW_RECEIVES)
    with contextlib.closing(channel):
        await asyncio.get_running_loop().sock_connect(channel.sock, str(cluster.home / SOCKET))
        await channel.greet(NEW, OLD, first=True)
        yield channel


async def rest(channel: Channel) -> list[Used | Report]:
    """The reports until the old gateway has ended."""
    found: list[Used | Report] = []
    with contextlib.suppress(ConnectionResetError):
        while True:
            found.append(await channel.receive(Used, Report))
    return found


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
    async with aiohttp.ClientSession() as http, http.get(cluster.url("/health")) as answer:
        return answer.status == 200


async def test_a_new_gateway_for_which_there_is_no_descriptor_is_answered_later(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(handing_over, "AGAIN_SECONDS", 0.01)
    async with serving() as (cluster, task):
        with socket.socket(socket.AF_UNIX) as sock, no_more_descriptors():
            sock.connect(str(cluster.home / SOCKET))
            await eventually(lambda: task.done() or NOTHING in caplog.text)
        async with asking(cluster) as channel:
            assert (await channel.receive(Given)).listen == cluster.listen
        assert await answers(cluster)


async def test_a_fault_in_handing_over_ends_no_gateway(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handing_over, "AGAIN_SECONDS", 0.01)
    async with serving() as (cluster, _):
        with monkeypatch.context() as broken:
            broken.delattr(Reports, "news")
            async with asking(cluster) as channel:
                with pytest.raises(ConnectionResetError):
                    await channel.receive(Given)
        assert await answers(cluster)
        async with asking(cluster) as channel:
            await channel.receive(Given)


async def test_a_new_gateway_that_does_not_accept_in_time_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(handing_over, "AGAIN_SECONDS", 0.01)
    monkeypatch.setattr(handing_over, "DRAIN_SECONDS", 0.1)
    async with serving() as (cluster, _):
        before = set(Path("/dev/fd").iterdir())
        async with asking(cluster) as channel:
            await channel.receive(Given)
            with pytest.raises(ConnectionResetError):
                await channel.receive(Given)
        assert set(Path("/dev/fd").iterdir()) == before, "it has kept nothing of the conversation"
        async with asking(cluster) as channel:
            await channel.receive(Given)
            assert await answers(cluster)


async def test_what_is_given_in_the_middle_of_a_move_is_what_was_moved_to(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    follow, moving, go_on = Sharing.follow, asyncio.Event(), asyncio.Event()

    async def waits(self: Sharing, routes: Routes) -> None:
        moving.set()
        await go_on.wait()
        await follow(self, routes)

    async with serving() as (cluster, task):
        monkeypatch.setattr(Sharing, "follow", waits)
        cluster.listen = f"127.0.0.1:{free_port()}"
        cluster.route()
        await moving.wait()
        async with asking(cluster) as channel:
            receiving = asyncio.create_task(channel.receive(Given))
            await asyncio.wait([receiving], timeout=0.1)
            go_on.set()
            assert (await receiving).listen == cluster.listen
            with socket.socket(fileno=channel.descriptors.pop()) as sock:
                assert address_of(sock) == cluster.listen
        assert await answers(cluster)
        await eventually(lambda: task.done() or cluster.up())


async def test_a_gateway_that_is_stopped_while_it_is_asked_leaves_nothing_behind(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with serving() as (cluster, task), asking(cluster) as channel:
        await channel.receive(Given)
        cluster.stop.set()
        await task
        with pytest.raises(ConnectionResetError):
            await channel.receive(Given)
        assert [each for each in asyncio.all_tasks() if each.get_name() == "hand over"] == []
        assert NOTHING not in caplog.text


async def test_a_gateway_that_drains_writes_no_file_and_reports_until_its_last_client_has_gone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(state_file, "SAVED_SECONDS", 0.01)
    monkeypatch.setattr(files, "FIGURES_SECONDS", 0.01)
    monkeypatch.setattr(handing_over, "REPORT_SECONDS", 0.1)
    monkeypatch.setattr(server, "_REPORT_SECONDS", 30.0)
    async with serving() as (cluster, task), aiohttp.ClientSession(headers={"x-api-key": SECRET}) as kept:
        async with kept.get(cluster.url("/v1/models")) as answer:
            assert answer.status == 200
        await eventually(lambda: task.done() or (cluster.home / "usage.json").exists())
        async with asking(cluster) as channel:
            given = await channel.receive(Given)
            assert [(await channel.receive(Used)).usage.name for _ in range(given.keys)] == ["agent"]
            await channel.send(Drain())
            await channel.receive(Report)
            for path in cluster.home.iterdir():
                if path.suffix == ".json" and path.name != "routes.json":
                    path.unlink()
            for _ in range(3):
                await channel.receive(Report)
            assert [path.name for path in cluster.home.glob("*.json")] == ["routes.json"]
            async with kept.get(cluster.url("/v1/models")) as answer:
                assert answer.headers["connection"] == "close"
            await task
            assert not {t.get_name() for t in asyncio.all_tasks() if "report" in t.get_name()}, "all is said"
            assert isinstance((await rest(channel))[-1], Report)
        assert [path.name for path in cluster.home.glob("*.json")] == ["routes.json"]


async def test_a_gateway_that_drains_goes_on_without_the_new_one_and_stops_with_it() -> None:
    for stops in (False, True):
        async with serving() as (cluster, task), aiohttp.ClientSession(headers={"x-api-key": SECRET}) as kept:
            async with kept.get(cluster.url("/v1/models")) as answer:
                assert answer.status == 200
            async with asking(cluster) as channel:
                given = await channel.receive(Given)
                for _ in range(given.keys):
                    await channel.receive(Used)
                await channel.send(Drain())
                await channel.receive(Report)
                if stops:
                    await channel.send(Stop())
                    await task
            if not stops:
                async with kept.get(cluster.url("/v1/models")) as answer:
                    assert answer.status == 200
                await task


@pytest.mark.parametrize("over", [False, True], ids=["while it drains", "at its end"])
async def test_a_new_gateway_that_is_gone_is_told_nothing_more_and_the_old_one_goes_on(
    over: bool, caplog: pytest.LogCaptureFixture
) -> None:
    ours, theirs = socket.socketpair()
    theirs.close()
    ours.setblocking(False)
    channel, stop, finished = Channel(ours, OLD_RECEIVES), asyncio.Event(), asyncio.Event()
    if over:
        finished.set()

    await handing_over.report(channel, lambda: [Report()], stop, finished)

    assert "the new gateway is gone" in caplog.text
    assert not stop.is_set()
    assert ours.fileno() == -1
