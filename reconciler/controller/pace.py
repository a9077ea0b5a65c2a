"""Lets passes share the event loop with all other work: in slices, and with a bounded part of a processor's core.

Time is that of the event loop. Work that takes no time by it is not interrupted, and not delayed.
"""

from __future__ import annotations

import asyncio
from contextlib import closing, suppress
from typing import TypeVar

from reconciler.state.slices import Slices

SLICE_SECONDS = 0.01
"""After this time a computation lets the event loop do something else: a report of a death waits no longer."""
SHARE_MAX = 0.2
"""The part of a core that passes may take in the long run, whatever triggers them."""
AHEAD_SECONDS_MAX = 4.0
"""Time that passes may take in advance after a quiet time: a group is formed again without waiting in between, also in
a cluster in which each pass takes long."""

T = TypeVar("T")


async def in_slices(slices: Slices[T]) -> tuple[T, float]:
    """Run a computation. Return its result, and the seconds that it has taken itself."""
    clock, spent = asyncio.get_running_loop().time, 0.0
    with closing(slices):
        begun = clock()
        while True:
            try:
                next(slices)
            except StopIteration as end:
                return end.value, spent + clock() - begun
            taken = clock() - begun
            if taken >= SLICE_SECONDS:
                spent += taken
                await asyncio.sleep(0)
                begun = clock()


class Pace:
    """Delays passes that would take more than their share. After a quiet time, the next ones begin at once."""

    def __init__(self) -> None:
        self._owed = 0.0
        """Seconds that passes took beyond their share; negative if they took less."""
        self._at: float | None = None

    def took(self, seconds: float) -> None:
        """Note how long a pass took."""
        self._owed = self._owed_now() + seconds
        self._at = asyncio.get_running_loop().time()

    async def rest(self, hurry: asyncio.Event) -> None:
        """Wait until the next pass may begin, or until ``hurry`` is set."""
        seconds = self._owed_now() / SHARE_MAX
        if seconds <= 0:
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await hurry.wait()

    def _owed_now(self) -> float:
        if self._at is None:
            return -AHEAD_SECONDS_MAX
        quiet = asyncio.get_running_loop().time() - self._at
        return max(self._owed - SHARE_MAX * quiet, -AHEAD_SECONDS_MAX)
