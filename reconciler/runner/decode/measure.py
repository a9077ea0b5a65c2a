"""Measures how fast the ranks of a group compute and communicate, by all of them together between two steps."""

from __future__ import annotations

import dataclasses
import statistics
import time
from collections.abc import Callable
from typing import Any

import mlx.core as mx

from reconciler.runner.group import known_sums
from reconciler.wire.group import Gauging
from reconciler.wire.measuring import LinkPace, Measured, RankPace

ROUNDS_MAX = 100
BYTES_MAX = 64 * 2**20
"""Most bytes of one transfer: with the limit of rounds, all of it takes less time than a step that counts as hung."""
MATRIX_SIDE = 256
COMPUTE_ROUNDS = 5
MIB = 2**20


@dataclasses.dataclass(frozen=True)
class Paces:
    """The measurements of all ranks."""

    ranks: tuple[RankPace, ...]
    small_seconds: float
    large_seconds: float
    links: tuple[LinkPace, ...]
    summed_bytes: int = 0
    """The largest array with a known sum, which was right; 0 for a rank alone."""

    def as_measured(self, request: str, gauging: Gauging) -> Measured:
        bounded = _bounded(gauging)
        return Measured(
            request,
            self.ranks,
            bounded.small_bytes,
            bounded.large_bytes,
            self.small_seconds,
            self.large_seconds,
            self.links,
            self.summed_bytes,
        )


class Gauge:
    """Every rank does the same operations in the same order; what each has found all know in the end."""

    def __init__(self, group: Any) -> None:
        """``group`` is an ``mx.distributed.Group``, or None for a rank alone."""
        self._group = group
        self._rank: int = group.rank() if group is not None else 0
        self._size: int = group.size() if group is not None else 1

    def measure(self, gauging: Gauging, going_on: Callable[[], None]) -> Paces:
        """Check known sums, then measure. ``going_on`` is called after each part. Raises ``RankEnd(WRONG_RESULT)``, and MLX's
        errors."""
        gauging = _bounded(gauging)
        rounds = max(1, gauging.rounds // 4)
        summed = 0 if self._group is None else known_sums.check(self._group, gauging.large_bytes, going_on)
        figures = [self._compute(), mx.get_active_memory() / MIB]
        going_on()
        if self._group is not None:
            figures.append(self._sum(gauging.small_bytes, gauging.rounds, going_on))
            figures.append(self._sum(gauging.large_bytes, rounds, going_on))
            for one, other in self._pairs():
                figures.append(self._echo((one, other), gauging.small_bytes, gauging.rounds))
                going_on()
                figures.append(self._echo((one, other), gauging.large_bytes, rounds))
                going_on()
        return dataclasses.replace(self._paces(self._gather_figures(figures)), summed_bytes=summed)

    def _pairs(self) -> list[tuple[int, int]]:
        """Return neighbours in the order of ranks: only they are sure to have a direct link."""
        last = [(0, self._size - 1)] if self._size > 2 else []
        return [(rank, rank + 1) for rank in range(self._size - 1)] + last

    def _compute(self) -> float:
        side = mx.ones((MATRIX_SIDE, MATRIX_SIDE))
        mx.eval(side @ side)  # the first is slower
        return _median(lambda: mx.eval(side @ side), COMPUTE_ROUNDS)

    def _sum(self, size: int, rounds: int, going_on: Callable[[], None]) -> float:
        values = mx.ones((max(1, size // 4),))
        mx.eval(values)

        def add() -> None:
            mx.eval(mx.distributed.all_sum(values, group=self._group))
            going_on()

        add()
        return _median(add, rounds)

    def _echo(self, pair: tuple[int, int], size: int, rounds: int) -> float:
        """Return the seconds for one way; 0 on ranks that do not take part. All ranks begin together."""
        self._barrier()
        if self._rank not in pair:
            return 0.0
        values = mx.ones((max(1, size // 4),))
        mx.eval(values)
        first, other = self._rank == pair[0], pair[1] if self._rank == pair[0] else pair[0]

        def turn() -> None:
            for sends in (first, not first):
                if sends:
                    mx.eval(mx.distributed.send(values, other, group=self._group))
                else:
                    mx.eval(mx.distributed.recv_like(values, other, group=self._group))

        turn()
        return _median(turn, rounds) / 2

    def _barrier(self) -> None:
        mx.eval(mx.distributed.all_sum(mx.ones((1,)), group=self._group))

    def _gather_figures(self, figures: list[float]) -> list[list[float]]:
        """Return the figures of every rank, in the order of ranks."""
        if self._group is None:
            return [figures]
        rows = mx.distributed.all_gather(mx.array([figures], dtype=mx.float32), group=self._group)
        mx.eval(rows)
        found: Any = rows.tolist()
        return [[float(figure) for figure in row] for row in found]

    def _paces(self, rows: list[list[float]]) -> Paces:
        ranks = tuple(RankPace(row[0], int(row[1] * MIB)) for row in rows)
        if self._group is None:
            return Paces(ranks, 0.0, 0.0, ())
        slowest = [max(column) for column in zip(*rows, strict=True)]
        links = tuple(
            LinkPace(pair, slowest[4 + 2 * at], slowest[5 + 2 * at]) for at, pair in enumerate(self._pairs())
        )
        return Paces(ranks, slowest[2], slowest[3], links)


def _bounded(gauging: Gauging) -> Gauging:
    return Gauging(
        min(max(1, gauging.rounds), ROUNDS_MAX),
        min(max(4, gauging.small_bytes), BYTES_MAX),
        min(max(4, gauging.large_bytes), BYTES_MAX),
    )


def _median(work: Callable[[], None], rounds: int) -> float:
    seconds = []
    for _ in range(rounds):
        began = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - began)
    return statistics.median(seconds)
