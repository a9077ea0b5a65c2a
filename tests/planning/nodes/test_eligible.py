"""Taints keep new ranks away from nodes, and move none that runs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from reconciler.planning.context.workload import Workload
from reconciler.planning.nodes.eligible import unfit
from reconciler.state import AllocateEpoch, Contact, NodeName, Plan, RefusedBecause
from reconciler.wire.node import ModelReport
from tests.worlds import World, deployment, model, node, settled, two_nodes

GPU = {"key": "dedicated", "value": "gpu", "effect": "NoSchedule"}


def placed(world: World) -> tuple[str, ...]:
    return tuple(world.group().members)


def cluster(*tolerations: dict[str, Any], taints: tuple[dict[str, Any], ...] = (GPU,)) -> World:
    wanted = deployment(nodes={"min": 1, "max": 2}, placement={"tolerations": list(tolerations)})
    nodes = [node("node-a", taints=list(taints)), node("node-b")]
    return World([*nodes, model(), wanted])


COVERING: list[dict[str, Any]] = [
    {"key": "dedicated", "value": "gpu"},
    {"key": "dedicated", "operator": "Equal", "value": "gpu", "effect": "NoSchedule"},
    {"key": "dedicated", "operator": "Exists"},
    {"operator": "Exists"},
    {"operator": "Exists", "effect": "NoSchedule"},
]
OTHERS: list[dict[str, Any]] = [
    {"key": "dedicated", "value": "cpu"},
    {"key": "dedicated"},
    {"key": "gpu", "operator": "Exists"},
]


@pytest.mark.parametrize("toleration", COVERING, ids=str)
def test_a_toleration_lets_a_deployment_use_a_tainted_node(toleration: dict[str, Any]) -> None:
    world = cluster(toleration)
    assert world.settle() == Plan()
    assert placed(world) == ("node-a", "node-b")


@pytest.mark.parametrize("toleration", OTHERS, ids=str)
def test_a_toleration_of_something_else_does_not(toleration: dict[str, Any]) -> None:
    world = cluster(toleration)
    assert world.settle() == Plan()
    assert placed(world) == ("node-b",)


def test_every_taint_has_to_be_tolerated() -> None:
    other = {"key": "slow", "effect": "NoSchedule"}
    world = settled(cluster({"key": "dedicated", "operator": "Exists"}, taints=(GPU, other)))
    assert placed(world) == ("node-b",)


def test_what_runs_stays_when_its_toleration_is_taken_away_and_goes_when_it_has_to_be_formed_anew() -> None:
    world = settled(cluster(COVERING[0]))
    world.manifests[-1] = deployment(nodes={"min": 1, "max": 2})
    assert world.plan() == Plan()
    world.end_rank(world.group().rank_id(0), signal=9)
    assert world.settle() == Plan()
    assert placed(world) == ("node-b",)


def test_a_taint_that_leaves_too_few_nodes_is_named() -> None:
    world = cluster()
    world.manifests[-1] = deployment(nodes=2)
    (refused,) = world.settle().refused
    assert refused.reason is RefusedBecause.NO_NODES
    assert refused.text == (
        "needs 2 nodes, 1 can be used; add Nodes or lower spec.parallelism.nodes to 1"
        " (node-a has the taint dedicated=gpu:NoSchedule; allow it in placement.tolerations)"
    )


def test_a_limit_bounds_what_ranks_may_use_of_a_machine() -> None:
    world = World([node("node-a", memory={"limit": "500MiB"}), model(), deployment(nodes=1)])
    (refused,) = world.settle().refused
    assert refused.reason is RefusedBecause.NO_MEMORY
    world.manifests[0] = node("node-a", memory={"limit": "1GiB"})
    assert any(isinstance(step, AllocateEpoch) for step in world.plan().steps)


def test_the_smallest_limit_of_a_machine_s_nodes_counts_for_all_of_them() -> None:
    nodes = [node("node-a", memory={"limit": "900MiB"}), node("node-b", memory={"limit": "60GiB"})]
    world = World([*nodes, model(), deployment("one", nodes=1), deployment("two", nodes=1)])
    world.hosts = {"node-a": "mac", "node-b": "mac"}
    assert [refused.object.name for refused in world.settle().refused] == ["two"]


@pytest.mark.parametrize("missing", ["contact", "report", "weights", ""])
def test_a_node_is_fit_only_if_its_agent_answers_and_has_said_what_it_has(missing: str) -> None:
    world = World([node("node-a"), model(), deployment(nodes=1)])
    world.settle()
    seen = world.seen()
    there = seen.node(NodeName("node-a"))
    assert there.report is not None
    changed = {
        "contact": replace(there, contact=Contact.AGENT_DOWN),
        "report": replace(there, report=None),
        "weights": replace(there, report=replace(there.report, models=())),
        "": there,
    }[missing]
    seen = replace(seen, observed=replace(seen.observed, nodes={there.name: changed}))
    refusal = unfit(seen, there.name, Workload(world.replica(), deployment(nodes=1), model()))
    assert (refusal.reason if refusal else None) is (RefusedBecause.NO_NODES if missing else None)


@pytest.mark.parametrize(
    ("report", "reason", "todo"),
    [
        (
            {"barred": True, "problem": "config.json cannot be read"},
            RefusedBecause.NOT_ALLOWED,
            "Full Disk Access",
        ),
        ({"absent_volume": "/Volumes/w"}, RefusedBecause.VOLUME_ABSENT, "mount /Volumes/w"),
    ],
)
def test_a_folder_of_weights_that_macos_keeps_from_the_agent_is_refused_with_the_ways_out(
    report: dict[str, Any], reason: RefusedBecause, todo: str
) -> None:
    world = two_nodes()
    told = ModelReport("tiny", "/Volumes/w/tiny", not report.get("absent_volume"), **report)
    world.reports = {name: {"models": (told,)} for name in ("node-a", "node-b")}
    (refused,) = world.settle().refused
    assert refused.reason is reason
    assert "/Volumes/w/tiny" in refused.text
    assert todo in refused.person
    assert "move the weights into the home folder" in refused.person
