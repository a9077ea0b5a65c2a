"""What a controller of four emulated Macs has answered: at rest, and after a cable was pulled under a group."""

from __future__ import annotations

import json
import math
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

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
        metrics={"1h": history(3600, 90), "6h": history(6 * 3600, 90), "24h": history(86_400, 90)},
    )


def history(seconds: float, points: int) -> dict[str, Any]:
    """Return figures of the recorded cluster as a controller answers them, in which nothing was measured in the first third."""
    step = int(seconds / points)
    begins = AT - AT % step - step * (points - 1)

    def wave(low: float, high: float, shift: float) -> list[float | None]:
        known = (low + (high - low) * (0.5 + 0.5 * math.sin(shift + index / 7)) for index in range(points))
        return [None if index < points / 3 else round(value, 2) for index, value in enumerate(known)]

    large = "modeldeployment/large"
    nodes = [f"node/studio-{number}" for number in (1, 2, 3, 4)]
    series = [
        *((large, name, wave(0, high, shift)) for shift, (name, high) in enumerate(LARGE.items())),
        *((node, "memoryUsedBytes", wave(3e9, 3e11, shift)) for shift, node in enumerate(nodes)),
        *((node, "load", wave(1, 16, shift)) for shift, node in enumerate(nodes)),
    ]
    return {
        "begins": _time(begins),
        "seconds": step,
        "count": points,
        "series": [{"object": of, "name": name, "values": values} for of, name, values in series],
        "marks": [
            {"time": _time(AT - seconds / 2), "object": large, "kind": "incident", "text": "rank crash (C8)"},
            {
                "time": _time(AT - seconds / 2 + step),
                "object": large,
                "kind": "group",
                "text": "ask large/0, epoch 2",
            },
        ],
    }


LARGE = {
    "tokensPerSecond": 48.0,
    "running": 6,
    "waiting": 3,
    "errors": 1,
    "firstTokenP50": 0.4,
    "firstTokenP95": 2.5,
}


def _time(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
