"""Bytes that several threads send arrive whole and in order, whether or not the reader keeps up."""

from __future__ import annotations

import asyncio
import os
import socket
import threading
from collections.abc import Callable, Iterator

import pytest

from reconciler.runner.requests.outgoing import Outgoing

PIECE = b"x" * 10_000
MIB = 1024 * 1024


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    with ours, theirs:
        yield ours, theirs


def numbered(count: int) -> bytes:
    return b"".join(number.to_bytes(4) + PIECE for number in range(count))


async def test_what_the_socket_has_no_room_for_follows_in_order(
    pair: tuple[socket.socket, socket.socket],
) -> None:
    out = Outgoing(asyncio.get_running_loop(), pair[0], 8 * MIB)

    def send() -> None:
        for number in range(200):
            assert out.write(number.to_bytes(4) + PIECE)

    def receive() -> bytes:
        return b"".join(iter(lambda: pair[1].recv(1 << 16), b""))

    await asyncio.to_thread(send)
    received = asyncio.create_task(asyncio.to_thread(receive))
    await asyncio.wait_for(out.drained(), 20)
    out.close()
    pair[0].close()
    assert await asyncio.wait_for(received, 20) == numbered(200)


async def test_a_reader_that_is_too_far_behind_is_told_once_and_sent_no_more(
    pair: tuple[socket.socket, socket.socket],
) -> None:
    out = Outgoing(asyncio.get_running_loop(), pair[0], MIB)
    results = [out.write(PIECE) for _ in range(1000)]
    assert results.count(False) == 1
    assert len(out._left) < MIB + len(PIECE) + 1
    out.close()


async def test_nothing_is_sent_once_it_is_closed(pair: tuple[socket.socket, socket.socket]) -> None:
    out = Outgoing(asyncio.get_running_loop(), pair[0], MIB)
    assert out.write(b"before")
    out.close()
    out.close()
    assert out.write(b"after"), "its reader is not too far behind"
    await asyncio.wait_for(out.drained(), 20)
    pair[0].close()
    assert b"".join(iter(lambda: pair[1].recv(1 << 16), b"")) == b"before"


async def test_what_is_written_after_the_end_is_not_kept_for_a_reader_that_was_behind(
    pair: tuple[socket.socket, socket.socket],
) -> None:
    out = Outgoing(asyncio.get_running_loop(), pair[0], MIB)
    while not out._left:
        assert out.write(PIECE)
    kept = len(out._left)
    out.close()
    assert {out.write(PIECE) for _ in range(2 * MIB // len(PIECE))} == {True}
    assert len(out._left) == kept


class Hurried:
    """A lock after which another thread always comes at once."""

    def __init__(self, then: Callable[[], object]) -> None:
        self._lock = threading.Lock()
        self._then: Callable[[], object] | None = then

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()
        then, self._then = self._then, None
        if then is not None:
            then()


async def test_of_two_threads_one_is_told_that_the_reader_is_too_far_behind(
    pair: tuple[socket.socket, socket.socket], monkeypatch: pytest.MonkeyPatch
) -> None:
    out = Outgoing(asyncio.get_running_loop(), pair[0], MIB)
    results: list[bool] = []
    monkeypatch.setattr(out, "_lock", Hurried(lambda: results.append(out.write(PIECE))))
    results.append(out.write(b"x" * 4 * MIB))
    assert sorted(results) == [False, True]
    out.close()


async def test_after_its_end_nothing_is_sent_to_whom_the_number_belongs_next(
    pair: tuple[socket.socket, socket.socket],
) -> None:
    out = Outgoing(asyncio.get_running_loop(), pair[0], MIB)
    number, (read, write) = out._connection.fileno(), os.pipe()
    out.close()
    out.close()
    os.dup2(write, number)
    try:
        assert out.write(b"for another")
        os.set_blocking(read, False)
        with pytest.raises(BlockingIOError):
            os.read(read, 1)
    finally:
        for descriptor in (read, write, number):
            os.close(descriptor)


async def test_a_reader_that_is_gone_is_no_error_of_the_sender(
    pair: tuple[socket.socket, socket.socket],
) -> None:
    out = Outgoing(asyncio.get_running_loop(), pair[0], MIB)
    pair[1].close()
    assert out.write(PIECE)
    await asyncio.wait_for(out.drained(), 20)
    out.close()
