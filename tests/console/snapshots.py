"""What a controller of four emulated Macs has answered: at rest, and after a cable was pulled under a group."""

from __future__ import annotations

import copy
import json
import math
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from reconciler.console.pages import PAGES, Pages
from reconciler.console.snapshot import Snapshot
from reconciler.wire.answers import Metrics, Usage

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


def page_of(snapshot: Snapshot, path: str, name: str = "") -> str:
    """Return the page, whose address has no name or this."""
    page = next(page for page in PAGES if page.path == path)
    return Pages().whole(page, name, snapshot, wall=False)


def loading(of: str = "large") -> Snapshot:
    """Return the four machines while the group loads 700 GB, after better transports were skipped."""
    snapshot = recorded("four-macs")
    objects = copy.deepcopy(snapshot.objects)
    for each in objects:
        if each["kind"] == "ModelDeployment" and each["metadata"]["name"] == of:
            why = "jaccl, jaccl-ring: no cable joins studio-1 and studio-2"
            each["status"]["groups"][0] |= {
                "phase": "loading",
                "ready": False,
                "transportName": "ring",
                "transportWhy": why,
            }
            each["status"]["readyReplicas"] = 0
    ranks: list[Any] = [
        {**rank, "loadedBytes": 103 * 10**9, "totalBytes": 175 * 10**9} for rank in snapshot.usage["ranks"]
    ]
    return replace(snapshot, objects=objects, usage={**snapshot.usage, "ranks": ranks})


def enlarged(machines: int) -> Snapshot:
    """Return so many machines, each four of them like the recorded ones: a mesh, a model, a group."""
    snapshot = recorded("four-macs")
    nodes, deployment, fabric = snapshot.nodes, snapshot.deployments[0], snapshot.fabrics[0]
    objects: list[Any] = []
    ranks: list[Any] = []
    links: list[Any] = []
    usage = Usage(nodes=[], ranks=[], unobserved=[])
    for number in range(machines // 4):
        model = f"model-{number:03}"
        new = {f"studio-{old}": f"studio-{4 * number + old:03}" for old in range(1, 5)}
        for node, used in zip(nodes, snapshot.usage["nodes"], strict=True):
            objects.append({**node, "metadata": {**node["metadata"], "name": new[node["metadata"]["name"]]}})
            usage["nodes"].append({**used, "name": new[used["name"]], "gpuWatts": 171.0})
        serving = copy.deepcopy(deployment)
        serving["metadata"]["name"] = model
        serving["status"]["groups"][0]["nodes"] = list(new.values())
        objects.append(serving)
        ranks += [{**rank, "deployment": model, "node": new[rank["node"]]} for rank in snapshot.ranks]
        for rank in snapshot.usage["ranks"]:
            usage["ranks"].append({**rank, "name": rank["name"].replace("large", model)})
        for link in fabric["status"]["links"]:
            ends = [end.replace(end.partition("/")[0], new[end.partition("/")[0]]) for end in link["ends"]]
            links.append({**link, "ends": ends})
    status = {**fabric["status"], "links": links, "connected": len(links)}
    spec = {**fabric["spec"], "links": [link["ends"] for link in links]}
    objects.append({**fabric, "spec": spec, "status": status})
    return replace(snapshot, objects=tuple(objects), ranks=tuple(ranks), usage=usage)


def history(seconds: float, points: int) -> Metrics:
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
