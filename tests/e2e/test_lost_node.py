"""Agents that stand still: real processes, one fault."""

from __future__ import annotations

import os
import signal

import pytest

from reconciler.agent.hung import BEGIN_SECONDS

from .cluster import MODEL, ROOT, Cluster, cluster, deployment, node

pytestmark = pytest.mark.e2e

NODES = ("node-a", "node-b")


def agent_of(made: Cluster, name: str) -> int:
    return int((made.home / "nodes" / name / "agent.lock").read_text())


def routed(made: Cluster) -> bool:
    (group,) = made.deployments()["tiny"]["groups"]
    return bool(group["ready"])


def long_ago(made: Cluster, name: str) -> None:
    """As of an agent that began before it could be one that is only beginning."""
    lock = made.home / "nodes" / name / "agent.lock"
    then = lock.stat().st_mtime - 2 * BEGIN_SECONDS
    os.utime(lock, (then, then))


def test_agents_that_stand_still_cost_no_route_and_are_replaced_and_their_ranks_go_on() -> None:
    with cluster() as made:
        manifests = made.home.parent / "manifests"
        manifests.mkdir()
        gateway = (ROOT / "manifests" / "gateway.yaml").read_text()
        (manifests / "all.yaml").write_text(
            "---\n".join([*map(node, NODES), MODEL, deployment("tiny", 1), gateway])
        )
        made.start("-f", str(manifests), "--models", "examples/models", "--any-port")
        made.wait_settled()
        before, stopped = [row["pid"] for row in made.ranks()], {name: agent_of(made, name) for name in NODES}
        event = made.last_event()

        for name, pid in stopped.items():
            long_ago(made, name)
            os.kill(pid, signal.SIGSTOP)

        def replaced() -> bool:
            assert routed(made), "an agent that hangs cost a route"
            return all(agent_of(made, name) not in (0, pid) for name, pid in stopped.items())

        made.wait("other agents", replaced)
        made.wait_settled()
        assert routed(made)
        assert [row["pid"] for row in made.ranks()] == before
        assert not set(stopped.values()) & set(made.processes())
        started = [e for e in made.events() if e["id"] > event and e["reason"] == "AgentStarted"]
        assert len(started) == len(NODES)
