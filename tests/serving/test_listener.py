"""Clients that connect at the very moment when a listening socket is handed over or ends."""

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
"""Of the loop, between a connection and the end of accepting: in which of them it is accepted is the loop's affair."""


@asynccontextmanager
async def listening() -> AsyncIterator[tuple[Listener, socket.socket]]:
    """A listener that accepts, and its socket for another one."""
    sock = bind(f"127.0.0.1:{free_port()}", keys=False, any_port=True)
    with sock.dup() as also:
        made = listener(sock)
        try:
            await made.begun()
            yield made, also
        finally:
            await made.leave()


def listener(sock: socket.socket) -> Listener:
    return Listener(
        PlainTextResponse("hello"),
        sock,
        ConnectionLimiter(ConnectionLimits.of(1024)),
        Certificates(),
        lambda wrong: b"",
    )


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
async def test_who_connects_while_another_listener_takes_over_is_answered(turns: int) -> None:
    async with listening() as (made, also):
        another = None

        async def handed_over() -> None:
            nonlocal another
            another = listener(also.dup())
            await another.begun()
            await made.accept_no_more()

        assert (await connected(made, turns, handed_over)).endswith(b"hello")
        assert another is not None
        await another.leave()


@pytest.mark.second_tier
@pytest.mark.parametrize("turns", TURNS)
async def test_who_connects_just_before_the_end_is_told_so(turns: int) -> None:
    async with listening() as (made, also):
        also.close()

        async def left() -> None:
            made.leave()
            await asyncio.sleep(0.05)

        assert await connected(made, turns, left) == b""
