"""The rest of a key's limits, which clients get with each answer."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True, slots=True)
class Figure:
    """One limit of a key."""

    limit: int
    remaining: int
    reset_seconds: float
    """The time without requests after which all of it is there again."""


@dataclasses.dataclass(frozen=True, slots=True)
class Figures:
    """The limits of a key that clients see; None if there is no such limit."""

    requests: Figure | None = None
    """Of a minute."""
    tokens: Figure | None = None
    """Of a minute, or else of a day."""
    now: float = 0.0
    """The time of these values, in seconds since the Unix epoch."""
