"""Which nodes a group gets, and why it gets none."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest

from reconciler.planning import plan
from reconciler.resources import Node
from reconciler.state import (
    AllocateEpoch,
    NodeName,
    Observed,
    Plan,
    RefusedBecause,
    StepFailure,
    WaitingFor,
)
from reconciler.wire.launch import ExitCode
from reconciler.wire.node import ModelReport
from reconciler.wire.weights import RankShare
from tests.planning.macs import B, learn, three_macs, two_macs
from tests.worlds import TINY, World, deployment, model, node, two_nodes

GIB = 2**30


def members(world: World, name: str = "tiny", index: int = 0) -> tuple[str, ...]:
    return tuple(world.group(name, index).members)


def refusal(world: World) -> tuple[RefusedBecause, str]:
    decided = world.settle()
    (found,) = decided.refused
    return found.reason, found.told


def test_a_node_with_room_is_found_behind_one_without() -> None:
    world = World([node("node-a"), node("node-z"), model(), deployment(nodes=1)])
    world.weights["tiny"] = (40 * GIB, TINY)
    world.memory_of = {"node-a": 16 * GIB, "node-z": 512 * GIB}
    assert world.settle() == Plan()
    assert members(world) == ("node-z",)


def test_too_little_memory_names_the_need_and_the_roomiest_node() -> None:
    world = two_nodes()
    world.weights["tiny"] = (400 * GIB, TINY)
    reason, text = refusal(world)
    assert reason is RefusedBecause.NO_MEMORY
    assert text == ("needs 200.6 GiB on each of 2 nodes, node-a has 64.0 GiB free; fits: weights with 8 bits")
    world.weights["tiny"] = (4000 * GIB, TINY)
    assert refusal(world)[1].endswith("; add nodes, or take weights with fewer bits")


def test_nodes_of_one_machine_share_its_memory() -> None:
    world = two_nodes()
    world.weights["tiny"] = (80 * GIB, TINY)
    assert world.settle() == Plan()
    shared = two_nodes()
    shared.weights["tiny"] = (80 * GIB, TINY)
    shared.hosts = {"node-a": "one", "node-b": "one"}
    assert refusal(shared)[0] is RefusedBecause.NO_MEMORY


def test_what_runs_is_charged_until_it_is_gone_whatever_the_manifests_say() -> None:
    """A rename in one commit: the old deployment drains while the new one waits for its memory."""
    world = World([node("node-a"), model(), deployment("old", nodes=1)])
    world.weights["tiny"] = (40 * GIB, TINY)
    world.settle()
    world.manifests[-1] = deployment("new", nodes=1)
    assert not any(isinstance(step, AllocateEpoch) for step in world.plan().steps)
    assert world.settle() == Plan()
    assert members(world, "new") == ("node-a",)


def test_a_group_may_use_the_memory_of_the_one_that_it_replaces() -> None:
    world = World([node("node-a"), model(), deployment(nodes=1)])
    world.weights["tiny"] = (40 * GIB, TINY)
    world.settle()
    world.manifests[-1] = deployment(nodes=1, serving={"context": 1024})
    assert world.settle() == Plan()


def test_how_large_a_group_becomes_does_not_depend_on_who_answers_first() -> None:
    world = two_nodes(nodes={"min": 1, "max": 2})
    for step in world.plan().steps:
        if step.key == "start-agent/node-a":
            world.obey(step)
    decided = world.plan()
    assert not any(isinstance(step, AllocateEpoch) for step in decided.steps)
    assert WaitingFor.AGENT in {w.reason for w in decided.waiting}
    assert world.settle() == Plan()
    assert members(world) == ("node-a", "node-b")


def test_a_node_whose_probes_were_not_asked_since_the_controller_started_is_not_used_yet() -> None:
    world = two_nodes(nodes={"min": 1, "max": 2})
    world.act()
    observed = world.observed()
    unprobed = replace(observed.nodes[NodeName("node-b")], probed=False)
    nodes = {**observed.nodes, NodeName("node-b"): unprobed}
    decided = plan(world.desired(), Observed(nodes), world.memory(), world.now, "entropy")
    assert not any(isinstance(step, AllocateEpoch) for step in decided.steps)
    assert any("no answer yet from node-b" in waiting.text for waiting in decided.waiting)

    (form,) = [step for step in world.plan().steps if isinstance(step, AllocateEpoch)]
    world.obey(form)  # by the controller before this one
    decided = plan(world.desired(), Observed(nodes), world.memory(), world.now, "entropy")
    assert decided.steps == ()
    assert any("the probes of node-b are running" in waiting.text for waiting in decided.waiting)


def test_a_node_that_has_just_fallen_silent_is_waited_for_until_it_is_lost() -> None:
    world = two_nodes(nodes={"min": 1, "max": 2})
    world.agents = {NodeName("node-a"), NodeName("node-b")}
    world.lose("node-b")
    decided = world.plan()
    assert not any(isinstance(step, AllocateEpoch) for step in decided.steps)
    assert any("no answer yet from node-b" in waiting.text for waiting in decided.waiting)
    world.now += 30
    world.settle()
    assert members(world) == ("node-a",)


def test_a_node_whose_agent_cannot_be_started_is_not_waited_for() -> None:
    world = two_nodes(nodes={"min": 1, "max": 2})
    for step in world.plan().steps:
        if step.key == "start-agent/node-a":
            world.obey(step)
    world.failures["start-agent/node-b"] = StepFailure(2, world.now + 60, "no such folder")
    world.act(5)
    assert members(world) == ("node-a",)


def test_heads_that_do_not_divide_are_told_before_anything_is_started() -> None:
    world = World([node("node-a"), node("node-b"), node("node-c"), model(), deployment(nodes=3)])
    reason, text = refusal(world)
    assert reason is RefusedBecause.NOT_DIVISIBLE
    assert text == (
        "model tiny cannot be split by tensor over 3 nodes: its 8 heads do not divide by 3; works: nodes: 1 or 2"
        " or strategy: pipeline with 3 nodes"
    )


def test_a_range_of_nodes_ends_at_what_the_model_can_be_split_over() -> None:
    nodes = [node(f"node-{letter}") for letter in "abc"]
    world = World([*nodes, model(), deployment(nodes={"min": 1, "max": 3})])
    assert world.settle() == Plan()
    assert members(world) == ("node-a", "node-b")


def test_a_range_of_nodes_of_which_those_that_divide_have_no_room_is_refused_for_its_memory() -> None:
    nodes = [node(f"node-{letter}") for letter in "abc"]
    world = World([*nodes, model(), deployment(nodes={"min": 1, "max": 3})])
    world.weights["tiny"] = (200 * GIB, TINY)
    reason, text = refusal(world)
    assert reason is RefusedBecause.NO_MEMORY
    assert text.startswith("needs 100.6 GiB on each of 2 nodes")


def test_weights_that_nobody_has_looked_for_yet_are_not_called_missing() -> None:
    world = two_nodes()
    world.weights = {}
    decided = world.settle()
    assert decided.refused == ()
    assert {w.reason for w in decided.waiting} == {WaitingFor.EXAMINED}


def test_unschedulable_nodes_are_not_used() -> None:
    world = two_nodes()
    world.manifests[0] = node("node-a", unschedulable=True)
    assert refusal(world)[0] is RefusedBecause.NO_NODES


def test_only_nodes_with_the_labels_are_used() -> None:
    labelled = [node("node-a"), node("node-b", labels={"pool": "x"}), node("node-c", labels={"pool": "x"})]
    world = World([*labelled, model(), deployment(placement={"nodeSelector": {"pool": "x"}})])
    assert world.settle() == Plan()
    assert members(world) == ("node-b", "node-c")


def test_replicas_spread_over_the_least_occupied_nodes_and_stay_there() -> None:
    nodes = [node(f"node-{letter}") for letter in "abcd"]
    world = World([*nodes, model(), deployment(nodes=2, replicas=2)])
    assert world.settle() == Plan()
    assert members(world, index=0) == ("node-a", "node-b")
    assert members(world, index=1) == ("node-c", "node-d")
    world.end_rank(world.group(index=1).rank_id(0), signal=9)
    assert world.settle() == Plan()
    assert members(world, index=1) == ("node-c", "node-d")


MANY = {"context": 262_144, "maxBatch": 481}


def test_too_little_memory_names_the_largest_context_and_batch_and_the_nodes_that_would_do() -> None:
    """4 layers x 2 x 4 KV heads x 32 x 4 bytes: 4 KiB a token, 1 GiB for a request of 256 Ki tokens, as much for earlier ones, and
    15.9 GiB for 480 usual ones."""
    nodes = [node(f"node-{letter}") for letter in "ab"]
    world = World([*nodes, model(), deployment(nodes=1, serving=MANY)])
    world.memory_bytes = 8 * GIB + GIB // 2
    world.weights["tiny"] = (GIB, TINY)
    assert refusal(world) == (
        RefusedBecause.NO_MEMORY,
        "needs 19.0 GiB on a node, node-a has the most free: 8.5 GiB; fits: context: 3072 or maxBatch: 156",
    )
    world.memory_bytes = 10 * GIB
    assert refusal(world)[1].endswith("fits: context: 4096 or maxBatch: 202 or nodes: 2")


@pytest.mark.parametrize("field", ["context", "maxBatch"])
def test_what_is_said_to_fit_does(field: str) -> None:
    world = World([node("node-a"), model(), deployment(nodes=1, serving=MANY)])
    world.memory_bytes = 8 * GIB
    text = refusal(world)[1]
    (value,) = re.findall(rf"{field}: (\d+)", text)
    world.manifests[-1] = deployment(nodes=1, serving={**MANY, field: int(value)})
    assert world.settle() == Plan()


def test_several_deployments_share_what_a_host_has() -> None:
    nodes = [node("node-a"), node("node-b")]
    world = World([*nodes, model(), deployment("one", nodes=1), deployment("two", nodes=1)])
    world.hosts = {"node-a": "mac", "node-b": "mac"}
    world.weights["tiny"] = (40 * GIB, TINY)
    decided = world.settle()
    assert [(str(r.object), r.reason) for r in decided.refused] == [
        ("modeldeployment/two", RefusedBecause.NO_MEMORY)
    ]
    assert members(world, "one") == ("node-a",)


NODES: dict[str, tuple[list[Node], dict[str, Any], str]] = {
    "there are no nodes at all": ([], {}, "needs 2 nodes, and there are none; add a Node"),
    "no node has the labels": (
        [node("node-a"), node("node-b")],
        {"placement": {"nodeSelector": {"pool": "x"}}},
        "needs 2 nodes, and none has the labels pool=x; label a Node or correct placement.nodeSelector",
    ),
    "every node with the labels is cordoned": (
        [node(f"node-{letter}", labels={"pool": "x"}, unschedulable=True) for letter in "ab"],
        {"placement": {"nodeSelector": {"pool": "x"}}},
        "needs 2 nodes with the labels pool=x, 0 can be used; add Nodes or lower spec.parallelism.nodes"
        " (node-a is cordoned, node-b is cordoned; undo with: reconciler uncordon node-a)",
    ),
    "there are fewer nodes than it needs": (
        [node("node-a")],
        {},
        "needs 2 nodes, 1 can be used; add Nodes or lower spec.parallelism.nodes to 1",
    ),
}


@pytest.mark.parametrize("case", NODES)
def test_too_few_nodes_are_told_with_what_to_change(case: str) -> None:
    nodes, spec, text = NODES[case]
    assert refusal(World([*nodes, model(), deployment(**spec)])) == (RefusedBecause.NO_NODES, text)


def test_a_missing_model_is_told_with_what_to_change() -> None:
    world = World([node("node-a"), deployment(nodes=1)])
    text = 'model "tiny" does not exist; add a Model of this name or correct spec.model'
    assert refusal(world) == (RefusedBecause.MODEL_UNKNOWN, text)


def test_weights_that_cannot_be_used_are_told_with_what_is_wrong_with_them() -> None:
    world = World([node("node-a"), model(), deployment(nodes=1)])
    world.says["tiny"] = {"problem": "model.safetensors is cut short: 5 of 9 bytes"}
    reason, text = refusal(world)
    assert (reason, world.alive()) == (RefusedBecause.WEIGHTS_UNUSABLE, [])
    assert "model tiny on node-a: model.safetensors is cut short: 5 of 9 bytes; to do: correct " in text
    world.says.clear()
    assert world.settle() == Plan()


def test_code_that_comes_with_weights_needs_to_be_trusted() -> None:
    world = World([node("node-a"), model(), deployment(nodes=1)])
    world.says["tiny"] = {"code": "its tokenizer is Python code of its own"}
    reason, text = refusal(world)
    assert (reason, world.alive()) == (RefusedBecause.CODE_UNTRUSTED, [])
    assert "set spec.trustRemoteCode: true" in text
    world.manifests[1] = model(trusted=True)
    assert world.settle() == Plan()


def test_nothing_is_placed_before_the_runtime_has_told_what_it_can_do() -> None:
    world = World([node("node-a"), model(), deployment(nodes=1)])
    world.says["tiny"] = {"examining": True}
    decided = world.settle()
    assert {w.reason for w in decided.waiting} == {WaitingFor.EXAMINED}
    text = "tiny/0: the weights of tiny are still being examined on node-a"
    assert text in [waiting.text for waiting in decided.waiting], (
        "it answers, and nobody is to look at its network"
    )
    assert world.alive() == []


def test_a_runtime_without_mlx_lm_is_told() -> None:
    world = World([node("node-a"), model(), deployment(nodes=1)])
    world.runtime = {"mlx": "0.32.4"}
    reason, text = refusal(world)
    assert reason is RefusedBecause.NO_RUNTIME
    assert (
        text
        == "node-a has no mlx-lm in its Python /usr/bin/python3; install it there: /usr/bin/python3 -m pip install"
        " mlx==0.32.4 mlx-lm==0.32.2 llguidance==1.9.1"
    )


def test_a_group_is_formed_without_the_machine_to_blame_where_the_others_suffice() -> None:
    world = three_macs()
    assert members(world) == ("node-a", "node-b")
    learn(world, B, firewall=True)
    for rank in world.alive():
        world.end_rank(rank, code=ExitCode.RENDEZVOUS)
    world.settle()
    assert members(world) == ("node-a", "node-c")


def test_where_the_others_do_not_suffice_the_machine_to_blame_is_used_again() -> None:
    world = two_macs(transport=["ring-lan"])
    learn(world, B, firewall=True)
    for rank in world.alive():
        world.end_rank(rank, code=ExitCode.RENDEZVOUS)
    world.settle()
    assert members(world) == ("node-a", "node-b")
    assert world.group().epoch == 2


def test_what_a_rank_holds_is_taken_from_the_node_that_can_tell() -> None:
    world = two_nodes()
    world.weights["tiny"] = (20 * GIB, TINY)
    world.says["tiny"] = {"shares": {"tensor/2": (RankShare(18 * GIB, ((0, 1000),)),)}, "ranks_tried": 2}
    world.reports["node-a"] = {"models": (ModelReport("tiny", "/models/tiny", True, 20 * GIB, TINY),)}
    assert world.settle() == Plan()
    assert members(world) == ("node-a", "node-b")
    assert world.group().charges[0] > 18 * GIB


def test_of_several_sets_of_like_nodes_without_room_the_first_is_told() -> None:
    names = [f"node-{letter}" for letter in "abcd"]
    world = World([*map(node, names), model(), deployment()])
    world.weights["tiny"] = (400 * GIB, TINY)
    newer = {"runtime": {**world.runtime, "mlx": "0.33"}}
    world.reports = dict.fromkeys(("node-c", "node-d"), newer)
    world.memory_of = {"node-a": 80 * GIB, "node-b": 70 * GIB, "node-c": 40 * GIB, "node-d": 30 * GIB}
    reason, text = refusal(world)
    assert reason is RefusedBecause.NO_MEMORY
    assert "80.0 GiB free" in text
    assert "not used: node-c" in text


def test_what_a_machine_keeps_for_itself_is_not_given_to_ranks() -> None:
    world = World([node("node-a", memory={"reserve": "65000MiB"}), model(), deployment(nodes=1)])
    decided = world.settle()
    assert [r.reason for r in decided.refused] == [RefusedBecause.NO_MEMORY]
    world.manifests[0] = node("node-a", memory={"reserve": "1GiB"})
    assert world.settle() == Plan()
