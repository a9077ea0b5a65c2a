"""The memory of the sequences that are read and decoded, and the lanes in which they are decoded. Pure: rank 0 decides.

All sequences of a lane are decoded together, and each takes as much memory as the longest: MLX has no arrays with rows of
different lengths (``BatchKVCache`` of mlx-lm). A lane more costs one more pass over the weights with every token.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence

from reconciler.runner.model.caches import Footprint
from reconciler.wire.launch import CACHE_STEP

WASTE_MAX = 64 * 2**20
"""Bytes that a lane may take beyond what its sequences need: to read them with every token costs as much as a further
pass over the weights of the smallest model."""
WASTE_OF_WEIGHTS = 8
"""The same as a part of the weights: a mixture of experts reads few of them with a token."""
HEADROOM = 256
"""Tokens for which there has to be room when a sequence begins, so that it does not give way at once."""


@dataclasses.dataclass
class _Lane:
    steps: int = 0
    """Tokens that each of its sequences has got since the lane began."""
    begun: dict[int, int] = dataclasses.field(default_factory=dict)
    """For each sequence its length, if it had been in the lane from the beginning, less ``steps``."""

    @property
    def longest(self) -> int:
        return self.steps + max(self.begun.values())

    def lengths(self) -> list[int]:
        return [self.steps + length for length in self.begun.values()]


class Lanes:
    """Which sequence is where, and whether there is room for more. Lanes are numbers from 0."""

    def __init__(self, footprint: Footprint, bytes_max: Sequence[int], weights_bytes: int = 0) -> None:
        """``bytes_max`` bounds each rank's memory for them; empty: nothing is known of it, and nothing bounded."""
        self._footprint = footprint
        self._bytes_max = tuple(bytes_max)
        self._waste_max = max(WASTE_MAX, weights_bytes // WASTE_OF_WEIGHTS)
        self._lanes: dict[int, _Lane] = {}
        self._read: dict[int, int] = {}
        """Sequences that are not decoded yet, and the lengths of their prompts."""
        self._safe_steps = 0
        """As long as nothing comes or goes, there is room for so many steps more."""

    def have_room(self, length: int) -> bool:
        """Return whether there is room for one more sequence, with a prompt of so many tokens."""
        return not (self._lanes or self._read) or self._fits([*self._rows(), (1, length + HEADROOM)])

    def enter(self, uid: int, length: int) -> None:
        """Note that a sequence has begun, with a prompt of so many tokens."""
        self._read[uid] = length
        self._safe_steps = 0

    def go_together(self, uids: Sequence[int]) -> bool:
        """Return whether there is room for prompts to be read together."""
        lengths = [self._read[uid] for uid in uids]
        rows = [*self._rows(without=uids), (len(lengths), max(lengths))]
        return self._waste(lengths) <= self._waste_max and self._fits(rows)

    def start(self, uids: Sequence[int]) -> int:
        """Note that prompts are read to their ends, together. Return the lane that decodes them: the one in which the least
        is wasted, or one of their own."""
        new = [self._read[uid] for uid in uids]
        found = min(self._joinable(uids, new), default=None)
        number = found[1] if found else next(n for n in range(len(self._lanes) + 1) if n not in self._lanes)
        lane = self._lanes.setdefault(number, _Lane())
        lane.begun.update((uid, length - lane.steps) for uid, length in zip(uids, new, strict=True))
        for uid in uids:
            del self._read[uid]
        self._safe_steps = 0
        return number

    def _joinable(self, uids: Sequence[int], new: Sequence[int]) -> Iterator[tuple[int, int]]:
        """Yield the lanes that new sequences can join, after what is wasted then."""
        for number, lane in self._lanes.items():
            lengths = [*lane.lengths(), *new]
            wasted = self._waste(lengths)
            if wasted <= self._waste_max:
                rows = [*self._rows(without=(*uids, *lane.begun)), (len(lengths), max(lengths))]
                if self._fits(rows):
                    yield wasted, number

    def leave(self, uid: int) -> None:
        """Note that a sequence is there no more."""
        self._read.pop(uid, None)
        for number, lane in tuple(self._lanes.items()):
            lane.begun.pop(uid, None)
            if not lane.begun:
                del self._lanes[number]

    def step(self) -> list[int]:
        """Note that every sequence that is decoded gets one token more. Return the sequences for which there is no room
        then, and let them leave: the latest first."""
        for lane in self._lanes.values():
            lane.steps += 1
        if self._safe_steps:
            self._safe_steps -= 1
            return []
        left: list[int] = []
        while not self._fits(self._rows()):
            there = [*self._read, *(uid for lane in self._lanes.values() for uid in lane.begun)]
            if len(there) < 2:
                break
            left.append(max(there))
            self.leave(left[-1])
        self._safe_steps = self._steps_with_room()
        return left

    def _steps_with_room(self) -> int:
        """Return for how many more steps there surely is room. No step takes more than the next one does, because windows
        get full."""
        now = self._taken(self._rows())
        soon = self._taken([(count, length + 1) for count, length in self._rows()])
        rooms = zip(self._bytes_max, now, soon, strict=False)
        return min(
            (max(0, most - taken) // max(1, then - taken) for most, taken, then in rooms), default=CACHE_STEP
        )

    # --- memory ---

    def _rows(self, without: Sequence[int] = ()) -> list[tuple[int, int]]:
        """Return numbers of sequences, and how long they are, but for some. A lane is left out with all of its own."""
        rows = [(1, length) for uid, length in self._read.items() if uid not in without]
        lanes = (lane for lane in self._lanes.values() if not lane.begun.keys() <= set(without))
        return [*rows, *((len(lane.begun), lane.longest) for lane in lanes)]

    def _fits(self, rows: Sequence[tuple[int, int]]) -> bool:
        return all(size <= most for size, most in zip(self._taken(rows), self._bytes_max, strict=False))

    def _taken(self, rows: Sequence[tuple[int, int]]) -> tuple[int, ...]:
        ranks, on = range(len(self._bytes_max)), self._footprint.bytes_on
        return tuple(sum(count * on(rank, length + CACHE_STEP) for count, length in rows) for rank in ranks)

    def _waste(self, lengths: Sequence[int]) -> int:
        """Return what a lane of such sequences takes beyond what they need, on the rank that needs the most."""
        return len(lengths) * self._footprint.bytes(max(lengths)) - sum(map(self._footprint.bytes, lengths))
