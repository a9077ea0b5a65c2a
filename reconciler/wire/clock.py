"""Stored times, which may come from a clock that was ahead and has been set back since."""

from __future__ import annotations

SLACK_SECONDS = 300.0
"""Clocks are set back by up to this much in normal operation."""


def seconds_left(until: float, now: float, longest: float) -> float:
    """Return the seconds until a stored time; 0 once it is over, and if it is further away than the ``longest`` wait:
    then a clock that was ahead wrote it."""
    seconds = until - now
    return seconds if 0 < seconds <= longest + SLACK_SECONDS else 0.0
