"""Bytes go both ways between two nodes until either side ends, and both sides are closed then."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from reconciler.errors import Unreachable
from reconciler.execution import copy
from reconciler.remote.machines import Stream
from reconciler.state import NodeName

A, B = NodeName("node-a"), NodeName("node-b")
MORE_THAN_A_PIECE = bytes(range(256)) * (3 * copy.PIECE_BYTES // 256)


async def opened(_: NodeName, socket: str) -> Stream:
    try:
        return await asyncio.open_unix_connection(socket)
    except OSError as error:
        raise Unreachable(str(error)) from error


@asynccontextmanager
async def listening(path: Path) -> AsyncIterator[asyncio.Future[Stream]]:
    """A socket, and the one connection that it is asked for."""
    came: asyncio.Future[Stream] = asyncio.get_running_loop().create_future()
    server = await asyncio.start_unix_server(lambda *stream: came.set_result(stream), path)
    async with server:
        yield came
        if came.done():
            came.result()[1].close()


async def test_bytes_go_both_ways_until_one_side_ends_which_closes_the_other(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    async with listening(one) as at_one, listening(other) as at_other:
        carrying = asyncio.ensure_future(copy.carry(opened, (A, str(one)), (B, str(other))))
        (asking, ask), (reading, answer) = await at_one, await at_other
        ask.write(b"which?")
        assert await reading.readexactly(6) == b"which?"
        answer.write(MORE_THAN_A_PIECE)
        assert await asking.readexactly(len(MORE_THAN_A_PIECE)) == MORE_THAN_A_PIECE
        answer.close()
        await carrying
        assert await asking.read() == b""


async def test_a_process_that_does_not_listen_yet_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(copy, "TRY_SECONDS", 0.0)
    one, other = tmp_path / "one", tmp_path / "other"
    async with listening(one) as at_one:
        carrying = asyncio.ensure_future(copy.carry(opened, (A, str(one)), (B, str(other))))
        await at_one
        async with listening(other) as at_other:
            await at_other
            (await at_one)[1].close()
            await carrying


async def test_one_that_never_listens_is_given_up_and_the_other_side_is_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(copy, "LISTENS_SECONDS", 0.0)
    monkeypatch.setattr(copy, "TRY_SECONDS", 0.0)
    one = tmp_path / "one"
    async with listening(one) as at_one:
        with pytest.raises(Unreachable):
            await copy.carry(opened, (A, str(one)), (B, str(tmp_path / "never")))
        assert await (await at_one)[0].read() == b""


class Slow:
    """A reader that has as much as is asked for, and a writer that takes pieces when it is told to."""

    def __init__(self) -> None:
        self.unsent = 0
        self.most = 0
        self.sent = 0
        self.closed = False
        self.takes = asyncio.Semaphore(0)

    async def read(self, size: int) -> bytes:
        await asyncio.sleep(0)
        return b"x" * size

    def write(self, piece: bytes) -> None:
        self.unsent += len(piece)
        self.most = max(self.most, self.unsent)

    async def drain(self) -> None:
        await self.takes.acquire()
        self.sent, self.unsent = self.sent + self.unsent, 0

    def close(self) -> None:
        self.closed = True


async def test_no_more_is_in_memory_than_a_piece_for_each_way_however_slow_a_side_is() -> None:
    sides: dict[NodeName, Any] = {A: Slow(), B: Slow()}

    async def slow(name: NodeName, _: str) -> Any:
        return sides[name], sides[name]

    carrying = asyncio.ensure_future(copy.carry(slow, (A, "one"), (B, "other")))
    for pieces in range(1, 4):
        for side in sides.values():
            side.takes.release()
        for _ in range(40):
            await asyncio.sleep(0)
        assert [side.sent for side in sides.values()] == [pieces * copy.PIECE_BYTES] * 2
    carrying.cancel()
    await asyncio.gather(carrying, return_exceptions=True)
    assert [side.most for side in sides.values()] == [copy.PIECE_BYTES] * 2
    assert all(side.closed for side in sides.values())
