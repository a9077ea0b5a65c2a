"""What a controller of four emulated Macs has answered: at rest, and after a cable was pulled under a group."""

from __future__ import annotations

import json
from pathlib import Path

from reconciler.console.snapshot import Snapshot

RECORDED = Path(__file__).parent / "recorded"
AT = 1_764_064_000.0
"""Seconds since the Unix epoch, shortly after the recording."""


def recorded(name: str) -> Snapshot:
    """Return the snapshot that a feed would have made of a recording: ``four-macs`` or ``cable-pulled``."""
    answers = json.loads((RECORDED / f"{name}.json").read_text())
    return Snapshot(
        number=1,
        at=AT,
        status=answers["status"],
        objects=tuple(answers["objects"]["items"]),
        ranks=tuple(answers["ranks"]["items"]),
        plan=answers["plan"],
        incidents=tuple(answers["incidents"]["items"]),
        events=tuple(answers["events"]["items"]),
        usage=answers["usage"],
    )
