"""What a gateway hears of the one that it has taken over from, and how that conversation ends."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Iterator

import pytest

from reconciler.gateway.handover.messages import Waiting
from reconciler.gateway.handover.predecessor import Predecessor
from reconciler.gateway.keys.desk import Desk
from reconciler.wire.frames import encode
from reconciler.wire.handover import NEW_RECEIVES, OLD_RECEIVES, Begin, End, Granted
from reconciler.wire.keys import KeyLimits


@pytest.fixture
def ends() -> Iterator[tuple[socket.socket, socket.socket]]:
    """The new gateway's end of the connection, and the old one's."""
    new, old = socket.socketpair()
    with new, old:
        yield new, old


def predecessor() -> Predecessor:
    return Predecessor(Desk(time.time, time.monotonic))


async def test_a_conversation_that_is_over_is_closed_whoever_ended_it(
    ends: tuple[socket.socket, socket.socket],
) -> None:
    new, old = ends
    before = predecessor()
    old.close()
    await before.run(Waiting(new, NEW_RECEIVES))
    assert before.gone.is_set()
    assert new.fileno() == -1


async def test_a_gateway_that_says_what_nobody_understands_is_told_that_nobody_listens(
    ends: tuple[socket.socket, socket.socket], caplog: pytest.LogCaptureFixture
) -> None:
    new, old = ends
    old.sendall(encode({"type": "of another version"}))
    await predecessor().run(Waiting(new, NEW_RECEIVES))
    assert old.recv(1) == b"", "it need not wait for answers"
    assert "of another version" in caplog.text


async def test_a_gateway_that_reads_nothing_keeps_none_from_stopping_and_hears_it_after_all_else(
    ends: tuple[socket.socket, socket.socket],
) -> None:
    new, old = ends
    new.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1)
    before, there = predecessor(), Waiting(old, OLD_RECEIVES)
    hearing = asyncio.create_task(before.run(Waiting(new, NEW_RECEIVES)))
    asked = 200  # whose answers are more than the socket takes
    for number in range(asked):
        await there.send(Begin(number, "agent", 1, KeyLimits(tokens_per_minute=10**9)))
    for _ in range(3):
        await asyncio.sleep(0)
    before.end()
    for number in range(asked):
        said = await there.receive()
        assert isinstance(said, Granted)
        assert said.number == number
    assert isinstance(await there.receive(), End)
    old.close()
    await hearing
