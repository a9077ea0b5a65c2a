"""What a trial of a group measures: what its ranks say of themselves, and how fast it answers several at once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from reconciler.errors import Refused, Unreachable
from reconciler.execution import trial
from reconciler.execution.proof import Connect
from reconciler.execution.trial import Answered
from reconciler.wire import SPOKEN, frames
from reconciler.wire.codec import Hello, to_wire
from reconciler.wire.generation import Delta, Failed, Finished


@asynccontextmanager
async def rank_saying(path: Path, requests: int, *events: Any) -> AsyncIterator[Connect]:
    """The way to a rank 0 that says this to so many requests, and closes."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(frames.encode(to_wire(Hello("rank", SPOKEN))))
        for _ in range(1 + requests):
            await frames.read(reader)
        for event in events:
            writer.write(frames.encode(to_wire(event)))
        await writer.drain()
        writer.close()

    async with await asyncio.start_unix_server(answer, path):
        yield lambda: asyncio.open_unix_connection(path)


def test_the_rate_is_that_of_all_tokens_and_of_no_time_there_is_none() -> None:
    assert Answered(tokens=30, seconds=2.0, failures=0).tokens_per_second == 15.0
    assert Answered(tokens=0, seconds=0.0, failures=2).tokens_per_second == 0.0


async def test_tokens_count_after_the_first_of_each_answer_and_failures_beside_them(tmp_path: Path) -> None:
    events = (
        Delta("trial-0", (1,), "a"),
        Delta("trial-1", (1,), "a"),
        Delta("trial-0", (2, 3), "bc"),
        Finished("trial-0", "length", 2, 3),
        Failed("trial-1", "internal", "its group has ended"),
    )
    async with rank_saying(tmp_path / "r", 2, *events) as connect:
        found = await trial.answer(connect, streams=2, tokens_max=3)
    assert (found.tokens, found.failures) == (2, 1)
    assert found.seconds > 0


async def test_a_rank_that_closes_before_it_is_done_has_answered_nothing(tmp_path: Path) -> None:
    async with rank_saying(tmp_path / "r", 1, Delta("trial-0", (1,), "a")) as connect:
        with pytest.raises(Unreachable, match="before it was done"):
            await trial.answer(connect, streams=1, tokens_max=3)


async def test_a_group_that_is_busy_is_not_measured(tmp_path: Path) -> None:
    async with rank_saying(tmp_path / "r", 1, Failed("measure", "busy", "it answers")) as connect:
        with pytest.raises(Refused, match="it answers") as refused:
            await trial.measure(connect, under_load=False)
    assert refused.value.code == "busy"
