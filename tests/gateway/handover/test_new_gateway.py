"""A new gateway takes over and counts what the old one reports, or it ends and leaves everything as it is."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import socket
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import orjson
import pytest

from reconciler.gateway.handover.channel import SOCKET, Channel, listening_at
from reconciler.gateway.handover.taking_over import NotHandedOver
from reconciler.gateway.metrics import Metrics
from reconciler.gateway.routing.timeouts import Timing
from reconciler.gateway.server import serve
from reconciler.wire.codec import Hello
from reconciler.wire.figures import ModelFigures
from reconciler.wire.handover import NEW, OLD, OLD_RECEIVES, Drain, Given, Report, Stop, Used
from reconciler.wire.keys import AccessKey, KeyUsage
from reconciler.wire.prompts import QuarantinedPrompt
from tests.gateway.conftest import SOURCES, Cluster
from tests.gateway.rank_double import eventually

Old = Callable[[Channel, int], Awaitable[None]]
"""An old gateway, with the descriptor of its listening socket; it closes the connection at the end."""


@contextlib.asynccontextmanager
async def new_gateway(old: Old) -> AsyncIterator[tuple[Cluster, asyncio.Task[None]]]:
    """One that takes over from an old one; nothing of either is open after the block."""
    cluster = Cluster(Path(tempfile.mkdtemp(prefix="r-")), 20.0)
    cluster.route(keys=(AccessKey("agent", ()),))
    with socket.create_server(("127.0.0.1", 0)) as listening, listening_at(cluster.home / SOCKET) as asked:

        async def answer() -> None:
            sock, _ = await asyncio.get_running_loop().sock_accept(asked)
            with contextlib.closing(Channel(sock, OLD_RECEIVES)) as channel, contextlib.suppress(OSError):
                await old(channel, listening.fileno())

        before = set(Path("/dev/fd").iterdir())
        answering = asyncio.create_task(answer())
        stop, timing = cluster.stop, Timing(shutdown=0.5)
        new = asyncio.create_task(serve(cluster.home, True, stop, timing, SOURCES, take_over=True))
        yield cluster, new
        await asyncio.wait([new, answering])
        answering.result()
        assert set(Path("/dev/fd").iterdir()) == before
    await cluster.client.close()
    await cluster.http.close()
    shutil.rmtree(cluster.home)


def port_of(listening: int) -> int:
    with socket.socket(fileno=os.dup(listening)) as sock:
        return int(sock.getsockname()[1])


async def says_nothing(old: Channel, listening: int) -> None:
    await old.receive(Hello)


async def sends_no_socket(old: Channel, listening: int) -> None:
    await old.greet(OLD, NEW, first=False)
    await old.send(Given("127.0.0.1:1", 1, 0))
    await old.receive(Drain)


async def sends_half(old: Channel, listening: int) -> None:
    await old.greet(OLD, NEW, first=False)
    await old.send(Given("127.0.0.1:1", 1, 1), descriptors=[listening])


async def drains_without_a_word(old: Channel, listening: int) -> None:
    await old.greet(OLD, NEW, first=False)
    await old.send(Given(f"127.0.0.1:{port_of(listening)}", 1, 0), descriptors=[listening])
    await old.receive(Drain)


async def drains_with_a_word_of_another_version(old: Channel, listening: int) -> None:
    await old.greet(OLD, NEW, first=False)
    await old.send(Given(f"127.0.0.1:{port_of(listening)}", 1, 0), descriptors=[listening])
    await old.receive(Drain)
    await old.send(Drain())


@pytest.mark.parametrize(
    ("old", "why"),
    [
        (says_nothing, "closed the connection"),
        (sends_no_socket, "no socket came"),
        (sends_half, "closed the connection"),
        (drains_without_a_word, "closed the connection"),
        (drains_with_a_word_of_another_version, "unknown message type 'drain'"),
    ],
)
async def test_a_new_gateway_that_is_not_given_all_ends_and_leaves_everything_as_it_is(
    old: Old, why: str
) -> None:
    async with new_gateway(old) as (cluster, new):
        with pytest.raises(NotHandedOver, match=why):
            await new
        assert {path.name for path in cluster.home.iterdir()} == {"routes.json", SOCKET}


PROMPT = QuarantinedPrompt("llama", "0" * 64, "r", "1 message", (), time.time(), time.time() + 1000.0)
BOUNDS, _ = Metrics(lambda: ()).figures()
TODAY = int(time.time() // 86_400)


def used(tokens: int) -> Used:
    return Used(KeyUsage("agent", TODAY, tokens, 1, int(time.time())), 1, 0, tokens)


def figures(running: int, tokens: int) -> ModelFigures:
    return ModelFigures("llama", running, 0, 0, (0,) * (len(BOUNDS) + 1), tokens)


def file(cluster: Cluster, name: str) -> dict[str, Any]:
    """The contents of a file; nothing before it is there."""
    path = cluster.home / name
    found = orjson.loads(path.read_bytes()) if path.exists() else {}
    assert isinstance(found, dict)
    return found


async def test_what_an_old_gateway_reports_is_in_the_files_of_the_new_one() -> None:
    told, seen = asyncio.Event(), asyncio.Event()

    async def reports(old: Channel, listening: int) -> None:
        await old.greet(OLD, NEW, first=False)
        given = Given(f"127.0.0.1:{port_of(listening)}", 4711, 1)
        await old.send(given, used(100), descriptors=[listening])
        await old.receive(Drain)
        await old.send(used(20), Report((figures(1, 120),)))
        await told.wait()
        await old.send(used(3), Report((figures(1, 123),), (PROMPT,)))
        await old.receive(Stop)
        seen.set()

    async with new_gateway(reports) as (cluster, new):
        await eventually(lambda: new.done() or bool(file(cluster, "figures.json")))
        figured = file(cluster, "figures.json")
        assert figured["pid"] == 4711, "its counts continue"
        assert [(each["running"], each["tokens"]) for each in figured["models"]] == [(1, 120)]
        told.set()
        await eventually(
            lambda: [each["tokens"] for each in file(cluster, "usage.json").get("keys", ())] == [123]
        )
        assert [each["digest"] for each in file(cluster, "prompts.json")["prompts"]] == [PROMPT.digest]
        cluster.stop.set()
        await new
        assert seen.is_set(), "it stops with the new one"
