"""The use in the last minute. Pure: no clock.

A token bucket that holds a minute's worth lets twice as much through in its first minute: its contents, and the refill
meanwhile. This one counts by the second instead, so that no 60 seconds, wherever they begin, have more than the limit.
It costs at most a second's worth of the limit, and 61 numbers for each key.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence

SECONDS = 60


class Window:
    """Amounts by the second in which they were taken. Times are in seconds of one clock that only grows."""

    __slots__ = ("_amounts", "_seconds", "total")

    def __init__(self) -> None:
        self._seconds: deque[int] = deque()
        self._amounts: dict[int, int] = {}
        self.total = 0
        """The sum of the last minute, as of the last call."""

    def forget(self, now: float) -> None:
        """Drop amounts older than a minute."""
        oldest = math.floor(now) - SECONDS
        while self._seconds and self._seconds[0] < oldest:
            self.total -= self._amounts.pop(self._seconds.popleft())

    def take(self, amount: int, now: float) -> int:
        """Count an amount. Returns its second, for ``correct``."""
        second = math.floor(now)
        if second not in self._amounts:
            self._seconds.append(second)
            self._amounts[second] = 0
        self._amounts[second] += amount
        self.total += amount
        return second

    def correct(self, second: int, change: int) -> None:
        """Change the amount of a second, unless it is older than a minute and no longer counts."""
        if second in self._amounts:
            self._amounts[second] += change
            self.total += change

    def room_in(self, amount: int, limit: int, now: float) -> float:
        """Return the seconds until ``amount`` fits under ``limit``; 0 for now, infinity for never."""
        self.forget(now)
        if amount > limit:
            return math.inf
        total = self.total
        if total + amount <= limit:
            return 0.0
        for second in self._seconds:
            total -= self._amounts[second]
            if total + amount <= limit:
                return second + SECONDS + 1 - now
        raise AssertionError("an empty window has room for the limit")

    def reset_in(self, now: float) -> float:
        """Return the seconds until no amount is left."""
        self.forget(now)
        return self._seconds[-1] + SECONDS + 1 - now if self.total else 0.0

    def go_on(self, ages: Sequence[float], now: float) -> None:
        """Count also the amounts of another window, as ``ages`` returns them."""
        for age, amount in zip(ages[::2], ages[1::2], strict=True):
            self.take(int(amount), now - age)

    def ages(self, now: float) -> list[float]:
        """Return, in one flat list, the age in seconds of each second with an amount, and that amount."""
        self.forget(now)
        return [each for second in self._seconds for each in (now - second, self._amounts[second])]
