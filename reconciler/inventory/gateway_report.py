"""Reads the gateway's own status file, which is valid only while its process runs."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from reconciler.state import GatewayObservation


def observe_gateway(path: Path) -> GatewayObservation | None:
    """Return the current gateway; None if it is not running. A gateway that cannot listen ends, and is restarted."""
    try:
        body = json.loads(path.read_text())
        problem = _text(body.get("problem")) or ""
        seen = GatewayObservation(
            int(body["pid"]), _text(body["endpoint"]), problem, int(body.get("token", 0))
        )
        if seen.endpoint is None:
            return seen
        os.kill(seen.pid, 0)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
    return seen


def _text(value: Any) -> str | None:
    return None if value is None else str(value)
