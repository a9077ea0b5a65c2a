"""A small collective in a group that nobody asks anything: queue pairs that are not used for long decay."""

from __future__ import annotations

import dataclasses
from typing import Any

from .batch import known_endings


@dataclasses.dataclass(frozen=True)
class Pulse:
    """The collective, and after how many seconds without a step it is done."""

    group: Any
    """An ``mx.distributed.Group``."""
    seconds: float

    def beat(self) -> None:
        """Do it, as all ranks do now. Raises ``RankEnd`` where the network fails; hangs where that hangs."""
        import mlx.core as mx

        with known_endings():
            mx.eval(mx.distributed.all_sum(mx.array([1]), group=self.group))
