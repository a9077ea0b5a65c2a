"""Measurements of how fast the ranks of a group compute and communicate, over rank 0's connection for requests."""

from __future__ import annotations

import dataclasses
from typing import Tuple

from .codec import message


@message("measure")
class Measure:
    """Let all ranks of the group measure how fast they compute and communicate, together and between two steps.
    The answer is ``Measured``, or ``Failed``: ``busy`` while requests are being answered."""

    request: str
    rounds: int = 20
    """Number of small transfers; a quarter of that for large ones."""
    small_bytes: int = 4096
    large_bytes: int = 4 * 1024 * 1024
    under_load: bool = False
    """Measure also while answers are being produced, which stand still meanwhile."""


@dataclasses.dataclass(frozen=True)
class RankPace:
    """One rank's measurements of itself."""

    compute_seconds: float
    """Median time of a matrix multiplication that is the same on every rank."""
    memory_bytes: int
    """Memory that MLX holds there."""


@dataclasses.dataclass(frozen=True)
class LinkPace:
    """The measurements by two neighbouring ranks of their link."""

    ranks: Tuple[int, int]
    small_seconds: float
    """One way, the median."""
    large_seconds: float


@message("measured")
class Measured:
    """The last event of a ``Measure``. Seconds are medians, of the slowest rank."""

    request: str
    ranks: Tuple[RankPace, ...]
    small_bytes: int = 0
    large_bytes: int = 0
    small_seconds: float = 0.0
    """Time to sum a small array over all ranks; 0 with one rank."""
    large_seconds: float = 0.0
    links: Tuple[LinkPace, ...] = ()
    summed_bytes: int = 0
    """The largest array with a known sum, which was right; 0 with one rank. A wrong one ends the group."""
