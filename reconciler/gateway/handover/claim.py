"""The right of a gateway to serve a home."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from .lock import Lock
from .taking import Taking


@dataclasses.dataclass(frozen=True, slots=True)
class Claim:
    """The lock of a home, or the gateway that has it and must hand it over; neither if nobody else serves that
    home."""

    lock: Lock | None = None
    before: Taking | None = None
    taken: Callable[[Lock], object] = lambda lock: None
    """Called with the lock that was handed over."""


NOTHING_TO_CLAIM = Claim()
