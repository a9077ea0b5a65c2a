"""What an agent and a shim tell, and whom, and what a process costs them."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from reconciler.agent.ranks import directory
from reconciler.agent.ranks import shim as shims
from reconciler.agent.ranks.child import start_standby
from reconciler.agent.ranks.directory import RankDirectory
from reconciler.agent.ranks.ranks import Ranks
from reconciler.agent.ranks.shim import LINE_BYTES_MAX, Lines, Shim, Standby, read_program
from reconciler.agent.server import CONTROLLERS_MAX, Agent, Fence
from reconciler.wire.launch import Exit, Phase, Progress
from reconciler.wire.node import Changed
from tests.agent.bench import soon
from tests.agent.ranks.machine import spec

WAITS = (sys.executable, "-ISc", "input()")


class Peer:
    """A connection that notes what it was sent."""

    def __init__(self) -> None:
        self.congested = False
        self.greeted = True
        self.sent: list[Any] = []
        self.aborted = False
        self.closed = False

    def close(self) -> None:
        self.closed = True

    def send(self, message: Any) -> None:
        self.sent.append(message)

    def abort(self) -> None:
        self.aborted = True


def agent() -> Any:
    host: Any = SimpleNamespace(token=lambda: 0, identity=lambda: None, room=lambda: (0, 0))
    return Agent(asyncio.get_running_loop(), host)


async def test_each_change_has_a_number_and_a_slow_controller_is_told_of_the_last_when_it_reads_on() -> None:
    tested, quick, slow = agent(), Peer(), Peer()
    for peer in (quick, slow):
        tested.on_connected(peer)
    slow.congested = True
    for _ in range(3):
        tested.ranks._on_change(True)
    assert quick.sent == [Changed(2), Changed(3), Changed(4)]
    assert slow.sent == []
    slow.congested = False
    tested.catch_up(slow)
    tested.catch_up(slow)
    assert slow.sent == [Changed(4)]


async def test_who_has_not_said_hello_is_told_of_no_change() -> None:
    tested, stranger = agent(), Peer()
    stranger.greeted = False
    tested.on_connected(stranger)
    tested.ranks._on_change(True)
    tested.catch_up(stranger)
    assert stranger.sent == []
    stranger.greeted = True
    tested.ranks._on_change(True)
    assert stranger.sent == [Changed(3)]


async def test_as_many_controllers_may_connect_as_are_written_down() -> None:
    tested = agent()
    peers = [Peer() for _ in range(CONTROLLERS_MAX + 1)]
    for peer in peers:
        tested.on_connected(peer)
    assert [peer.aborted for peer in peers] == [False] * CONTROLLERS_MAX + [True]
    tested.leave(peers[0])
    tested.on_connected(later := Peer())
    assert not later.aborted


def test_of_two_tokens_the_higher_one_counts_in_whatever_order_they_come() -> None:
    kept: list[int] = []
    host: Any = SimpleNamespace(token=lambda: 5, save_token=kept.append)
    fence = Fence(host)
    assert [fence.admits(token) for token in (4, 7, 5, 7)] == [False, True, False, True]
    assert (fence.token, kept) == (7, [7])


def test_of_a_line_that_is_too_long_nothing_is_left() -> None:
    lines = Lines()
    assert lines.feed(b"x" * (LINE_BYTES_MAX + 1)) == []
    assert lines.feed(b'{"phase": "ready"}\n{"phase":') == []
    assert lines.feed(b' "loading"}\n') == [b'{"phase": "loading"}']


async def test_the_end_of_a_rank_is_sent_even_to_an_agent_that_does_not_read(tmp_path: Path) -> None:
    shim: Any = Shim(asyncio.get_running_loop(), RankDirectory(tmp_path))
    quick, slow = Peer(), Peer()
    for peer in (quick, slow):
        shim._on_connected(peer)
        peer.sent.clear()
    slow.congested = True
    loading = replace(shim._state, progress=Progress(Phase.LOADING))
    shim._change(loading)
    assert (quick.sent, slow.sent) == ([loading], [])
    ended = replace(loading, exit=Exit(0, None, 5.0, "over"))
    shim._change(ended)
    assert (quick.sent[1:], slow.sent) == ([ended], [ended])
    shim._rank_log.close()


@pytest.mark.parametrize(
    ("before", "left"),
    [((), 0), ((0,), 0), ((), 1), ((0,), 1), ((0, 1), 1), ((1, 0, 1), 2)],
    ids=str,
)
async def test_a_shim_whose_rank_has_ended_waits_for_every_agent_that_is_connected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: tuple[int, ...], left: int
) -> None:
    """``before``: whether each of the agents that are gone by then was the only one; ``left``: how many are not gone."""
    monkeypatch.setattr(shims, "FAREWELL_SECONDS", 600.0)
    loop = asyncio.get_running_loop()
    monkeypatch.setattr(loop, "add_signal_handler", lambda *_: None)
    monkeypatch.setattr(loop, "create_unix_server", no_server)
    shim: Any = Shim(loop, RankDirectory(tmp_path))
    monkeypatch.setattr(shim, "_start", lambda: None)
    gone: list[Peer] = []
    for others in before:
        for _ in range(1 + others):
            gone.append(Peer())
            shim._on_connected(gone[-1])
        for peer in gone[-1 - others :]:
            shim._leave(peer)
    there = [Peer() for _ in range(left)]
    for peer in there:
        shim._on_connected(peer)
    life = asyncio.create_task(shim.run(None))
    shim._ended.set()
    for peer in there:
        await turns()
        assert not life.done()
        assert all(each.closed for each in there), "each is told that nothing more comes"
        shim._leave(peer)
    await turns()
    assert life.done()
    assert not any(peer.closed for peer in gone)
    shim._rank_log.close()


async def no_server(*_: object, **__: object) -> Any:
    return SimpleNamespace(close=lambda: None)


async def turns() -> None:
    """Let everything go on that needs no time."""
    for _ in range(10):
        await asyncio.sleep(0)


async def test_a_pipe_that_its_rank_has_closed_is_read_no_more(tmp_path: Path) -> None:
    """A rank may close its output and live on; its end is told by its parent's wait alone."""
    loop = asyncio.get_running_loop()
    shim: Any = Shim(loop, RankDirectory(tmp_path))
    output, progress = os.pipe(), os.pipe()
    shim._child = SimpleNamespace(output=output[0], progress=progress[0])
    for (ours, theirs), read, content in (
        (output, shim._output, b"words\n"),
        (progress, shim._progress, b'{"phase": "loading"}\n'),
    ):
        os.set_blocking(ours, False)
        loop.add_reader(ours, read)
        assert not read(), "nothing yet"
        os.write(theirs, content)
        assert read()
        os.close(theirs)
        assert not read()
        assert not loop.remove_reader(ours)
        os.close(ours)
    assert shim._state.progress.phase == Phase.LOADING
    assert (tmp_path / "rank.0.log").read_bytes() == b"words\n"
    shim._rank_log.close()


async def test_steps_are_told_a_moment_later_and_a_phase_at_once(tmp_path: Path) -> None:
    shim: Any = Shim(asyncio.get_running_loop(), RankDirectory(tmp_path))
    agent = Peer()
    shim._on_connected(agent)
    agent.sent.clear()
    for steps in range(1, 6):
        shim._on_progress(b'{"phase": "starting", "steps": %d}' % steps)
    assert agent.sent == []
    shim._on_progress(b'{"phase": "ready", "steps": 6}')
    assert [state.progress for state in agent.sent] == [Progress(Phase.READY, 6)]
    assert shim._push is None, "what waited has been told with it"
    shim._on_progress(b'{"phase": "ready", "steps": 6}')
    assert shim._push is None, "it is no news"
    shim._on_progress(b'{"phase": "ready", "steps": 7}')
    await soon(lambda: len(agent.sent) >= 2)
    assert agent.sent[1].progress.steps == 7
    shim._rank_log.close()


@pytest.mark.parametrize(
    ("end", "argv", "becomes"),
    [
        (False, WAITS, True),
        (True, WAITS, False),
        (False, (*WAITS, "of another rank"), False),
    ],
    ids=["it waits", "it has ended", "it has another program"],
)
async def test_a_rank_begins_in_the_process_that_waits_if_that_has_its_program_and_still_runs(
    tmp_path: Path, end: bool, argv: tuple[str, ...], becomes: bool
) -> None:
    ranks = tmp_path / "ranks"
    ranks.mkdir()
    directory.create(ranks, replace(spec(), argv=WAITS))
    place = RankDirectory(ranks / str(spec().id))
    program = (argv, read_program(place)[1])
    waiting = start_standby(*program)
    if end:
        os.kill(waiting.pid, signal.SIGKILL)
        await soon(lambda: not waiting.waits())
    shim: Any = Shim(asyncio.get_running_loop(), place, Standby(program, waiting))
    assert shim._standby_child() == (waiting if becomes else None)
    assert (place.process() is not None) == becomes, "it is written down as the rank's"
    shim._rank_log.close()
    if becomes:
        waiting.end_unused()
    await soon(lambda: os.waitpid(waiting.pid, os.WNOHANG)[0])


def test_a_program_that_was_started_and_ended_leaves_no_descriptor_open() -> None:
    def once() -> int:
        waiting = start_standby([sys.executable, "-c", "input()"], {})
        waiting.end_unused()
        os.waitpid(waiting.pid, 0)
        return sum(1 for _ in Path("/dev/fd").iterdir())

    assert once() == once()


NOBODY = 2**31 - 1
"""A pid that no process has."""


class Alarms:
    """A loop whose time stands still, and that calls nothing."""

    def __init__(self) -> None:
        self.due: list[float] = []

    def time(self) -> float:
        return 50.0

    def call_at(self, due: float, *call: Any) -> Any:
        self.due.append(due)
        return SimpleNamespace(when=lambda: due, cancel=lambda: self.due.remove(due))


@pytest.fixture
def signals(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Signals that a shim would have sent."""
    sent: list[int] = []
    for name in ("signal_process", "signal_group"):
        monkeypatch.setattr(shims, name, lambda pid, number: sent.append(number))
    return sent


@pytest.mark.parametrize("ended", [False, True], ids=["it has no process yet", "it has ended"])
def test_a_rank_without_a_process_is_sent_no_signal(tmp_path: Path, signals: list[int], ended: bool) -> None:
    loop: Any = Alarms()
    shim: Any = Shim(loop, RankDirectory(tmp_path))
    if ended:
        shim._child = SimpleNamespace(pid=NOBODY)
        shim._state = replace(shim._state, exit=Exit(0, None, 5.0, "over"))
    shim._terminate(5.0)
    assert (signals, loop.due) == ([], [])
    shim._rank_log.close()


def test_a_second_wish_to_end_a_rank_only_shortens_its_time(tmp_path: Path, signals: list[int]) -> None:
    loop: Any = Alarms()
    shim: Any = Shim(loop, RankDirectory(tmp_path))
    shim._child = SimpleNamespace(pid=NOBODY)
    for seconds, due in ((500.0, 550.0), (900.0, 550.0), (300.0, 350.0), (-1.0, 50.0)):
        shim._terminate(seconds)
        assert loop.due == [due]
    assert signals == [signal.SIGTERM, signal.SIGCONT]
    shim._rank_log.close()


@pytest.mark.parametrize(
    ("changes", "prepared"),
    [
        ({}, True),
        ({"spare": False}, False),
        ({"watched": False}, False),
        ({"phase": Phase.WARM}, False),
        ({"was_ready": False}, False),
    ],
    ids=str,
)
async def test_a_standby_process_waits_for_the_next_rank_like_one_that_has_been_ready_for_a_while(
    changes: dict[str, Any], prepared: bool
) -> None:
    told: list[str] = []
    host: Any = SimpleNamespace(
        prepare=lambda id: told.append(f"for {id}"), end_standby=lambda seconds: told.append("none")
    )
    facts = {"spare": True, "watched": True, "phase": Phase.READY, "was_ready": True, **changes}

    def rank(id: str, ended: bool) -> Any:
        return SimpleNamespace(
            id=id,
            spare=facts["spare"],
            watched=facts["watched"],
            state=SimpleNamespace(progress=Progress(facts["phase"])),
            vitals=SimpleNamespace(was_ready=facts["was_ready"]),
            ended_before=lambda seconds: ended,
        )

    for ends, otherwise in ((True, ["none"]), (False, [])):
        told.clear()
        ranks: Any = Ranks(host, lambda urgent: None)
        ranks._ranks = {name: rank(name, ended) for name, ended in (("a", True), ("b", ends))}
        ranks._keep_standby()
        assert told == (["for a"] if prepared else otherwise)


async def test_that_output_is_lost_is_told_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    shim: Any = Shim(asyncio.get_running_loop(), RankDirectory(tmp_path))
    shim._rank_log.close()

    def full(_: bytes) -> None:
        raise OSError(28, "no space left on device")

    shim._rank_log = SimpleNamespace(write=full)
    for _ in range(3):
        shim._append(b"words")
    told = [record.getMessage() for record in caplog.records if record.name == shims._log.name]
    assert told == ["output of the rank is lost: [Errno 28] no space left on device"]
