"""The acts of `up` on services that gave no answer: ``supervision.json``, written by `up`, read by the controller."""

from __future__ import annotations

import dataclasses
from typing import Tuple

KEPT = 20
"""Number of acts to keep; the oldest are dropped."""


@dataclasses.dataclass(frozen=True)
class Act:
    """One process that was continued, or ended and started again."""

    at: float
    """Time in seconds since the Unix epoch."""
    service: str
    reason: str
    """The CamelCase reason of its event."""
    text: str
    """A sentence for people."""


@dataclasses.dataclass(frozen=True)
class Supervision:
    """The newest acts, oldest first."""

    acts: Tuple[Act, ...] = ()
    version: int = 1
