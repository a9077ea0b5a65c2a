"""Figures over time in bounded size: every ten seconds for an hour, every minute for a day. Pure: no clock."""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

NAN = math.nan


class Key(NamedTuple):
    """A figure of an object."""

    object: str
    """``kind/name`` in lower case."""
    name: str
    """As ``wire.admin.ShowMetrics`` has it."""


Sample = Mapping[Key, float]
"""The figures of one moment."""
SUMMED = frozenset({"errors"})
"""Figures that count within an interval: a longer interval has their sum, and the mean of all others."""


@dataclass(frozen=True, slots=True)
class Step:
    """A density of figures."""

    seconds: int
    count: int

    def slot(self, at: float) -> int:
        """Return the number of the interval that a moment is in, counted from the Unix epoch."""
        return int(at // self.seconds)


FINE, COARSE = Step(10, 360), Step(60, 1440)
"""An hour, and a day. A figure takes four bytes: all of a series are 7,200 bytes, and a machine has three series."""
SERIES_MAX = 4096
"""Most series: they take 30 MB. Others begin only when some have ended."""


class Ring:
    """The newest figures of all series at one density. A series without any figure in all that time is forgotten."""

    def __init__(self, step: Step) -> None:
        self.step = step
        self.last = -1
        """The newest slot; -1 before the first."""
        self._values: dict[Key, array[float]] = {}
        self._seen: dict[Key, int] = {}

    def put(self, slot: int, sample: Sample) -> None:
        """Add the figures of a slot. If the clock was set back, later figures are forgotten."""
        if slot <= self.last:
            self._forget_from(slot)
        elif self.last >= 0:
            self._clear(range(self.last + 1, min(slot, self.last + self.step.count) + 1))
        for key in [key for key, seen in self._seen.items() if seen <= slot - self.step.count]:
            del self._values[key], self._seen[key]
        self.last = slot
        for key, value in sample.items():
            values = self._values.get(key)
            if values is None:
                if len(self._values) >= SERIES_MAX:
                    continue
                values = self._values[key] = array("f", [NAN]) * self.step.count
            values[slot % self.step.count] = value
            self._seen[key] = slot

    def read(self, first: int, last: int) -> dict[Key, list[float]]:
        """Return the figures of the slots from ``first`` to ``last``; NaN if none is known."""
        known = range(max(first, self.last - self.step.count + 1), min(last, self.last) + 1)
        before = [NAN] * (min(known.start, last + 1) - first)
        after = [NAN] * (last + 1 - max(known.stop, known.start, first)) if known else []
        if not known:
            before = [NAN] * (last + 1 - first)
        size = self.step.count
        return {
            key: [*before, *(values[slot % size] for slot in known), *after]
            for key, values in self._values.items()
        }

    def _forget_from(self, slot: int) -> None:
        self._clear(range(max(slot, self.last - self.step.count + 1), self.last + 1))

    def _clear(self, slots: Iterable[int]) -> None:
        for slot in slots:
            for values in self._values.values():
                values[slot % self.step.count] = NAN


@dataclass(frozen=True, slots=True)
class History:
    """Figures at equal distances."""

    begins: float
    """The beginning of the first interval, in seconds since the Unix epoch."""
    seconds: int
    """The length of each interval."""
    count: int
    values: Mapping[Key, list[float]]


class Series:
    """All figures, at both densities."""

    def __init__(self) -> None:
        self.fine, self.coarse = Ring(FINE), Ring(COARSE)
        self._minute: dict[Key, list[float]] = {}
        self._minute_slot = -1

    def add(self, at: float, sample: Sample) -> tuple[int, Sample] | None:
        """Add the figures of a moment. Return a minute that is complete now, with its slot; else None."""
        self.fine.put(FINE.slot(at), sample)
        slot, complete = COARSE.slot(at), None
        if slot != self._minute_slot:
            if self._minute:
                complete = self._minute_slot, {key: mean(key, found) for key, found in self._minute.items()}
                self.coarse.put(*complete)
            self._minute_slot, self._minute = slot, {}
        for key, value in sample.items():
            self._minute.setdefault(key, []).append(value)
        return complete

    def read(
        self, seconds: float, now: float, points: int, wanted: Callable[[Key], bool] = lambda _: True
    ) -> History:
        """Return the last ``seconds``, in at most ``points`` intervals. Intervals begin at multiples of their length, so that
        they stay the same as time passes."""
        ring = self.fine if seconds <= FINE.seconds * FINE.count else self.coarse
        step = ring.step
        slots = min(max(1, math.ceil(seconds / step.seconds)), step.count)
        each = max(1, math.ceil(slots / max(1, points)))
        last = step.slot(now) // each
        count = math.ceil(slots / each)
        first = last - count + 1
        found = ring.read(first * each, (last + 1) * each - 1)
        values = {
            key: [mean(key, part) for part in _parts(figures, each)]
            for key, figures in found.items()
            if wanted(key)
        }
        known = {key: figures for key, figures in values.items() if not all(map(math.isnan, figures))}
        return History(first * each * step.seconds, each * step.seconds, count, known)


def mean(key: Key, values: Iterable[float]) -> float:
    """Return the figure that stands for several of a series; NaN if none is known."""
    known = [value for value in values if not math.isnan(value)]
    if not known:
        return NAN
    return sum(known) if key.name in SUMMED else sum(known) / len(known)


def _parts(values: list[float], size: int) -> Iterator[list[float]]:
    for begin in range(0, len(values), size):
        yield values[begin : begin + size]
