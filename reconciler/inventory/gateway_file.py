"""The gateway as its own file tells: written when it listens, void when its process is gone."""

from __future__ import annotations

import json
import os
from pathlib import Path

from reconciler.state import GatewayObservation


def observe_gateway(path: Path) -> GatewayObservation | None:
    """The gateway that listens now; None when none does."""
    try:
        body = json.loads(path.read_text())
        seen = GatewayObservation(pid=int(body["pid"]), endpoint=str(body["endpoint"]))
        os.kill(seen.pid, 0)
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return seen
