"""The runtime of a node over SSH: built beside what runs, used when it is there, given up on where it cannot be."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from reconciler.planning.nodes.runtimes import BUILDS_MAX, used
from reconciler.resources import Node
from reconciler.state import (
    BuildRuntime,
    NodeName,
    ObjectKey,
    Plan,
    PruneRuntimes,
    RefusedBecause,
    StartAgent,
    StepFailure,
    WaitingFor,
)
from reconciler.state.machine.runtimes import Runtimes, Tidied
from reconciler.status import node as conditions
from reconciler.status.by_object import ByObject
from reconciler.status.node_comparison import NodeComparison
from tests.worlds import World, deployment, manifest, model, node, settled

A, B = NodeName("node-a"), NodeName("node-b")
KEY = "0123456789ab"
KEY_OF_HOST = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIKnMAfHQw5qPZeH0okiBAYQhA5eDETCjjIuKYnIaY283"


def far(name: str, **spec: Any) -> Node:
    ssh = {"host": f"{name}.local", "user": "me", "hostKey": KEY_OF_HOST}
    address = f"10.0.0.{ord(name[-1])}"
    return manifest(Node, name, ssh=ssh, address=address, **spec)  # type: ignore[no-any-return]


def cluster(*nodes: Node) -> World:
    world = World([*nodes, model(), deployment(nodes=len(nodes))])
    world.runtimes = Runtimes(wanted={"Linux/x86_64": KEY})
    return world


def members(world: World) -> tuple[str, ...]:
    return tuple(world.group("tiny", 0).members)


def taken(world: World, *kinds: type[Any]) -> list[Any]:
    return [step for step in world.history if isinstance(step, kinds)]


def start_agents(world: World) -> None:
    for step in world.plan().steps:
        if isinstance(step, StartAgent):
            world.obey(step)


def conditions_of(world: World, decided: Plan) -> dict[str, list[object]]:
    """Of node-a."""
    desired, observed = world.desired(), world.observed()
    planned, parity = ByObject.of(desired, decided), NodeComparison.of(desired, observed).condition(A)
    found = conditions.conditions(A, desired, observed.nodes.get(A), planned, parity)
    return {kind: rest for kind, *rest, _ in found}


def test_a_node_gets_its_runtime_before_its_agent_is_replaced_and_its_ranks_start() -> None:
    world = cluster(far("node-a"))
    assert world.settle() == Plan()
    kinds = world.did()
    assert kinds[:3] == ["StartAgent", "BuildRuntime", "StartAgent"]
    assert kinds.index("AllocateEpoch") > 2
    assert "runtime 0123456789ab" in taken(world, StartAgent)[1].replaces
    assert members(world) == ("node-a",)


def test_nodes_with_an_interpreter_of_their_owners_and_local_ones_are_left_alone() -> None:
    world = cluster(far("node-a", python="/opt/mine/bin/python3"), node("node-b"))
    world.reports = {"node-a": {"python": "/opt/mine/bin/python3"}}
    assert not world.settle().steps
    assert not taken(world, BuildRuntime, PruneRuntimes)


def test_a_machine_of_a_kind_that_no_runtime_is_made_for_has_what_it_has() -> None:
    world = cluster(far("node-a"))
    world.reports = {"node-a": {"machine": "riscv64"}}
    assert world.settle() == Plan()
    assert not taken(world, BuildRuntime)


def test_no_runtime_is_built_in_place_of_an_old_one_where_none_is_made_any_more() -> None:
    world = settled(cluster(far("node-a")))
    world.history.clear()
    world.runtimes = replace(world.runtimes, wanted={"Darwin/arm64": KEY})
    assert world.settle() == Plan()
    assert not taken(world, BuildRuntime)


def test_a_build_that_failed_is_nothing_to_a_machine_of_a_kind_that_no_runtime_is_made_for() -> None:
    """One was tried while the kind was not known, as its agent did not start."""
    world = cluster(far("node-a"))
    world.reports = {"node-a": {"machine": "riscv64"}}
    world.failures[BuildRuntime(A).key] = StepFailure(1, 0.0, "there is none for riscv64")
    assert world.settle() == Plan()
    assert members(world) == ("node-a",)


def test_so_many_are_built_at_a_time_and_no_more() -> None:
    world = cluster(*(far(f"node-{letter}") for letter in "abcdef"))
    start_agents(world)
    first = [step for step in world.plan().steps if isinstance(step, BuildRuntime)]
    assert len(first) == BUILDS_MAX
    world.in_flight = {step.subject for step in first}
    assert not [step for step in world.plan().steps if isinstance(step, BuildRuntime)]
    waiting = [each for each in world.plan().waiting if each.reason is WaitingFor.RUNTIME]
    assert {each.object.name for each in waiting if each.object.kind == "Node"} == {
        f"node-{x}" for x in "abcdef"
    }


def test_how_far_it_is_is_said_by_the_node() -> None:
    world = cluster(far("node-a"))
    start_agents(world)
    world.reports = {"node-a": {"runtime": {}}}
    world.in_flight = {BuildRuntime(A).subject}
    world.runtimes = replace(world.runtimes, progress={A: "sending 8 of 81 MiB"})
    decided = world.plan()
    said = conditions_of(world, decided)
    assert said["RuntimeReady"] == [
        False,
        "RuntimeBuilding",
        "node-a: its runtime is being built: sending 8 of 81 MiB",
    ]
    assert "the runtime of node-a is being built" in [
        each.text.partition(": ")[2] for each in decided.waiting if each.workload
    ]


def test_one_that_cannot_be_built_is_refused_with_the_reason_and_another_node_is_used() -> None:
    world = cluster(far("node-a"), far("node-b"))
    world.manifests[-1] = deployment(nodes=1)
    world.unbuildable = {A}
    start_agents(world)
    for _ in range(3):
        for step in world.plan().steps:
            if isinstance(step, BuildRuntime | StartAgent):
                world.obey(step)
    decided = world.plan()
    refused = [each for each in decided.refused if each.object == ObjectKey("Node", A)]
    assert [each.reason for each in refused] == [RefusedBecause.RUNTIME_UNAVAILABLE]
    assert "broken" in refused[0].text
    for step in decided.steps:
        world.obey(step)
    assert members(world) == ("node-b",)


def test_a_machine_whose_agent_does_not_start_gets_a_runtime_for_it_may_have_no_python() -> None:
    world = cluster(far("node-a"))
    world.broken = {A}
    world.act()
    world.failures["start-agent/node-a"] = StepFailure(1, world.now + 60, "there is no Python of 3.9")
    (step,) = world.plan().steps
    assert step == BuildRuntime(A)
    world.now += 100
    world.in_flight = {step.subject}
    assert not world.plan().steps
    world.in_flight = set()
    world.now -= 100
    world.obey(step)
    assert not world.plan().steps
    world.broken = set()
    world.now += 100
    world.settle()
    assert members(world) == ("node-a",)


def test_what_runs_on_the_old_runtime_goes_on_while_the_next_is_built_beside_it() -> None:
    world = settled(cluster(far("node-a")))
    ranks = world.alive()
    world.runtimes = replace(world.runtimes, wanted={"Linux/x86_64": "ba9876543210"})
    world.unbuildable = {A}
    world.act()
    assert world.alive() == ranks
    decided = world.plan()
    said = conditions_of(world, decided)
    assert said["RuntimeReady"][:2] == [True, "RuntimeFound"]
    assert "cannot be built" in str(said["RuntimeReady"][2])
    world.unbuildable = set()
    world.now += 100
    assert world.settle() == Plan()
    assert world.alive() == ranks
    report = world.observed().nodes[A].report
    assert report is not None
    assert "ba9876543210" in report.python


def test_old_runtimes_are_removed_once_and_again_where_one_was_in_use() -> None:
    world = settled(cluster(far("node-a")))
    assert taken(world, PruneRuntimes) == [PruneRuntimes(A, KEY)]
    world.runtimes = replace(world.runtimes, tidied={A: Tidied(KEY, world.now + 50)})
    assert not world.plan().steps
    world.now += 51
    assert world.plan().steps == (PruneRuntimes(A, KEY),)


def test_of_a_machine_that_does_not_answer_nothing_is_removed() -> None:
    world = settled(cluster(far("node-a")))
    world.runtimes = replace(world.runtimes, tidied={})
    assert PruneRuntimes(A, KEY) in world.plan().steps
    world.lose(A)
    assert not [step for step in world.plan().steps if isinstance(step, PruneRuntimes)]


def test_a_controller_that_has_just_started_builds_nothing_where_the_runtime_is_used() -> None:
    world = settled(cluster(far("node-a")))
    world.history.clear()
    world.runtimes = Runtimes(wanted=world.runtimes.wanted)
    assert world.settle() == Plan()
    assert not taken(world, BuildRuntime, StartAgent)


def test_a_cluster_that_is_being_stopped_gets_no_runtime() -> None:
    world = cluster(far("node-a"))
    start_agents(world)
    assert BuildRuntime(A) in world.plan().steps
    world.stopping = True
    assert BuildRuntime(A) not in world.plan().steps


def test_of_a_machine_that_has_not_reported_no_runtime_is_known() -> None:
    assert used(None) == ""
