"""How passes leave time for everything else. The clock is the test's own."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Coroutine

import pytest

from reconciler.controller.pace import AHEAD_SECONDS_MAX, SHARE_MAX, SLICE_SECONDS, Pace, in_slices
from reconciler.state.slices import Slices
from tests.simulation.world.loop import START, Process, VirtualLoop

LONG = 1000.0


@pytest.fixture
def loop() -> VirtualLoop:
    return VirtualLoop()  # type: ignore[abstract]


def run(loop: VirtualLoop, *work: Coroutine[None, None, None]) -> None:
    process = Process("test")
    for each in work:
        loop.spawn(process, each, "test")
    loop.run(START + LONG)
    assert loop.faults == []


def steps(loop: VirtualLoop, count: int, seconds: float) -> Slices[str]:
    """A computation of so many steps, each of which takes so long."""
    for _ in range(count):
        loop.now += seconds
        yield
    return "done"


def test_a_long_computation_is_interrupted_and_a_short_one_is_not(loop: VirtualLoop) -> None:
    waits: list[float] = []

    async def others() -> None:
        while len(waits) < 40:
            before = loop.now
            await asyncio.sleep(0)
            waits.append(loop.now - before)

    async def compute() -> None:
        result, spent = await in_slices(steps(loop, 5, SLICE_SECONDS / 10))
        assert result == "done"
        assert spent == pytest.approx(SLICE_SECONDS / 2)
        assert not waits
        result, spent = await in_slices(steps(loop, 100, SLICE_SECONDS / 2))
        assert result == "done"
        assert spent == pytest.approx(50 * SLICE_SECONDS)

    run(loop, compute(), others())
    assert max(waits) == pytest.approx(SLICE_SECONDS)


def test_what_takes_no_time_by_the_clock_runs_at_once(loop: VirtualLoop) -> None:
    async def compute() -> None:
        assert await in_slices(steps(loop, 100_000, 0.0)) == ("done", 0.0)
        assert loop.now == START

    run(loop, compute())


def test_an_error_of_a_computation_is_raised_to_who_runs_it(loop: VirtualLoop) -> None:
    def broken() -> Slices[None]:
        yield
        raise ValueError("broken")

    async def compute() -> None:
        with pytest.raises(ValueError, match="broken"):
            await in_slices(broken())

    run(loop, compute())


def starts(loop: VirtualLoop, pass_seconds: float, until: float) -> list[float]:
    """When passes begin that are triggered all the time and take so long."""
    found: list[float] = []

    async def passes() -> None:
        pace, hurry = Pace(), asyncio.Event()
        while loop.now < START + until:
            found.append(loop.now - START)
            loop.now += pass_seconds
            pace.took(pass_seconds)
            await pace.rest(hurry)

    run(loop, passes())
    return found


@pytest.mark.parametrize("seconds", [0.007, 0.36, 2.0])
def test_passes_that_are_always_triggered_take_their_share_and_no_more(
    loop: VirtualLoop, seconds: float
) -> None:
    began = starts(loop, seconds, 100.0)
    used = seconds * len(began)
    assert SHARE_MAX * 100 - seconds <= used <= SHARE_MAX * 100 + AHEAD_SECONDS_MAX + seconds


def test_after_a_quiet_time_passes_follow_each_other_at_once_and_the_longer_they_take_the_later(
    loop: VirtualLoop,
) -> None:
    began = starts(loop, 0.5, 30.0)
    gaps = [after - before for before, after in itertools.pairwise(began)]
    assert gaps[:7] == [pytest.approx(0.5)] * 7
    assert gaps[-1] == pytest.approx(0.5 / SHARE_MAX)


def test_whoever_is_to_end_waits_for_no_pace(loop: VirtualLoop) -> None:
    ended: list[float] = []

    async def end() -> None:
        pace, hurry = Pace(), asyncio.Event()
        pace.took(60.0)
        loop.call_later(1.0, hurry.set)
        await pace.rest(hurry)
        ended.append(loop.now - START)

    run(loop, end())
    assert ended == [1.0]
