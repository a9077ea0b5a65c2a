"""Detects clock gaps: times in which the controller did not watch although its clock went on.

The causes are sleep, a clock that was set, and a suspended process. Meanwhile another controller may have taken over,
and all observations may be outdated: a gap counts as the loss of the lease. Deadlines in memory are shifted by it;
those on disk are bounded by the planner.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass

GAP_SECONDS = 5.0
"""Shorter gaps are normal: clocks are set in small steps."""
HELD_SECONDS = 10.0
"""Shorter suspensions are normal: a busy machine delays processes, and clocks are read twice a second."""


@dataclass(frozen=True, slots=True)
class Clocks:
    """Three clocks in seconds; their differences reveal a gap."""

    wall: Callable[[], float]
    """Seconds since the Unix epoch; people and NTP may set this clock in either direction."""
    awake: Callable[[], float]
    """Stands still while the machine sleeps: ``time.monotonic``, which is mach_absolute_time on macOS
    (docs.python.org/3/library/time.html) and CLOCK_MONOTONIC on Linux."""
    elapsed: Callable[[], float]
    """Continues while the machine sleeps."""


def loop_time() -> float:
    """Return the clock of the event loop: ``time.monotonic``."""
    return asyncio.get_running_loop().time()


def elapsed() -> float:
    """Return a clock that continues while the machine sleeps: CLOCK_BOOTTIME, which macOS calls CLOCK_MONOTONIC.

    See clock_gettime(2) and (3); Python's own ``time.monotonic`` stands still on a Mac that sleeps.
    """
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


@dataclass(frozen=True, slots=True)
class ClockGap:
    """The lengths of a gap by cause. ``set`` may be negative."""

    slept: float
    held: float
    """Seconds that the process was suspended while the machine ran."""
    set: float
    """Seconds by which the clock was set forward."""

    @property
    def seconds(self) -> float:
        """Return how far the wall clock is ahead of the watched time."""
        return self.slept + self.held + self.set

    @property
    def reason(self) -> str:
        """Return the CamelCase reason for the event."""
        return "ClockJumped" if abs(self.set) >= GAP_SECONDS else "WokeUp"

    def __str__(self) -> str:
        words = []
        if self.slept >= GAP_SECONDS:
            words.append(f"the machine slept for {self.slept:.0f} s")
        if self.held >= HELD_SECONDS:
            words.append(f"the controller was suspended for {self.held:.0f} s")
        if abs(self.set) >= GAP_SECONDS:
            words.append(
                f"the clock was set {'forward' if self.set > 0 else 'back'} by {abs(self.set):.0f} s"
            )
        return f"{' and '.join(words)}: every node is observed again before the next action"


class ClockGaps:
    """Compares the clocks on every call."""

    def __init__(self, clocks: Clocks) -> None:
        self._clocks = clocks
        self._before: tuple[float, float, float] | None = None
        self._found: ClockGap | None = None

    def check(self) -> bool:
        """Compare the clocks with the last call. Return whether there is an unprocessed gap."""
        now = (self._clocks.wall(), self._clocks.awake(), self._clocks.elapsed())
        before, self._before = self._before or now, now
        wall, awake, elapsed = now[0] - before[0], now[1] - before[1], now[2] - before[2]
        slept, put = elapsed - awake, wall - elapsed
        if max(slept, abs(put)) >= GAP_SECONDS or awake >= HELD_SECONDS:
            self._found = _sum(self._found, ClockGap(slept=slept, held=awake, set=put))
        return self._found is not None

    def take_gap(self) -> ClockGap | None:
        """Return the gap since the last call; None without one."""
        self.check()
        found, self._found = self._found, None
        return found


def _sum(first: ClockGap | None, second: ClockGap) -> ClockGap:
    if first is None:
        return second
    return ClockGap(first.slept + second.slept, first.held + second.held, first.set + second.set)
