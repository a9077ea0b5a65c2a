"""The answers of a controller that has one job with runs, as it makes them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from reconciler.controller.admin.bodies import objects
from reconciler.errors import Refused
from reconciler.resources import Job
from reconciler.state import Desired, GroupRecord, Memory, Observed, Plan
from reconciler.state.jobs import Run
from reconciler.status import Snapshots, statuses
from reconciler.wire.admin import Get, ReadRankLog
from tests.status.jobs import job

NOW = 1_000.0
TRAIN = """
apiVersion: reconciler/v1alpha1
kind: Job
metadata: {name: train}
spec:
  program: {script: {command: [python, train.py]}}
"""


def answer(*runs: Run, group: GroupRecord | None = None, of: Job | None = None) -> dict[str, Any]:
    memory = Memory(
        token=0, runs={each.id: each for each in runs}, groups={group.workload: group} if group else {}
    )
    snapshots = Snapshots(Desired.of("1", [of or job()]), Observed(), memory, Plan(), NOW)
    items = objects(snapshots, statuses(snapshots, {}), None, None)
    return {
        "version": f"{len(runs)}{bool(group)}",
        "revision": "5d0f0a9c2f",
        "unobserved": [],
        "items": items,
    }


def answers(*states: dict[str, Any]) -> Callable[[Get[Any]], dict[str, Any]]:
    """Each question for jobs gets the next state; the last one stays. There is nothing of other kinds."""
    left = list(states)

    def get(message: Get[Any]) -> dict[str, Any]:
        if message.kind not in (None, "Job"):
            return {"version": "0", "revision": "5d0f0a9c2f", "unobserved": [], "items": []}
        state = left.pop(0) if len(left) > 1 else left[0]
        items = [each for each in state["items"] if message.name in (None, each["metadata"]["name"])]
        return {**state, "items": items}

    return get


def rank_log(texts: dict[str, str]) -> Callable[[ReadRankLog], Any]:
    """Logs by the name of the rank; other ranks are not known."""

    def read(message: ReadRankLog) -> Any:
        text = texts.get(str(message.id))
        if text is None:
            return Refused("NotFound", f"no node knows a rank {message.id}")
        start = max(message.offset or 0, 0)
        node = f"node-{'ab'[message.id.rank]}"
        return {"text": text[start:], "offset": len(text), "node": node, "begin": start, "restBytes": 0}

    return read
