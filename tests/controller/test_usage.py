"""What is told of what nodes and ranks use."""

from __future__ import annotations

from dataclasses import replace

from reconciler.controller.admin.measured import usage
from reconciler.state import Contact, NodeName
from reconciler.wire.launch import RankId
from reconciler.wire.node import Load
from tests.worlds import two_nodes


def test_tokens_are_counted_once_a_group_and_only_of_nodes_that_answer() -> None:
    world = two_nodes()
    world.settle()
    for id, (place, rank) in world.ranks.items():
        world.ranks[id] = (place, replace(rank, cores=1.5, resident_bytes=7, tokens_per_second=20.0))
    nodes = dict(world.observed().nodes)
    found = usage(nodes)
    assert [(node["name"], node["tokensPerSecond"], node["ranksCores"]) for node in found["nodes"]] == [
        ("node-a", 20.0, 1.5),
        ("node-b", 0.0, 1.5),
    ]
    assert [(each["name"], each["node"], each["residentBytes"]) for each in found["ranks"]] == [
        (str(RankId("tiny", 0, 1, 0)), "node-a", 7),
        (str(RankId("tiny", 0, 1, 1)), "node-b", 7),
    ]
    assert found["nodes"][0]["memoryUsedBytes"] is None
    assert {node["host"] for node in found["nodes"]} == {
        seen.report.host_id for seen in nodes.values() if seen.report is not None
    }
    a, b = NodeName("node-a"), NodeName("node-b")
    report = nodes[a].report
    assert report is not None
    nodes[a] = replace(nodes[a], report=replace(report, load=Load(0.0, 24 * 2**30, "warn", 2.5)))
    nodes[b] = replace(nodes[b], contact=Contact.UNREACHABLE)
    (node_usage,) = usage(nodes)["nodes"]
    assert (node_usage["memoryUsedBytes"], node_usage["load"], node_usage["pressure"]) == (
        40 * 2**30,
        2.5,
        "warn",
    )
