"""What a controller answers about a small cluster: two nodes, one model, one replica over both."""

from __future__ import annotations

import copy
from datetime import UTC, datetime, timedelta
from typing import Any

from reconciler.wire import answers
from reconciler.wire.admin import Get, ReadRankLog
from reconciler.wire.objects import (
    Condition,
    DeploymentFields,
    GatewayFields,
    Group,
    ModelFields,
    NodeFields,
    NodeSpec,
    Rank,
)

AGE_SECONDS = 90 * 60 + 30
"""In the middle of a minute, so that no test sees it grow."""
API = "reconciler/v1alpha1"


def ago(seconds: float = AGE_SECONDS) -> str:
    return (datetime.now(UTC) - timedelta(seconds=seconds)).isoformat(timespec="milliseconds")


def conditions(ready: bool = True, message: str = "", stalled: str = "") -> list[Condition]:
    def condition(type: str, status: bool, reason: str, text: str) -> Condition:
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


def item(kind: str, name: str, spec: object, **status: object) -> Any:
    return {
        "apiVersion": API,
        "kind": kind,
        "metadata": {"name": name, "labels": {}, "annotations": {}, "generation": 1},
        "spec": spec,
        "status": {"observedGeneration": 1, "conditions": conditions(), **status},
    }


def node(name: str) -> Any:
    spec: NodeSpec = {"unschedulable": False}
    fields: NodeFields = {
        "ranks": 1,
        "memoryBytes": 64 * 2**30,
        "cpus": 12,
        "system": "Darwin 26.2 arm64",
        "runtime": {"mlx": "0.32.4", "mlx-lm": "0.32.2", "llguidance": "1.9.1"},
        "agent": "reached",
    }
    return item("Node", name, {"local": {}, "memory": {"reserve": "0B"}, **spec}, **fields)


def model() -> Any:
    fields: ModelFields = {
        "weightsBytes": 6_697_488,
        "nodes": {"node-a": "present", "node-b": "present"},
    }
    return item("Model", "tiny", {"source": {"path": "tiny"}}, **fields)


def deployment(**status: Any) -> Any:
    group: Group = {
        "replica": 0,
        "epoch": 3,
        "phase": "ready",
        "nodes": ["node-a", "node-b"],
        "ports": "41000-41002",
        "memory": {"bytes": 32 * 2**30, "basis": "computed"},
        "strategy": "tensor (spec.parallelism.strategy)",
        "transport": "ring-lan (ring: no Thunderbolt cable is known between node-a and node-b)",
        "transportName": "ring-lan",
        "transportWhy": "ring: no Thunderbolt cable is known between node-a and node-b",
        "ready": True,
        "since": ago(),
    }
    fields: DeploymentFields = {"replicas": 1, "readyReplicas": 1, "promptReuse": "any", "groups": [group]}
    spec = {"model": "tiny", "replicas": 1, "parallelism": {"strategy": "tensor"}}
    return item("ModelDeployment", "tiny", spec, **{**fields, **status})


def gateway() -> Any:
    spec = {"listen": "127.0.0.1:8400", "auth": {"mode": "none"}}
    fields: GatewayFields = {"endpoint": "http://127.0.0.1:8400/v1", "pid": 4100}
    return item("Gateway", "main", spec, **fields)


def rank(number: int) -> Rank:
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
        "stopped": False,
        "silentSeconds": 0.0,
        "killed": False,
        "unkillable": False,
        "startedAt": ago(),
    }


def event(number: int, reason: str, message: str, warning: bool = False) -> answers.EventEntry:
    return {
        "id": number,
        "time": ago(),
        "type": "Warning" if warning else "Normal",
        "object": "modeldeployment/tiny",
        "reason": reason,
        "message": message,
        "revision": "",
        "hookTime": None,
    }


EVENTS = (
    (1, "RankExited", "rank 1 on node-b (epoch 2, pid 4102) was killed by signal 9", True),
    (2, "EpochAllocated", "form tiny/0 as epoch 3 on node-a, node-b (RankExited: rank 1 ended)", False),
    (3, "Ready", "1 of 1 replicas serve", False),
)


def objects(message: Get[Any]) -> dict[str, Any]:
    if message.kind == "Rank":
        ranks = [rank(0), rank(1)]
        chosen: list[Any] = [row for row in ranks if message.name in (None, row["deployment"])]
    else:
        found = [node("node-a"), node("node-b"), model(), deployment(), gateway()]
        chosen = [
            entry
            for entry in found
            if message.kind in (None, entry["kind"]) and message.name in (None, entry["metadata"]["name"])
        ]
    return {"version": "1", "revision": "5d0f0a9c2f", "items": chosen}


def rank_log(message: ReadRankLog) -> answers.LogPiece:
    """Three lines; those of rank 1 come half a second after those of rank 0, the second without a time."""
    text = "".join(
        (f"2026-11-21T10:00:0{second}.{5 * message.id.rank}00Z " if second != 1 else "") + f"{word}\n"
        for second, word in enumerate(("one", "two", "three"))
    )
    start = max(message.offset or 0, 0)
    node = f"node-{'ab'[message.id.rank]}"
    return {"text": text[start:], "offset": len(text), "node": node, "begin": start, "restBytes": 0}


def _seat(node: str, rank: int | None, text: str) -> answers.Seat:
    return {"node": node, "rank": rank, "text": text}


PLACES: answers.Placement = {
    "replica": 0,
    "text": "2 nodes, as its manifest wants",
    "nodes": [
        *(_seat(f"node-{'ab'[at]}", at, "charged 0.6 GiB, of 64.0 GiB that others leave") for at in range(2)),
        _seat("node-c", None, "it has the taint dedicated=training:NoSchedule"),
        *(_seat(f"node-{letter}", None, "it lacks the label pool=studios") for letter in "defghijk"),
    ],
}


USAGE: answers.Usage = {
    "nodes": [
        {"name": "node-a", "host": "a", "cpus": 16, "load": 2.31, "ranks": 1, "ranksCores": 1.87, "memoryBytes": 64 * 2**30,
         "memoryUsedBytes": 40 * 2**30, "pressure": "normal", "gpuWatts": None, "gpuUse": None, "tokensPerSecond": 51.6},
        {"name": "node-b", "host": "b", "cpus": 16, "load": None, "ranks": 1, "ranksCores": 0.0, "memoryBytes": 64 * 2**30,
         "memoryUsedBytes": None, "pressure": "", "gpuWatts": None, "gpuUse": None, "tokensPerSecond": 0.0},
    ],
    "ranks": [
        {"name": f"tiny.0.3.{number}", "node": f"node-{letter}", "cores": 1.87, "residentBytes": 30 * 2**30,
         "chargedBytes": 32 * 2**30, "loadedBytes": 0, "totalBytes": 0, "demand": 3, "tokensPerSecond": 51.6}
        for number, letter in enumerate("ab")
    ],
    "unobserved": [],
}  # fmt: skip


DIFF = ["@@ -5,2 +5,2 @@", " spec:", "-  replicas: 1", "+  replicas: 2"]


def commit() -> answers.Commit:
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


def shown_commit() -> answers.ShownCommit:
    """The same with its diff."""
    return {
        **commit(),
        "message": commit()["subject"],
        "files": [{"path": "tiny.yaml", "action": "changed", "lines": DIFF, "leftOut": 0}],
        "undo": ["reconciler rollout undo modeldeployment/tiny --to-revision=1f0c2a9b3d"],
        "acts": [],
    }


STATUS: answers.ControllerStatus = {
    "version": "0.1.0",
    "pid": 4000,
    "revision": "5d0f0a9c2f",
    "operations": "",
    "operationsInForce": 0,
    "operationsRejection": None,
    "held": None,
    "rejection": None,
    "suspended": None,
    "heldChanges": None,
    "source": "git /home/cluster.git",
    "endpoint": "http://127.0.0.1:8400/v1",
    "localEndpoint": "http://127.0.0.1:8400/v1",
    "gatewayWaits": "",
    "settled": True,
    "keysBehind": [],
}


def at_rest() -> dict[str, Any]:
    """An answer for every type of request."""
    return {
        "usage": copy.deepcopy(USAGE),
        "get": objects,
        "plan": {"steps": [], "waiting": [], "refused": []},
        "places": {"items": [copy.deepcopy(PLACES)]},
        "events": {"items": [event(*entry) for entry in EVENTS], "last": 3},
        "incidents": {"version": "1", "items": []},
        "commits": {"version": "1", "items": [commit()], "problem": None},
        "commit": shown_commit(),
        "rank_log": rank_log,
        "status": copy.deepcopy(STATUS),
        "look": {},
        "stop": {},
    }


BUSY_PLAN: answers.Planned = {
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
            "replica": None,
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
            "seen": "needs 80.0GiB, node-a has 12.0GiB",
            "person": "",
        }
        for number in range(2)
    ],
}
