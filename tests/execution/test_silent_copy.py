"""Bytes from one node to another go through the controller as long as some come."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator

import pytest

from reconciler.errors import Unreachable
from reconciler.execution import copy
from reconciler.remote.machines import Stream
from reconciler.state import NodeName

A, B = (NodeName("a"), "/giving"), (NodeName("b"), "/taking")
SECONDS_MAX = 20


class Nodes:
    """The far ends of what is connected, and the periods in which nothing may move."""

    def __init__(self) -> None:
        self.ends: dict[str, socket.socket] = {}
        self.connected = asyncio.Event()
        self.begun = asyncio.Semaphore(0)
        self.over = asyncio.Semaphore(0)

    async def open(self, name: NodeName, path: str) -> Stream:
        mine, self.ends[name] = socket.socketpair()
        self.ends[name].setblocking(False)
        if len(self.ends) == 2:
            self.connected.set()
        return await asyncio.open_connection(sock=mine)

    async def wait(
        self, pumps: list[asyncio.Task[None]], **_: object
    ) -> tuple[set[asyncio.Task[None]], object]:
        """Wait like ``asyncio.wait``, for a period that ends when the test says so."""
        self.begun.release()
        period = asyncio.ensure_future(self.over.acquire())
        done, _rest = await asyncio.wait([*pumps, period], return_when=asyncio.FIRST_COMPLETED)
        period.cancel()
        return {each for each in pumps if each in done}, None

    def close(self) -> None:
        for end in self.ends.values():
            end.close()


@pytest.fixture
def nodes() -> Iterator[Nodes]:
    made = Nodes()
    yield made
    made.close()


async def test_a_copy_goes_on_while_something_moves_in_each_period_and_is_given_up_after_one_without(
    nodes: Nodes,
) -> None:
    carrying = asyncio.ensure_future(copy.carry(nodes.open, A, B, nodes.wait))
    loop = asyncio.get_running_loop()
    async with asyncio.timeout(SECONDS_MAX):
        await nodes.connected.wait()
        for sender, receiver in 4 * (("a", "b"), ("b", "a")):
            await nodes.begun.acquire()
            await loop.sock_sendall(nodes.ends[sender], b"x")
            assert await loop.sock_recv(nodes.ends[receiver], 100) == b"x"
            nodes.over.release()
        await nodes.begun.acquire()
        assert not carrying.done()
        nodes.over.release()
        with pytest.raises(Unreachable, match="nothing came from a or b"):
            await carrying


@pytest.mark.parametrize("ends", ["a", "b"])
async def test_a_copy_ends_with_either_side(nodes: Nodes, ends: str) -> None:
    carrying = asyncio.ensure_future(copy.carry(nodes.open, A, B, nodes.wait))
    async with asyncio.timeout(SECONDS_MAX):
        await nodes.connected.wait()
        nodes.ends[ends].close()
        await carrying
