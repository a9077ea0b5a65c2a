"""What one side of a connection sends is read by the other in its order, whenever it was sent."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from typing import Any

import pytest

from reconciler.agent.system.connection import Peer
from reconciler.wire import SPOKEN, frames
from reconciler.wire.codec import Hello, Refused, to_wire
from reconciler.wire.frames import read
from reconciler.wire.node import SHIM_RECEIVES, Terminate
from tests.agent.bench import SOON_SECONDS, soon

MIB = 1024 * 1024


class Side:
    """One side of a connection, and what it has heard; the other side is written and read byte by byte."""

    def __init__(self) -> None:
        self.heard: list[tuple[Any, int | None]] = []
        self.drained = 0
        self.ended = asyncio.Event()
        self.answer_bytes = 0
        self.peer = Peer("shim", SHIM_RECEIVES, self._hear, lambda _: None, lambda _: self.ended.set())
        self.peer.on_drained = self._drain

    def _hear(self, peer: Peer, message: Any, request: int | None) -> None:
        self.heard.append((message, request))
        if self.answer_bytes and request is not None:
            peer.reply(request, Refused("Long", "x" * self.answer_bytes))

    def _drain(self, peer: Peer) -> None:
        self.drained += 1

    async def connect(self) -> None:
        ours, theirs = socket.socketpair()
        await asyncio.get_running_loop().create_connection(lambda: self.peer, sock=ours)
        self.reader, self.writer = await asyncio.open_connection(sock=theirs, limit=2**16)

    def say(self, *messages: Any) -> None:
        for message in messages:
            self.writer.write(frames.encode(message if isinstance(message, dict) else to_wire(message)))

    async def frame(self) -> Any:
        async with asyncio.timeout(SOON_SECONDS):
            return await read(self.reader)


@pytest.fixture
async def side() -> AsyncIterator[Side]:
    """A side that is connected, and has greeted."""
    made = Side()
    await made.connect()
    assert await made.frame() == to_wire(Hello("shim", SPOKEN))
    yield made
    made.peer.abort()
    made.writer.close()
    await soon(made.ended.is_set)


async def test_what_is_sent_before_the_connection_is_there_follows_the_greeting() -> None:
    ours, theirs = socket.socketpair()
    peer = Peer("agent", {}, lambda *_: None, lambda _: None, lambda _: None)
    messages = [Refused("Late", text) for text in ("one", "two", "three")]
    for message in messages[:2]:
        peer.send(message)
    await asyncio.get_running_loop().create_connection(lambda: peer, sock=ours)
    peer.send(messages[2])
    reader, writer = await asyncio.open_connection(sock=theirs)
    heard = [await read(reader) for _ in range(4)]
    assert heard == [to_wire(message) for message in (Hello("agent", SPOKEN), *messages)]
    peer.close()
    writer.close()


async def test_who_does_not_read_is_answered_no_more_until_it_does(side: Side) -> None:
    side.answer_bytes = MIB // 4
    side.say(Hello("agent", SPOKEN), *({**to_wire(Terminate(1.0)), "call": number} for number in range(40)))
    await soon(lambda: side.peer.congested)
    answered = len(side.heard)
    transport = side.peer._transport
    assert transport is not None
    assert not transport.is_reading(), "and so is what waits for an answer"
    assert MIB // 2 < transport.get_write_buffer_size() < 3 * MIB // 2, "what is not sent is bounded"
    await asyncio.sleep(0.01)
    assert (len(side.heard), side.drained) == (answered, 0)
    assert answered < 40
    answers = [await side.frame() for _ in range(40)]
    assert [answer["reply"] for answer in answers] == list(range(40))
    await soon(lambda: not side.peer.congested)
    assert (side.drained > 0, transport.is_reading()) == (True, True)
    side.say(Terminate(2.0))
    await soon(lambda: side.heard[-1] == (Terminate(2.0), None))


async def test_what_is_not_understood_is_refused_where_an_answer_is_asked_for(side: Side) -> None:
    side.say(
        Hello("agent", SPOKEN),
        {"type": "terminate", "grace_seconds": "soon", "call": 1},
        {"type": "terminate", "grace_seconds": "soon"},
        {"type": "terminate", "grace_seconds": "soon", "call": "x"},
        {**to_wire(Terminate(3.0)), "call": 2},
    )
    answer = await side.frame()
    assert (answer["type"], answer["code"], answer["reply"]) == ("refused", "Malformed", 1)
    await soon(lambda: side.heard == [(Terminate(3.0), 2)])


@pytest.mark.parametrize(
    "first",
    [to_wire(Terminate(1.0)), to_wire(Hello("agent", (99,))), {"type": "hello"}],
    ids=["no greeting", "another version", "half a greeting"],
)
async def test_who_does_not_greet_first_is_left(side: Side, first: dict[str, Any]) -> None:
    side.say(first, Terminate(2.0))
    await soon(side.ended.is_set)
    assert (side.heard, side.peer.greeted) == ([], False)


async def test_bytes_that_are_no_frame_end_the_connection(side: Side) -> None:
    side.say(Hello("agent", SPOKEN))
    side.writer.write(b"\xff\xff\xff\xff")
    await soon(side.ended.is_set)


async def test_an_answer_that_is_too_long_is_refused_in_its_place(side: Side) -> None:
    side.say(Hello("agent", SPOKEN))
    side.peer.reply(7, Refused("Long", "x" * frames.FRAME_BYTES_MAX))
    answer = await side.frame()
    assert (answer["code"], answer["reply"]) == ("TooLong", 7)


async def test_what_is_sent_is_delivered_before_a_close_and_nothing_is_kept_for_a_connection_that_is_over(
    side: Side,
) -> None:
    side.peer.send(Refused("Last", "words"))
    side.peer.close()
    side.peer.send(Refused("Too", "late"))
    assert (await side.frame())["code"] == "Last"
    assert await side.frame() is None
    side.writer.close()
    await soon(side.ended.is_set)
    side.peer.send(Refused("Too", "late"))
    assert side.peer._unsent == []
