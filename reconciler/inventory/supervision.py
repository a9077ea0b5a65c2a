"""Reads the acts of `up` on services that gave no answer, and the console's report of itself."""

from __future__ import annotations

import json
from pathlib import Path

from reconciler.wire.codec import WireError, from_wire
from reconciler.wire.supervision import Act, Supervision


def observe_supervision(path: Path) -> tuple[Act, ...]:
    """Return the newest acts, the oldest first; none without a valid file."""
    try:
        return from_wire(Supervision, json.loads(path.read_bytes())).acts
    except (OSError, ValueError, WireError):
        return ()


def observe_console(path: Path) -> str:
    """Return why the console does not listen as declared; empty if it does, or without a valid file."""
    try:
        state = json.loads(path.read_bytes())
        return str(state["problem"] or "") if isinstance(state, dict) else ""
    except (OSError, ValueError, LookupError):
        return ""
