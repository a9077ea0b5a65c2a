"""Times that outlive the clock they were read from: a stored time may be of a clock that was ahead since."""

from __future__ import annotations

SLACK_SECONDS = 300.0
"""How far clocks are set back without anything being wrong."""


def seconds_left(until: float, now: float, longest: float) -> float:
    """Return the seconds until a stored time; 0 once it is over, and where it is further ahead than the ``longest`` wait that is
    ever set: then it was written by a clock that was ahead, and nobody waits for that day."""
    seconds = until - now
    return seconds if 0 < seconds <= longest + SLACK_SECONDS else 0.0
