"""What a controller answers about a small cluster: two nodes, one model, one replica over both."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from reconciler.wire.admin import Get, ReadRankLog

AGE_SECONDS = 90 * 60 + 30
"""In the middle of a minute, so that no test sees it grow."""
API = "reconciler/v1alpha1"


def ago(seconds: float = AGE_SECONDS) -> str:
    return (datetime.now(UTC) - timedelta(seconds=seconds)).isoformat(timespec="milliseconds")


def conditions(ready: bool = True, message: str = "", stalled: str = "") -> list[dict[str, Any]]:
    def condition(type: str, status: bool, reason: str, text: str) -> dict[str, Any]:
        word = "True" if status else "False"
        return {
            "type": type,
            "status": word,
            "reason": reason,
            "message": text,
            "lastTransitionTime": ago(),
            "observedGeneration": 1,
        }

    return [
        condition("Ready", ready, "AsWanted" if ready else "NotYet", message),
        condition("Reconciling", not ready and not stalled, "Settled", message if not ready else ""),
        condition("Stalled", bool(stalled), "NotStalled" if not stalled else "Refused", stalled),
    ]


def item(kind: str, name: str, spec: Any, **status: Any) -> dict[str, Any]:
    return {
        "apiVersion": API,
        "kind": kind,
        "metadata": {"name": name, "labels": {}, "annotations": {}, "generation": 1},
        "spec": spec,
        "status": {"observedGeneration": 1, "conditions": conditions(), **status},
    }


def node(name: str) -> dict[str, Any]:
    return item(
        "Node",
        name,
        {"local": {}, "memory": {"reserve": "0B"}, "unschedulable": False},
        ranks=1,
        memoryBytes=64 * 2**30,
        cpus=12,
        system="Darwin 26.2 arm64",
        runtime={"mlx": "0.32.4", "mlx-lm": "0.32.2", "llguidance": "1.9.1"},
        agent="reached",
    )


def model() -> dict[str, Any]:
    present = {"node-a": "present", "node-b": "present"}
    return item("Model", "tiny", {"source": {"path": "tiny"}}, weightsBytes=6_697_488, nodes=present)


def deployment(**status: Any) -> dict[str, Any]:
    group = {
        "replica": 0,
        "epoch": 3,
        "phase": "ready",
        "nodes": ["node-a", "node-b"],
        "ports": "41000-41002",
        "strategy": "tensor (spec.parallelism.strategy)",
        "transport": "ring-lan (ring: no Thunderbolt cable is known between node-a and node-b)",
        "transportName": "ring-lan",
        "transportWhy": "ring: no Thunderbolt cable is known between node-a and node-b",
        "ready": True,
        "since": ago(),
    }
    spec = {"model": "tiny", "replicas": 1, "parallelism": {"strategy": "tensor"}}
    return item(
        "ModelDeployment",
        "tiny",
        spec,
        **{"replicas": 1, "readyReplicas": 1, "promptReuse": "any", "groups": [group], **status},
    )


def gateway() -> dict[str, Any]:
    spec = {"listen": "127.0.0.1:8400", "auth": {"mode": "none"}}
    return item("Gateway", "main", spec, endpoint="http://127.0.0.1:8400/v1", pid=4100)


def rank(number: int) -> dict[str, Any]:
    labels = {"deployment": "tiny", "replica": "0", "epoch": "3", "node": f"node-{'ab'[number]}"}
    return {
        "kind": "Rank",
        "metadata": {"name": f"tiny.0.3.{number}", "labels": labels},
        "deployment": "tiny",
        "replica": 0,
        "rank": number,
        "node": f"node-{'ab'[number]}",
        "pid": 4200 + number,
        "epoch": 3,
        "phase": "ready",
        "detail": "serving",
        "demand": 0,
        "steps": 17,
        "startedAt": ago(),
    }


def event(number: int, reason: str, message: str, warning: bool = False) -> dict[str, Any]:
    return {
        "id": number,
        "time": ago(),
        "type": "Warning" if warning else "Normal",
        "object": "modeldeployment/tiny",
        "reason": reason,
        "message": message,
        "revision": None,
        "hookTime": None,
    }


EVENTS = (
    (1, "RankExited", "rank 1 on node-b (epoch 2, pid 4102) was killed by signal 9", True),
    (2, "EpochAllocated", "form tiny/0 as epoch 3 on node-a, node-b (RankExited: rank 1 ended)", False),
    (3, "Ready", "1 of 1 replicas serve", False),
)


def objects(message: Get) -> dict[str, Any]:
    if message.kind == "Rank":
        found = [rank(0), rank(1)]
        chosen = [row for row in found if message.name in (None, row["deployment"])]
    else:
        found = [node("node-a"), node("node-b"), model(), deployment(), gateway()]
        chosen = [
            entry
            for entry in found
            if message.kind in (None, entry["kind"]) and message.name in (None, entry["metadata"]["name"])
        ]
    return {"version": "1", "revision": "5d0f0a9c2f", "items": chosen}


def rank_log(message: ReadRankLog) -> dict[str, Any]:
    """Three lines; those of rank 1 come half a second after those of rank 0, the second without a time."""
    text = "".join(
        (f"2026-11-21T10:00:0{second}.{5 * message.id.rank}00Z " if second != 1 else "") + f"{word}\n"
        for second, word in enumerate(("one", "two", "three"))
    )
    start = max(message.offset or 0, 0)
    node = f"node-{'ab'[message.id.rank]}"
    return {"text": text[start:], "offset": len(text), "node": node}


def _seat(node: str, rank: int | None, text: str) -> dict[str, Any]:
    return {"node": node, "rank": rank, "text": text}


PLACES = {
    "replica": 0,
    "text": "2 nodes, as its manifest wants",
    "nodes": [
        *(_seat(f"node-{'ab'[at]}", at, "charged 0.6 GiB, of 64.0 GiB that others leave") for at in range(2)),
        _seat("node-c", None, "it has the taint dedicated=training:NoSchedule"),
        *(_seat(f"node-{letter}", None, "it lacks the label pool=studios") for letter in "defghijk"),
    ],
}


USAGE: dict[str, Any] = {
    "nodes": [
        {"name": "node-a", "cpus": 16, "load": 2.31, "ranks": 1, "ranksCores": 1.87, "memoryBytes": 64 * 2**30,
         "memoryUsedBytes": 40 * 2**30, "pressure": "normal", "tokensPerSecond": 51.6},
        {"name": "node-b", "cpus": 16, "load": None, "ranks": 1, "ranksCores": 0.0, "memoryBytes": 64 * 2**30,
         "memoryUsedBytes": None, "pressure": "", "tokensPerSecond": 0.0},
    ],
    "ranks": [
        {"name": f"tiny.0.3.{number}", "node": f"node-{letter}", "cores": 1.87, "residentBytes": 30 * 2**30,
         "chargedBytes": 32 * 2**30, "demand": 3, "tokensPerSecond": 51.6}
        for number, letter in enumerate("ab")
    ],
}  # fmt: skip


DIFF = ["@@ -5,2 +5,2 @@", " spec:", "-  replicas: 1", "+  replicas: 2"]


def commit() -> dict[str, Any]:
    """A commit of a while ago."""
    return {
        "revision": "5d0f0a9c2f" + "0" * 30,
        "branch": "main",
        "author": "Ada",
        "email": "ada@example.org",
        "time": ago(),
        "subject": "Scale modeldeployment/tiny to 2",
        "state": "InForce",
        "objects": [{"object": "modeldeployment/tiny", "action": "changed"}],
        "objectsLeftOut": 0,
    }


def at_rest() -> dict[str, Any]:
    """An answer for every type of request."""
    return {
        "usage": USAGE,
        "get": objects,
        "plan": {"steps": [], "waiting": [], "refused": []},
        "places": {"items": [PLACES]},
        "events": {"items": [event(*entry) for entry in EVENTS], "last": 3},
        "incidents": {"version": "1", "items": []},
        "commits": {"version": "1", "items": [commit()], "problem": None},
        "commit": {
            **commit(),
            "message": commit()["subject"],
            "files": [{"path": "tiny.yaml", "action": "changed", "lines": DIFF, "leftOut": 0}],
            "undo": ["reconciler rollout undo modeldeployment/tiny --to-revision=1f0c2a9b3d"],
        },
        "rank_log": rank_log,
        "status": {
            "version": "0.1.0",
            "pid": 4000,
            "revision": "5d0f0a9c2f",
            "operations": "",
            "operationsInForce": 0,
            "operationsRejection": None,
            "held": None,
            "rejection": None,
            "suspended": None,
            "source": "git /home/cluster.git",
            "endpoint": "http://127.0.0.1:8400/v1",
            "localEndpoint": "http://127.0.0.1:8400/v1",
            "settled": True,
            "keysBehind": [],
        },
        "look": {},
        "stop": {},
    }


BUSY_PLAN = {
    "steps": [
        {
            "step": "StartRank",
            "object": "modeldeployment/tiny",
            "text": "start rank 0 of tiny/0 on node-a, epoch 4",
        }
    ],
    "waiting": [
        {
            "object": "modeldeployment/tiny",
            "reason": "BackOff",
            "text": "tiny/1 has failed 3 times",
            "until": "2026-11-21T10:00:00.000Z",
        }
    ],
    "refused": [
        {
            "object": "modeldeployment/big",
            "replica": f"big/{number}",
            "reason": "NoMemory",
            "text": "needs 80.0GiB, node-a has 12.0GiB",
        }
        for number in range(2)
    ],
}
