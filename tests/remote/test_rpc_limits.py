"""What a connection counts and remembers: places, silences and numbers."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

import pytest

from reconciler.errors import Silent, Unreachable
from reconciler.remote.agent_connection import AgentConnection
from reconciler.remote.rpc import CONNECTIONS_MAX, REQUESTS_MAX
from reconciler.wire import SPOKEN, frames
from reconciler.wire.admin import Answer, Get
from reconciler.wire.codec import Hello, to_wire
from reconciler.wire.node import Changed

from .test_rpc import SECONDS, client, echo, pretending, serving

GET = Get("Node", None)


async def test_a_connection_may_ask_more_often_than_it_may_at_a_time() -> None:
    async with serving(echo) as path, client(path) as requester:
        for _ in range(2 * REQUESTS_MAX):
            await requester.request(GET, timeout=SECONDS)


async def test_there_are_no_more_connections_than_may_be_and_one_that_ends_makes_room() -> None:
    async with serving(echo) as path:
        held = [await asyncio.open_unix_connection(path) for _ in range(CONNECTIONS_MAX)]
        for reader, _ in held:
            assert await frames.read(reader) is not None
        with pytest.raises(Unreachable):
            async with client(path):
                pass
        held[0][1].close()
        await held[0][1].wait_closed()
        while True:
            try:
                async with client(path) as requester:
                    await requester.request(GET, timeout=SECONDS)
                break
            except Unreachable:
                await asyncio.sleep(0)  # the server has not read yet that there is room
        for _, writer in held[1:]:
            writer.close()
            await writer.wait_closed()


async def test_who_answers_again_was_silent_and_is_no_more() -> None:
    ended = asyncio.Event()

    async def answer_the_second(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(frames.encode(to_wire(Hello("controller", SPOKEN))))
        for _ in range(3):  # the greeting, what is not answered, and what is
            frame = await frames.read(reader)
        assert frame is not None
        writer.write(frames.encode({**to_wire(Answer({})), "reply": frame["call"]}))
        await ended.wait()

    async with pretending(answer_the_second) as path, client(path) as requester:
        with pytest.raises(Silent):
            await requester.request(GET, timeout=0.01)
        await requester.request(GET, timeout=SECONDS)
        ended.set()
        await requester.closed.wait()
        with pytest.raises(Unreachable) as caught:
            await requester.request(GET, timeout=SECONDS)
        assert not isinstance(caught.value, Silent)


async def test_a_push_brings_the_number_of_the_change() -> None:
    ours, theirs = socket.socketpair()
    reader, writer = await asyncio.open_connection(sock=ours)
    with theirs:
        link: Any = AgentConnection(reader, writer)
        link.pushed(Changed(7))
        changes = link.changes()
        assert await anext(changes) == 7
        await changes.aclose()
        await link.close()
