"""Computations in slices: each ``yield`` is a place where the event loop may do something else first.

The result does not depend on who runs the computation, or on how long that takes, because it works on snapshots.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import TypeVar

T = TypeVar("T")
Slices = Generator[None, None, T]
"""A computation that yields nothing, often, and returns its result at the end."""


def whole(slices: Slices[T]) -> T:
    """Run a computation at once, and return its result."""
    while True:
        try:
            next(slices)
        except StopIteration as end:
            result: T = end.value
            return result
