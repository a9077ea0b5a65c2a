"""Real ranks behind a real gateway."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from tests.runner.ranks import Group

TINY = Path(__file__).parents[2] / "examples" / "models" / "tiny"


@dataclasses.dataclass(frozen=True)
class Serving:
    """A group as a route names it."""

    group: Group
    epoch: int = 1

    @property
    def path(self) -> Path:
        return Path(self.group.socket)

    @property
    def pids(self) -> list[int]:
        """Of the ranks that live."""
        return [rank.process.pid for rank in self.group.ranks if rank.process.poll() is None]

    def demands(self) -> list[int]:
        return [rank.last.demand for rank in self.group.ranks]

    def steps(self) -> list[int]:
        return [rank.last.steps for rank in self.group.ranks]
