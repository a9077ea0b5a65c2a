"""What a key has left, as clients are told with each answer."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True, slots=True)
class Figure:
    """One limit of a key."""

    limit: int
    remaining: int
    reset_seconds: float
    """After how long without requests all of it is there again."""


@dataclasses.dataclass(frozen=True, slots=True)
class Figures:
    """The limits of a key of which clients are told; None where there is no such limit."""

    requests: Figure | None = None
    """Of a minute."""
    tokens: Figure | None = None
    """Of a minute, or else of a day."""
    now: float = 0.0
    """When they were so, in seconds since the Unix epoch."""
