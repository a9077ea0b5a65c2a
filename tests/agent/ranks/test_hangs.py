"""What an agent says of ranks that are stopped or stand still, and how it continues them."""

from __future__ import annotations

import os
import signal
import subprocess

import pytest

from reconciler.agent.ranks import ranks
from reconciler.agent.ranks.vitals import (
    KILLED_SECONDS_MAX,
    KILLED_SECONDS_STEP,
    LOOK_SECONDS,
    TICK_SECONDS_MAX,
    Vitals,
)
from reconciler.agent.system.process import STOPPED, states, states_by_ps
from reconciler.errors import Refused
from reconciler.wire.launch import Phase, Progress, RankId
from reconciler.wire.node import ContinueRank, RankReport, ShimState, StopRank
from tests.agent.bench import RANK, Bench, ask, ended, exit_of, gone, in_phase, pushed, until
from tests.tracing import held, main_thread_held


@pytest.mark.parametrize("who", ["rank", "shim"])
async def test_a_stopped_process_is_pushed_and_continued_on_request(bench: Bench, who: str) -> None:
    link, ready = await bench.ready(quick=True)
    assert not ready.stopped
    pid = ready.pid if who == "rank" else ready.shim_pid
    assert pid is not None

    os.kill(pid, signal.SIGSTOP)
    await pushed(link, lambda report: report.stopped)

    await ask(link, ContinueRank(1, RANK))
    report = await pushed(link, lambda report: not report.stopped)
    assert states([pid])[pid] != STOPPED
    assert (report.pid, report.exit) == (ready.pid, None)


async def test_a_controller_that_was_replaced_continues_nothing(bench: Bench) -> None:
    link, ready = await bench.ready()
    assert ready.pid is not None
    await ask(link, StopRank(2, RankId("other", 0, 1, 0), 1.0))  # a newer token is seen
    pid = ready.pid
    os.kill(pid, signal.SIGSTOP)
    await until(lambda: states([pid]) == {pid: STOPPED})

    with pytest.raises(Refused, match="older than 2"):
        await ask(link, ContinueRank(1, RANK))
    assert states([pid]) == {pid: STOPPED}


async def test_silence_is_counted_while_work_is_pending_and_ends_with_a_step(bench: Bench) -> None:
    body = """
import itertools, select
going = []
signal.signal(signal.SIGUSR1, lambda *_: going.append(True))
say('ready', steps=7, demand=1)
for steps in itertools.count(8):
    while not going:
        if select.select([sys.stdin], [], [], 0.1)[0]: sleep()
    say('ready', steps=steps, demand=1)
    if select.select([sys.stdin], [], [], 0.1)[0]: sleep()
"""
    link = await bench.running(body, quick=True)

    silent = await pushed(
        link, lambda report: report.phase == Phase.READY and report.silent_seconds >= 2 * LOOK_SECONDS
    )
    assert (silent.steps, silent.demand) == (7, 1)
    assert silent.age_seconds >= silent.silent_seconds

    assert silent.pid is not None
    os.kill(silent.pid, signal.SIGUSR1)
    moved = await pushed(link, lambda report: report.steps >= 8 and report.silent_seconds == 0)
    assert moved.phase == Phase.READY


async def test_a_rank_that_hears_no_sigterm_is_killed_and_its_end_says_so(bench: Bench) -> None:
    link, _ = await bench.ready(
        "signal.signal(signal.SIGTERM, signal.SIG_IGN); say('ready'); sleep()", quick=True
    )

    await ask(link, StopRank(1, RANK, 0.5))

    end = await exit_of(link)
    assert end.signal == signal.SIGKILL
    assert end.detail == "it was asked to end and had not ended after 0.5 s"


async def test_the_end_of_a_killed_rank_is_reported_while_a_debugger_holds_it(bench: Bench) -> None:
    link, ready = await bench.ready(quick=True)
    assert ready.pid is not None
    with main_thread_held(ready.pid):
        await ask(link, StopRank(1, RANK, 0.5))

        report = await ended(link)

        assert states([ready.pid])[ready.pid] == "Z", "its parent has been told of its end"
        assert report.exit is not None
        assert (report.exit.code, report.exit.signal) == (None, signal.SIGKILL)
        await gone(ready.shim_pid)


async def test_a_rank_that_the_kernel_holds_is_said_to_be_killed_and_not_to_have_ended(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ranks, "LATE_SHIM_SECONDS", 600.0)
    link, ready = await bench.ready(
        "signal.signal(signal.SIGTERM, signal.SIG_IGN); say('ready'); sleep()", quick=True
    )
    assert ready.pid is not None
    with held(ready.pid):
        await ask(link, StopRank(1, RANK, 0.1))
        killed = await pushed(link, lambda report: report.killed_seconds is not None)
        assert (killed.killed_seconds, killed.exit) == (0.0, None)
    report = await ended(link)
    assert report.exit is not None
    assert (report.exit.signal, report.killed_seconds) == (signal.SIGKILL, None)


async def test_the_same_is_said_of_a_rank_whose_shim_is_gone(bench: Bench) -> None:
    link, ready = await bench.ready(quick=True)
    assert ready.pid is not None
    assert ready.shim_pid is not None
    with held(ready.pid):
        os.kill(ready.shim_pid, signal.SIGKILL)
        killed = await pushed(link, lambda report: report.killed_seconds is not None)
        assert (killed.killed_seconds, killed.exit) == (0.0, None)
    end = await exit_of(link)
    assert end.signal == signal.SIGKILL


async def test_a_shim_that_stands_still_does_not_keep_its_rank_alive(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ranks, "LATE_SHIM_SECONDS", 0.2)
    link, ready = await bench.ready(
        "signal.signal(signal.SIGTERM, signal.SIG_IGN); say('ready'); time.sleep(600)", quick=True
    )
    assert ready.shim_pid is not None
    with main_thread_held(ready.shim_pid):
        await ask(link, StopRank(1, RANK, 0.1))
        end = await exit_of(link)
    assert end.signal == signal.SIGKILL
    await gone(ready.pid)


async def test_a_stopped_shim_is_continued_before_its_rank_is_ended(bench: Bench) -> None:
    link, ready = await bench.ready(quick=True)
    assert ready.shim_pid is not None
    os.kill(ready.shim_pid, signal.SIGSTOP)

    await ask(link, StopRank(1, RANK, 30.0))

    report = await ended(link)
    assert report.exit is not None
    assert report.exit.signal == signal.SIGTERM
    assert not report.stopped


async def test_a_shim_that_is_stopped_again_does_not_keep_its_rank_alive(bench: Bench) -> None:
    link = await bench.quick_agent()
    stops_its_shim = "signal.signal(signal.SIGTERM, lambda *_: os.kill(os.getppid(), signal.SIGSTOP))"
    await bench.start(link, stops_its_shim + "\nsay('ready')\nwhile True: time.sleep(600)")
    ready = await in_phase(link, Phase.READY)
    await ask(link, StopRank(1, RANK, 1.0))

    end = await exit_of(link)
    assert end.signal == signal.SIGKILL
    await gone(ready.pid)


def state(phase: str = Phase.READY, steps: int = 0, demand: int = 0, loaded_bytes: int = 0) -> ShimState:
    return ShimState(1, 2, 0.0, Progress(phase, steps, demand, loaded_bytes))


def silence(
    vitals: Vitals, seen: ShimState, ticks: int, stopped: bool = False, seconds: float = 1.0
) -> float:
    for _ in range(ticks):
        vitals.tick(seen, seconds, (stopped, False))
    return vitals.silent_seconds


def test_a_rank_with_nothing_to_do_is_not_silent() -> None:
    vitals = Vitals()
    assert silence(vitals, state(steps=5), 100) == 0
    assert silence(vitals, state(steps=5, demand=1), 1) == 0, "the time before the request does not count"
    assert silence(vitals, state(steps=5, demand=1), 3) == 3
    assert silence(vitals, state(steps=5, demand=0), 1) == 0


def test_a_rank_that_goes_on_is_not_silent() -> None:
    vitals = Vitals()
    for steps in range(100):
        assert silence(vitals, state(steps=steps, demand=4), 1) == 0
    for loaded in range(100):
        assert silence(vitals, state(Phase.LOADING, loaded_bytes=loaded), 1) == 0


def test_being_asked_to_end_is_no_progress() -> None:
    vitals = Vitals()
    silence(vitals, state(steps=5, demand=1), 11)
    assert silence(vitals, state(Phase.DRAINING, steps=5, demand=1), 1) == 11


def test_a_stopped_rank_is_silent_also_with_nothing_to_do() -> None:
    assert silence(Vitals(), state(), 4, stopped=True) == 3


def test_a_machine_that_was_asleep_makes_no_rank_silent() -> None:
    vitals = Vitals()
    silence(vitals, state(steps=5, demand=1), 1)
    assert silence(vitals, state(steps=5, demand=1), 1, seconds=3600.0) == TICK_SECONDS_MAX


def test_a_rank_was_ready_once_a_tick_has_seen_it() -> None:
    vitals = Vitals()
    assert not vitals.was_ready
    for phase, seen in (
        (Phase.WARM, False),
        (Phase.READY, True),
        (Phase.DRAINING, True),
        (Phase.WARM, False),
    ):
        silence(vitals, state(phase), 1)
        assert vitals.was_ready is seen, phase


def test_only_what_is_new_or_getting_worse_is_reported() -> None:
    vitals = Vitals()
    idle, busy = state(steps=5), state(steps=5, demand=1)
    assert not vitals.tick(idle, 1.0, (False, False))
    assert vitals.tick(idle, 1.0, (True, False)), "it was stopped"
    assert vitals.tick(idle, 1.0, (False, False)), "it was continued"
    assert not vitals.tick(idle, 1.0, (False, False))
    reported = [vitals.tick(busy, 1.0, (False, False)) for _ in range(5)]
    assert reported == [False, False, True, True, True]
    assert vitals.tick(idle, 1.0, (False, False)), "its silence is over"


@pytest.mark.needs("linux", "ps")
def test_ps_tells_the_same_states_as_proc() -> None:
    """On macOS there is no /proc."""
    with subprocess.Popen(["sleep", "60"]) as sleeping:
        sleeping.send_signal(signal.SIGSTOP)
        os.waitpid(sleeping.pid, os.WUNTRACED)
        nobody = 2**22 + 1
        shown = states_by_ps([sleeping.pid, nobody])
        assert shown == states([sleeping.pid, nobody]) == {sleeping.pid: STOPPED}
        sleeping.kill()


def test_a_report_from_an_older_agent_says_nothing_of_hangs() -> None:
    fields = RankReport.__dataclass_fields__
    new = {name: fields[name].default for name in ("stopped", "silent_seconds", "age_seconds", "step_tokens")}
    assert new == {"stopped": False, "silent_seconds": 0.0, "age_seconds": 0.0, "step_tokens": 0}


def test_the_time_since_sigkill_is_told_in_steps_until_nobody_needs_it_any_more() -> None:
    vitals = Vitals()
    assert vitals.killed_step is None
    news = [vitals.tick_killed(1.0) for _ in range(200)]
    assert sum(news) == 1 + KILLED_SECONDS_MAX / KILLED_SECONDS_STEP
    assert vitals.killed_step == KILLED_SECONDS_MAX


def test_a_sleep_of_the_machine_is_no_time_since_sigkill() -> None:
    vitals = Vitals()
    for seconds in (1.0, 3600.0, 1.0):
        vitals.tick_killed(seconds)
    assert vitals.killed_seconds == TICK_SECONDS_MAX + 1.0
