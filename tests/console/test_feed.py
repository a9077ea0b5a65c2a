"""The console notices within seconds that the controller is gone or hangs, and goes on by itself."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from reconciler.console.feed import Beat, Feed, following
from reconciler.console.live import asked
from reconciler.console.pages import PAGES
from reconciler.console.snapshot import Snapshot
from reconciler.errors import Unreachable
from reconciler.remote.rpc import RpcServer
from reconciler.wire.admin import CONTROLLER_RECEIVES_FROM_CLI, Answer, Get, ShowSeries, ShowStatus

from .controller import Recorded

pytestmark = pytest.mark.processes

BEAT = Beat(seconds=0.1, answer_seconds=0.5)
SECONDS_MAX = 10.0


@contextmanager
def controller(socket: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A process that answers at a socket."""
    process = subprocess.Popen((sys.executable, "-m", "tests.console.controller", str(socket)))
    try:
        yield process
    finally:
        process.kill()
        process.wait()


async def until(feed: Feed, holds: Callable[[Snapshot], bool]) -> Snapshot:
    """Wait for a snapshot."""
    async with asyncio.timeout(SECONDS_MAX):
        while not holds(feed.snapshot):
            await feed.changed(feed.snapshot.number)
    return feed.snapshot


async def test_a_controller_that_hangs_or_dies_is_noticed_and_found_again(tmp_path: Path) -> None:
    socket = tmp_path / "controller.sock"
    feed = Feed(socket, time.time, BEAT)
    async with following(feed):
        with controller(socket) as first:
            known = await until(feed, lambda each: bool(each.objects and each.events and each.incidents))
            os.kill(first.pid, signal.SIGSTOP)
            stopped_at = time.time()
            hung = await until(feed, lambda each: bool(each.lost))
            assert time.time() - stopped_at < 3
            assert hung.objects == known.objects
            with pytest.raises(Unreachable):  # so that a scrape gets its answer within the 10 s of Prometheus
                await feed.ask(ShowSeries())
            assert stopped_at - 1 < hung.at <= stopped_at + 0.1, "it shows the time of what it shows"
            os.kill(first.pid, signal.SIGCONT)
            await until(feed, lambda each: not each.lost)
        gone = await until(feed, lambda each: bool(each.lost))
        assert gone.objects == known.objects
        with controller(socket):
            await until(feed, lambda each: not each.lost)


async def test_no_status_is_known_before_the_manifests_that_say_who_needs_a_key(tmp_path: Path) -> None:
    feed, shown = Feed(tmp_path / "controller.sock", time.time, BEAT), list[Snapshot]()
    async with following(feed):
        await until(feed, lambda each: bool(each.lost))
        with controller(tmp_path / "controller.sock"):
            while not feed.snapshot.objects:
                async with asyncio.timeout(SECONDS_MAX):
                    shown.append(await feed.changed(feed.snapshot.number))
    assert not any(each.status and not each.objects for each in shown)


async def test_nothing_is_published_while_nothing_changes(tmp_path: Path) -> None:
    socket = tmp_path / "controller.sock"
    feed = Feed(socket, time.time, BEAT)
    with controller(socket):
        async with following(feed):
            with feed.watching():
                known = await until(feed, lambda each: bool(each.objects and each.events and each.usage))
                known = await until(feed, lambda each: bool(each.incidents))
                await asyncio.sleep(0.5)
                assert feed.snapshot.number == known.number


async def test_an_answer_that_takes_long_neither_hides_that_the_controller_hangs_nor_passes_for_it(
    tmp_path: Path,
) -> None:
    answers = Answers()
    server = RpcServer(tmp_path / "controller.sock", CONTROLLER_RECEIVES_FROM_CLI, answers)
    await server.start()
    try:
        feed = Feed(tmp_path / "controller.sock", time.time, Beat(seconds=0.01, answer_seconds=0.2))
        async with following(feed):
            await until(feed, lambda each: bool(each.status))
            async with asyncio.timeout(SECONDS_MAX):
                await answers.operations_asked.wait()
                answers.beats = 0
                await answers.beaten.wait()
            assert not feed.snapshot.lost
            answers.hangs = True
            assert "status" in (await until(feed, lambda each: bool(each.lost))).lost
    finally:
        await server.close()


class Answers:
    """What a controller answers that never says which operations there are, and may hang altogether."""

    def __init__(self) -> None:
        self.hangs = False
        self.beats = 0
        self.beaten, self.operations_asked = asyncio.Event(), asyncio.Event()
        self._recorded = Recorded("four-macs")

    async def __call__(self, message: Any) -> Answer:
        if self.hangs or message == Get("Operation"):
            self.operations_asked.set()
            await asyncio.Event().wait()
        if isinstance(message, ShowStatus):
            self.beats += 1
            if self.beats > 3:
                self.beaten.set()
        return await self._recorded.answer(message)


async def test_a_page_that_asks_itself_shows_what_came_meanwhile() -> None:
    feed = Feed(Path("/nobody"), time.time)

    async def ask(message: Any) -> Any:
        feed.snapshot = replace(feed.snapshot, number=2)
        if message.revision == "unknown":
            raise Unreachable("it does not answer")
        return {"commit": message.revision}

    feed.ask = ask  # type: ignore[method-assign]
    (page,) = [each for each in PAGES if each.title == "Commit"]
    for id, answer in (("a1b2", {"commit": "a1b2"}), ("unknown", "it does not answer")):
        feed.snapshot = replace(feed.snapshot, number=1)
        shown = await asked(feed, page, id)
        assert (shown.number, shown.answer) == (2, answer)
