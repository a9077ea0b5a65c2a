"""A node is drained under load, used again, and what changed is taken back: all from the command line."""

from __future__ import annotations

import asyncio
import os
import signal

import openai
import pytest

from tests.e2e.cluster import ROOT, Cluster

from .test_healing import Answer, complete_answer, stream

pytestmark = pytest.mark.e2e

STREAMS = 8
TOKENS = 200
"""A group that is stopped has 30 s for what it has begun. A busy machine makes 10 tokens a second for each stream."""


async def clients_during(cluster: Cluster, *command: str) -> tuple[str, list[Answer], str]:
    """Streams that have begun when a command runs; the reference first, and what the command printed."""
    async with openai.AsyncOpenAI(
        base_url=cluster.endpoint(), api_key="none", timeout=120, max_retries=0
    ) as sdk:
        reference = (await complete_answer(sdk, max_tokens=TOKENS)).text
        begun = [asyncio.Event() for _ in range(STREAMS)]
        streams = [asyncio.create_task(stream(sdk, event, max_tokens=TOKENS)) for event in begun]
        async with asyncio.timeout(60):
            await asyncio.gather(*(event.wait() for event in begun))
        printed = await asyncio.to_thread(lambda: cluster.run(*command).stdout)
        return reference, list(await asyncio.gather(*streams)), printed


def nodes_of_ranks(cluster: Cluster) -> set[str]:
    return {row["node"] for row in cluster.ranks()}


def test_a_node_is_drained_while_streams_run_and_costs_none_of_them(tiny: Cluster) -> None:
    refused = tiny.run("drain", "node-b", check=False)
    assert refused.returncode == 1
    assert "modeldeployment/tiny, replica 0: needs 2 nodes, 1 can be used" in refused.stderr
    assert "node-b is drained; undo with: reconciler uncordon node-b" in refused.stderr

    text = (ROOT / "manifests" / "tiny.yaml").read_text().replace("nodes: 2 ", "nodes: {min: 1, max: 2} ")
    (tiny.home / "tiny.yaml").write_text(text)
    pids = {row["pid"] for row in tiny.ranks()}
    tiny.run("apply", "-f", str(tiny.home / "tiny.yaml"))
    tiny.run("rollout", "status", "deployment/tiny")
    assert {row["pid"] for row in tiny.ranks()} == pids, "other bounds that fit restart nothing"

    reference, streams, printed = asyncio.run(clients_during(tiny, "drain", "node-b"))
    assert [(answer.error, answer.finish, answer.text) for answer in streams] == [
        ("", "length", reference) for _ in streams
    ]
    lines = printed.splitlines()
    assert lines[:2] == [
        "modeldeployment/tiny, replica 0: moves from node-a, node-b to node-a",
        "node/node-b cordoned",
    ]
    assert "evicting rank 1 of tiny/0 from node-b" in lines
    assert lines[-1] == "node/node-b drained"
    tiny.run("rollout", "status", "deployment/tiny")
    assert nodes_of_ranks(tiny) == {"node-a"}
    tiny.wait_settled()

    assert tiny.run("uncordon", "node-b").stdout == "node/node-b uncordoned\n"
    tiny.wait_settled()
    assert nodes_of_ranks(tiny) == {"node-a"}
    assert "node-b can be used: 2 nodes instead of 1, later" in tiny.run("plan").stdout

    tiny.run("rollout", "undo", "deployment/tiny")
    tiny.run("rollout", "status", "deployment/tiny")
    assert nodes_of_ranks(tiny) == {"node-a", "node-b"}
    assert tiny.run("diff", "-f", "manifests").stdout == ""


def test_a_restart_and_a_deletion_are_seen_through_and_taken_back(tiny: Cluster) -> None:
    before = {row["pid"] for row in tiny.ranks()}
    (*_, first) = tiny.json("rollout", "history", "deployment/tiny")
    tiny.run("rollout", "restart", "deployment/tiny")
    assert tiny.run("rollout", "status", "deployment/tiny").stdout.splitlines()[-1] == (
        'deployment "tiny" successfully rolled out'
    )
    assert before.isdisjoint(row["pid"] for row in tiny.ranks())

    assert tiny.run("delete", "deployment/tiny").stdout == "modeldeployment.reconciler/tiny deleted\n"
    assert tiny.ranks() == []
    assert tiny.run("delete", "nodes", "--all", "--dry-run=server").stderr.startswith(
        "note: the commit would be held: it removes 2 of 4 objects (node/node-a, node/node-b)"
    )
    tiny.run("rollout", "undo", "deployment/tiny", f"--to-revision={first['revision']}")
    tiny.run("rollout", "status", "deployment/tiny")


def test_the_whole_cluster_is_stopped_while_streams_run_and_started_again(tiny: Cluster) -> None:
    used = tiny.json("top", "ranks")["items"]
    assert {item["node"] for item in used} == {"node-a", "node-b"}
    reference, streams, printed = asyncio.run(clients_during(tiny, "stop"))
    assert [(answer.error, answer.finish, answer.text) for answer in streams] == [
        ("", "length", reference) for _ in streams
    ]
    assert printed.splitlines()[-1].startswith("no rank runs any more")
    assert tiny.ranks() == []
    stopped = tiny.deployments()["tiny"]["conditions"]
    assert {c["type"]: (c["status"], c["reason"]) for c in stopped if c["type"] != "Reconciling"} == {
        "Ready": ("False", "StoppedByRequest"),
        "Stalled": ("False", "NotStalled"),
    }
    before, (controller,) = tiny.last_event(), tiny.controller()
    os.kill(controller, signal.SIGKILL)
    tiny.wait("another controller", lambda: tiny.controller() not in ([], [controller]))
    tiny.wait("it to have looked around", lambda: tiny.plan()["waiting"] == [])
    tiny.wait("all spares to be gone", lambda: tiny.pids("reconciler.runner") == [])
    assert tiny.plan()["steps"] == []
    assert tiny.ranks() == []
    assert [event for event in tiny.events() if event["id"] > before and "Rank" in event["reason"]] == []
    tiny.run("start")
    tiny.run("rollout", "status", "deployment/tiny")
    assert nodes_of_ranks(tiny) == {"node-a", "node-b"}
    assert tiny.run("diff", "-f", "manifests").stdout == ""
