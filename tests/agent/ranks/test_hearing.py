"""Whether rank 0 takes requests, which its agent asks it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from reconciler.agent.ranks.hearing import ASK_SECONDS, Hearing, ask
from reconciler.wire import SPOKEN, frames
from reconciler.wire.codec import Hello, to_wire
from reconciler.wire.launch import Phase, Progress
from reconciler.wire.node import ShimState

from .machine import PID, SHIM, Machine, Watching


class Asked:
    """A rank 0 of which somebody says when it answers."""

    def __init__(self) -> None:
        self.questions: list[asyncio.Future[None]] = []

    async def __call__(self) -> None:
        self.questions.append(asyncio.get_running_loop().create_future())
        await self.questions[-1]


async def tick(hearing: Hearing, times: int = 1) -> bool:
    told = False
    for _ in range(times):
        told = hearing.tick(1.0)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
    return told


async def test_a_rank_that_answers_is_asked_again_after_a_pause_and_is_never_reported() -> None:
    asked = Asked()
    hearing = Hearing(asked)
    for _ in range(3):
        assert not await tick(hearing)
        asked.questions[-1].set_result(None)
        await asyncio.sleep(0)
        assert not await tick(hearing, int(ASK_SECONDS))
        assert hearing.deaf_seconds == 0
    assert len(asked.questions) == 3


async def test_one_question_without_an_answer_is_counted_and_not_asked_again() -> None:
    asked = Asked()
    hearing = Hearing(asked)
    assert not await tick(hearing)
    assert not await tick(hearing)
    assert await tick(hearing, 9)
    assert (hearing.deaf_seconds, len(asked.questions)) == (10.0, 1)
    asked.questions[0].set_result(None)
    await asyncio.sleep(0)
    assert await tick(hearing), "that it hears again is news"
    assert hearing.deaf_seconds == 0


async def test_a_rank_that_cannot_be_asked_is_asked_at_each_look_and_counts_from_the_first() -> None:
    asked = Asked()
    hearing = Hearing(asked)
    for _ in range(5):
        await tick(hearing)
        asked.questions[-1].set_exception(ConnectionRefusedError("nobody listens"))
        await asyncio.sleep(0)
    assert len(asked.questions) == 5
    assert hearing.deaf_seconds == 4.0


async def test_a_long_sleep_of_the_machine_counts_for_little() -> None:
    hearing = Hearing(Asked())
    await tick(hearing)
    hearing.tick(3600.0)
    assert hearing.deaf_seconds == 2.0


@pytest.mark.parametrize("phase", [Phase.LOADING, Phase.DRAINING, Phase.READY])
async def test_only_a_rank_0_that_is_ready_is_asked(phase: str) -> None:
    machine = Machine().with_rank(ShimState(PID, SHIM, 3.0, Progress(phase)))
    machine.deaf = True
    watching = Watching(machine).adopt()
    machine.hear(machine.written[watching.report.id])
    for _ in range(10):
        watching.ranks._tick(1.0, ())
        await asyncio.sleep(0)
    assert watching.report.deaf_seconds == (9.0 if phase == Phase.READY else 0.0)
    watching.ranks._tick(1.0, (PID,))
    assert watching.report.deaf_seconds == 0.0, "a rank that is stopped cannot answer, which is known"
    watching.ranks.close()


@pytest.fixture
def socket(tmp_path: Path) -> Path:
    return tmp_path / "rank.sock"


@contextlib.asynccontextmanager
async def serving(path: Path, *says: dict[str, object], closes: bool = False) -> AsyncIterator[None]:
    """A rank 0 that says this to each question."""
    over: asyncio.Queue[None] = asyncio.Queue()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(frames.encode(to_wire(Hello("rank", SPOKEN))))
        await frames.read(reader)
        question = await frames.read(reader)
        assert question is not None
        assert (question["type"], question["prompt"]) == ("generate", "a")
        for each in says:
            writer.write(frames.encode({"request": question["request"], **each}))
        if not closes:
            await reader.read()
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()
        over.put_nowait(None)

    async with await asyncio.start_unix_server(answer, path):
        yield
        await over.get()


@pytest.mark.parametrize(
    "says", [{"type": "accepted", "prompt_tokens": []}, {"type": "failed", "code": "overloaded"}]
)
async def test_any_answer_shows_that_it_takes_requests(socket: Path, says: dict[str, object]) -> None:
    async with serving(socket, says):
        await ask(str(socket))


async def test_a_connection_that_ends_without_an_answer_is_none(socket: Path) -> None:
    async with serving(socket, closes=True):
        with pytest.raises(ConnectionResetError):
            await ask(str(socket))
    with pytest.raises(OSError, match="No such file"):
        await ask(str(socket.with_name("gone")))
