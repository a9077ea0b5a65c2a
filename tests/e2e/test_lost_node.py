"""The agent of a node stands still for longer than its ``lostAfter``, and is continued: real processes, one fault."""

from __future__ import annotations

import json
import os
import signal

import pytest

from .cluster import MODEL, ROOT, Cluster, cluster, deployment, node

pytestmark = pytest.mark.e2e

LOST_SECONDS = 8
"""Of the node that is lost; an agent that merely waits for a processor is not to be."""


def agent_of(made: Cluster, name: str) -> int:
    return int((made.home / "nodes" / name / "agent.lock").read_text())


def served_by(made: Cluster) -> list[str]:
    """The nodes of the group that is routed to."""
    (group,) = made.deployments()["tiny"]["groups"]
    return list(group["nodes"]) if group["ready"] else []


def condition(made: Cluster, name: str, kind: str) -> tuple[str, str]:
    (item,) = (item for item in made.json("get", "nodes")["items"] if item["metadata"]["name"] == name)
    (found,) = (c for c in item["status"]["conditions"] if c["type"] == kind)
    return found["status"], found["reason"]


def test_an_agent_that_stands_still_is_unrouted_done_without_and_cleared_when_it_goes_on() -> None:
    with cluster() as made:
        manifests = made.home.parent / "manifests"
        manifests.mkdir()
        nodes = [node("node-a") + f"  lostAfter: {LOST_SECONDS}s\n", node("node-b")]
        gateway = (ROOT / "manifests" / "gateway.yaml").read_text()
        (manifests / "all.yaml").write_text("---\n".join([*nodes, MODEL, deployment("tiny", 1), gateway]))
        made.start("-f", str(manifests), "--models", "examples/models", "--any-port")
        made.wait_settled()
        assert served_by(made) == ["node-a"]
        (before,) = (row["pid"] for row in made.ranks())

        stopped = agent_of(made, "node-a")
        os.kill(stopped, signal.SIGSTOP)
        made.wait("its group to be unrouted", lambda: served_by(made) == [])
        made.wait("the replica elsewhere", lambda: served_by(made) == ["node-b"])
        assert condition(made, "node-a", "Quarantined") == ("True", "NotAnswering")
        assert before in made.processes(), "nobody could end it"
        after = {row["pid"] for row in made.ranks() if row["epoch"] == 2}
        routes = json.loads((made.home / "routes.json").read_text())["routes"]
        assert [backend["epoch"] for route in routes for backend in route["backends"]] == [2]

        os.kill(stopped, signal.SIGCONT)
        made.wait("the old rank to end", lambda: before not in made.processes())
        made.wait_settled()
        assert {row["pid"] for row in made.ranks()} == after, "the new group was disturbed"
        assert condition(made, "node-a", "Quarantined") == ("False", "NotQuarantined")
        assert agent_of(made, "node-a") == stopped
        causes = [e["message"] for e in made.events() if e["reason"] == "EpochAllocated"]
        assert ["NodeQuarantined" in cause for cause in causes] == [False, True]
