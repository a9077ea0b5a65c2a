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
SILENT_SECONDS = 0.1


class Nodes:
    """The far ends of what is connected."""

    def __init__(self) -> None:
        self.ends: dict[str, socket.socket] = {}
        self.connected = asyncio.Event()

    async def open(self, name: NodeName, path: str) -> Stream:
        mine, self.ends[name] = socket.socketpair()
        if len(self.ends) == 2:
            self.connected.set()
        return await asyncio.open_connection(sock=mine)

    def close(self) -> None:
        for end in self.ends.values():
            end.close()


@pytest.fixture
def nodes(monkeypatch: pytest.MonkeyPatch) -> Iterator[Nodes]:
    monkeypatch.setattr(copy, "SILENT_SECONDS", SILENT_SECONDS)
    made = Nodes()
    yield made
    made.close()


async def test_a_copy_in_which_nothing_moves_is_given_up(nodes: Nodes) -> None:
    with pytest.raises(Unreachable, match="nothing came from a or b"):
        await copy.carry(nodes.open, A, B)


async def test_a_copy_goes_on_as_long_as_something_moves_and_ends_with_either_side(nodes: Nodes) -> None:
    carrying = asyncio.ensure_future(copy.carry(nodes.open, A, B))
    async with asyncio.timeout(20):
        await nodes.connected.wait()
    for _ in range(8):
        nodes.ends["a"].sendall(b"x")
        await asyncio.sleep(SILENT_SECONDS / 2)
    assert not carrying.done()
    nodes.ends["a"].close()
    async with asyncio.timeout(20):
        await carrying
    assert nodes.ends["b"].recv(100) == b"x" * 8
