"""What `up` did to services that gave no answer: in ``supervision.json``, written by `up`, read by the controller."""

from __future__ import annotations

import dataclasses
from typing import Tuple

KEPT = 20
"""How many acts are kept; the oldest go."""


@dataclasses.dataclass(frozen=True)
class Act:
    """One process that was continued, or ended and started again."""

    at: float
    """In seconds since the Unix epoch."""
    service: str
    reason: str
    """CamelCase: that of its event."""
    text: str
    """A sentence for people."""


@dataclasses.dataclass(frozen=True)
class Supervision:
    """The newest acts, the oldest first."""

    acts: Tuple[Act, ...] = ()
    version: int = 1
