"""Times in which the controller did not watch, although its clock went on: sleep, a clock that was set, a held process.

Another may have taken over meanwhile, and everything that was seen may be different: a lapse counts as the loss of
the lease. What is waited for in memory is put off by it, so that neither all of it is due at once nor any of it
never; what is on disk is bounded by the planner.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass

GAP_SECONDS = 5.0
"""Shorter ones are those of any machine: clocks are set in small steps."""
HELD_SECONDS = 10.0
"""The same of a process: a busy machine lets one wait, and clocks are looked at twice a second."""


@dataclass(frozen=True, slots=True)
class Clocks:
    """Three clocks in seconds; only their differences tell a lapse."""

    wall: Callable[[], float]
    """Since the Unix epoch, as the machine believes: people and NTP set it, in either direction."""
    awake: Callable[[], float]
    """Stands still while the machine sleeps: ``time.monotonic``, which is mach_absolute_time on macOS
    (docs.python.org/3/library/time.html) and CLOCK_MONOTONIC on Linux."""
    elapsed: Callable[[], float]
    """Goes on while the machine sleeps."""


def loop_time() -> float:
    """The clock of the event loop: ``time.monotonic``."""
    return asyncio.get_running_loop().time()


def elapsed() -> float:
    """Seconds that count while the machine sleeps: CLOCK_BOOTTIME, which macOS calls CLOCK_MONOTONIC.

    See clock_gettime(2) and (3); Python's own ``time.monotonic`` stands still on a Mac that sleeps.
    """
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


@dataclass(frozen=True, slots=True)
class ClockGap:
    """How long, by which clock. ``set`` may be negative."""

    slept: float
    held: float
    """The process did not run, although the machine did."""
    set: float
    """The clock was put forward by so much."""

    @property
    def seconds(self) -> float:
        """By how much the wall clock is further than the time in which somebody watched."""
        return self.slept + self.held + self.set

    @property
    def reason(self) -> str:
        """CamelCase, for the event."""
        return "ClockJumped" if abs(self.set) >= GAP_SECONDS else "WokeUp"

    def __str__(self) -> str:
        words = []
        if self.slept >= GAP_SECONDS:
            words.append(f"the machine slept for {self.slept:.0f} s")
        if self.held >= HELD_SECONDS:
            words.append(f"the controller was held for {self.held:.0f} s")
        if abs(self.set) >= GAP_SECONDS:
            words.append(
                f"the clock was put {'forward' if self.set > 0 else 'back'} by {abs(self.set):.0f} s"
            )
        return f"{' and '.join(words)}: every node is looked at again before anything is done"


class ClockGaps:
    """Compares the clocks, as often as it is asked to."""

    def __init__(self, clocks: Clocks) -> None:
        self._clocks = clocks
        self._before: tuple[float, float, float] | None = None
        self._found: ClockGap | None = None

    def check(self) -> bool:
        """Compare the clocks with the last time; whether there is a lapse that nobody has taken yet."""
        now = (self._clocks.wall(), self._clocks.awake(), self._clocks.elapsed())
        before, self._before = self._before or now, now
        wall, awake, elapsed = now[0] - before[0], now[1] - before[1], now[2] - before[2]
        slept, put = elapsed - awake, wall - elapsed
        if max(slept, abs(put)) >= GAP_SECONDS or awake >= HELD_SECONDS:
            self._found = _sum(self._found, ClockGap(slept=slept, held=awake, set=put))
        return self._found is not None

    def take_gap(self) -> ClockGap | None:
        """The lapse since the last call; None for none."""
        self.check()
        found, self._found = self._found, None
        return found


def _sum(first: ClockGap | None, second: ClockGap) -> ClockGap:
    if first is None:
        return second
    return ClockGap(first.slept + second.slept, first.held + second.held, first.set + second.set)
