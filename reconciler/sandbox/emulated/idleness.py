"""Time without work that has passed on an emulated Mac: whoever rehearses does not wait for it. Felt by its agent."""

from __future__ import annotations

from pathlib import Path
from typing import Any

MODULE = "reconciler.agent.ranks.vitals"
"""Of the agent, which counts for how long nobody has asked a rank for anything."""
FILE = "emulated_mac.idle"
"""Beside the package: for how many seconds nobody has, at least."""


def patch(vitals: Any, path: Path) -> None:
    """Have ranks that rest be told of as resting for as long as the file says, where that is longer."""
    real = vitals.Vitals.tick

    def tick(self: Any, *args: Any) -> bool:
        told: bool = real(self, *args)
        if self.idle_seconds > 0:
            self.idle_seconds = max(self.idle_seconds, passed(path))
        return told

    vitals.Vitals.tick = tick


def passed(path: Path) -> float:
    """What the file says; 0 where there is none."""
    try:
        return float(path.read_text())
    except (OSError, ValueError):
        return 0.0
