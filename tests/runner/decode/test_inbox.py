"""What a rank counts: the requests that are open, those that wait for a step, and what it says of itself."""

from __future__ import annotations

import json
import os
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import pytest

from reconciler.runner.decode.inbox import Inbox, Ticket
from reconciler.runner.process.progress import DETAIL_CHARACTERS_MAX, ProgressPipe
from reconciler.wire.launch import Phase
from reconciler.wire.sampling import Sampling

NOBODY: Any = None


def ticket() -> Ticket:
    return Ticket(NOBODY, (1,), 1, 0, Sampling(), NOBODY)


def test_as_many_requests_are_open_as_may_be_and_each_end_makes_room_for_one() -> None:
    inbox = Inbox(2, ProgressPipe(None))
    assert [inbox.open() for _ in range(3)] == ["", "", "overloaded"]
    inbox.abandon()
    assert [inbox.open() for _ in range(2)] == ["", "overloaded"]
    inbox.submit(ticket())
    inbox.close(1)
    assert [inbox.open() for _ in range(2)] == ["", "overloaded"]


def test_nothing_is_owed_once_everything_is_answered() -> None:
    reading, writing = os.pipe()
    progress = ProgressPipe(writing)
    inbox = Inbox(2, progress)
    for _ in range(2):
        inbox.open()
        inbox.submit(ticket())
    inbox.close(2)
    progress.enter(Phase.READY)
    with os.fdopen(reading) as pipe:
        for line in pipe:
            line_read = json.loads(line)
            if line_read["phase"] == Phase.READY:
                break
    assert line_read.get("demand", 0) == 0


@pytest.mark.parametrize("way", ["put", "ended", "owed"])
def test_the_demand_is_told_in_the_order_in_which_it_changes(way: str) -> None:
    """Two threads change it, and what is told last stays: nobody changes it while the other one tells."""
    alone: list[bool] = []

    def held() -> bool:
        free = inbox._condition.acquire(blocking=False)
        if free:
            inbox._condition.release()
        return not free

    def demand(count: int) -> None:
        with ThreadPoolExecutor(1) as other:
            alone.append(other.submit(held).result())

    pipe: Any = SimpleNamespace(demand=demand)
    inbox = Inbox(2, pipe)
    if way == "owed":
        with inbox.owing():
            assert alone == [True]
    else:
        inbox.open()
        inbox.submit(ticket())
        if way == "ended":
            inbox.close(1)
    assert alone == [True] * (1 if way == "put" else 2)


def test_a_drain_is_over_when_all_that_is_open_has_ended() -> None:
    progress = ProgressPipe(None)
    inbox = Inbox(2, progress)
    inbox.open()
    inbox.submit(ticket())
    inbox.drain()
    assert progress.phase == Phase.DRAINING
    assert inbox.open() == "draining"
    assert not inbox.collect(sleep=False).draining
    inbox.close(1)
    assert inbox.collect(sleep=False).draining


def test_of_a_pipe_that_is_full_every_line_is_whole() -> None:
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    page = b"." * 4095 + b"\n"
    filled = 0
    try:
        while True:
            filled += os.write(writing, page)
    except BlockingIOError:
        os.read(reading, len(page))
    progress = ProgressPipe(writing)
    progress.enter(
        Phase.LOADING, "\0" * DETAIL_CHARACTERS_MAX
    )  # six characters each: no pipe takes so much at once
    with os.fdopen(reading, "rb") as pipe:
        pipe.read(filled - len(page))
        loading = json.loads(pipe.readline())
    assert (loading["phase"], len(loading["detail"])) == (Phase.LOADING, DETAIL_CHARACTERS_MAX)
