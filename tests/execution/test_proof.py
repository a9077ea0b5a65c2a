"""What counts as a proof that a group answers: one whole completion, and nothing less."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from reconciler.errors import Refused, Unreachable
from reconciler.state import NodeName
from reconciler.wire import SPOKEN, frames
from reconciler.wire.codec import Hello, decode, to_wire
from reconciler.wire.generation import RANK_RECEIVES, Accepted, Delta, Failed, Finished, Generate
from tests.machines import LocalMachines

NODE = NodeName("node-a")
ACCEPTED, TOKENS = Accepted("proof", (1, 2)), Delta("proof", (3,), "Hi")


@asynccontextmanager
async def rank_answering(socket: Path, *events: Any) -> AsyncIterator[list[Any]]:
    """A rank 0 that answers each request with these events and closes; what it was asked."""
    requests: list[Any] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(frames.encode(to_wire(Hello("rank", SPOKEN))))
        for _ in range(2):
            frame = await frames.read(reader)
            assert frame is not None
            requests.append(decode(frame, RANK_RECEIVES))
        for event in events:
            writer.write(frames.encode(to_wire(event)))
        await writer.drain()
        writer.close()

    server = await asyncio.start_unix_server(answer, socket)
    yield requests
    server.close()
    await server.wait_closed()


async def test_a_complete_answer_is_a_proof(tmp_path: Path) -> None:
    socket = tmp_path / "rank.sock"
    async with rank_answering(socket, ACCEPTED, TOKENS, Finished("proof", "length", 2, 4)) as requests:
        assert await LocalMachines().request_completion(NODE, str(socket)) >= 0
    assert [type(message) for message in requests] == [Hello, Generate]


async def test_an_answer_that_breaks_off_is_none(tmp_path: Path) -> None:
    async with rank_answering(tmp_path / "rank.sock", ACCEPTED, TOKENS):
        with pytest.raises(Unreachable, match="before its answer was complete"):
            await LocalMachines().request_completion(NODE, str(tmp_path / "rank.sock"))


async def test_a_rank_that_cannot_answer_is_quoted(tmp_path: Path) -> None:
    failed = Failed("proof", "internal", "the weights are not what they seem")
    async with rank_answering(tmp_path / "rank.sock", ACCEPTED, failed):
        with pytest.raises(Refused, match="internal: the weights are not what they seem"):
            await LocalMachines().request_completion(NODE, str(tmp_path / "rank.sock"))
