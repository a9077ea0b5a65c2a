"""Simulates idle time on an emulated Mac for its agent, so that rehearsals need not wait."""

from __future__ import annotations

from pathlib import Path
from typing import Any

MODULE = "reconciler.agent.ranks.vitals"
"""Module of the agent that counts idle time."""
FILE = "emulated_mac.idle"
"""File next to the package with the smallest idle time in seconds."""


def patch(vitals: Any, path: Path) -> None:
    """Report idle ranks as idle for at least as long as the file says."""
    real = vitals.Vitals.tick

    def tick(self: Any, *args: Any) -> bool:
        ticked: bool = real(self, *args)
        if self.idle_seconds > 0:
            self.idle_seconds = max(self.idle_seconds, passed(path))
        return ticked

    vitals.Vitals.tick = tick


def passed(path: Path) -> float:
    """Return the content of the file; 0 without one."""
    try:
        return float(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return 0.0
