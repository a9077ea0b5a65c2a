"""Clients that connect at the very moment when a listening socket pauses or ends."""

from __future__ import annotations

import asyncio
import gc
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
from starlette.responses import PlainTextResponse

from reconciler.serving.addresses import bind
from reconciler.serving.certificates import Certificates
from reconciler.serving.limiter import ConnectionLimiter, ConnectionLimits
from reconciler.serving.listener import Listener
from tests.ports import free_port

REQUEST = b"GET / HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n"
TURNS = range(8)
"""Of the loop, between a connection and the pause: in which of them it is accepted is the loop's affair."""


@asynccontextmanager
async def listening() -> AsyncIterator[Listener]:
    """A listener that accepts."""
    sock = bind(f"127.0.0.1:{free_port()}", keys=False, any_port=True)
    made = Listener(
        PlainTextResponse("hello"),
        sock,
        ConnectionLimiter(ConnectionLimits.of(1024)),
        Certificates(),
        lambda wrong: b"",
    )
    try:
        await made.pause()
        await made.resume()
        yield made
    finally:
        await made.leave()


async def connected(made: Listener, turns: int, end: Callable[[], Awaitable[object]]) -> bytes:
    """Connect, let the loop turn so often, end what accepts; what the client is answered."""
    host, _, port = made.address.rpartition(":")
    client = socket.create_connection((host, int(port)))
    for _ in range(turns):
        await asyncio.sleep(0)
    await end()
    gc.collect()
    reader, writer = await asyncio.open_connection(sock=client)
    try:
        writer.write(REQUEST)
        async with asyncio.timeout(20):
            return await reader.read()
    except ConnectionResetError:
        return b""  # it has left the system's queue with the socket
    finally:
        writer.close()


@pytest.mark.second_tier
@pytest.mark.parametrize("turns", TURNS)
async def test_who_connects_just_before_a_pause_is_answered(turns: int) -> None:
    async with listening() as made:

        async def paused() -> None:
            await made.pause()
            await made.resume()

        assert (await connected(made, turns, paused)).endswith(b"hello")


@pytest.mark.second_tier
@pytest.mark.parametrize("turns", TURNS)
async def test_who_connects_just_before_the_end_is_told_so(turns: int) -> None:
    async with listening() as made:

        async def left() -> None:
            made.leave()
            await asyncio.sleep(0.05)

        assert await connected(made, turns, left) == b""
