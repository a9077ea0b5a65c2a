"""Which nodes a group gets, and why it gets none."""

from __future__ import annotations

from reconciler.state import AllocateEpoch, Plan, RefusedBecause, StepFailure, WaitingFor
from tests.worlds import TINY, World, deployment, model, node, two_nodes

GIB = 2**30


def members(world: World, name: str = "tiny", index: int = 0) -> tuple[str, ...]:
    return tuple(world.groups[world.replica(name, index)].members)


def refusal(world: World) -> tuple[RefusedBecause, str]:
    decided = world.settle()
    (found,) = decided.refused
    return found.reason, found.text


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
    assert text.startswith("needs 200.6 GiB on each of 2 nodes, 0 have it free (most: node-a with 64.0 GiB)")


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


def test_a_node_whose_agent_cannot_be_started_is_not_waited_for() -> None:
    world = two_nodes(nodes={"min": 1, "max": 2})
    for step in world.plan().steps:
        if step.key == "start-agent/node-a":
            world.obey(step)
    world.failures["start-agent/node-b"] = StepFailure(2, world.now + 60, "no such folder")
    for _ in range(5):
        for step in world.plan().steps:
            world.obey(step)
    assert members(world) == ("node-a",)


def test_heads_that_do_not_divide_are_told_before_anything_is_started() -> None:
    world = World([node("node-a"), node("node-b"), node("node-c"), model(), deployment(nodes=3)])
    reason, text = refusal(world)
    assert reason is RefusedBecause.NOT_DIVISIBLE
    assert text == ("model tiny cannot be split by tensor over 3 nodes: its 8 heads do not divide by 3")


def test_a_range_of_nodes_ends_at_what_the_model_can_be_split_over() -> None:
    nodes = [node(f"node-{letter}") for letter in "abc"]
    world = World([*nodes, model(), deployment(nodes={"min": 1, "max": 3})])
    assert world.settle() == Plan()
    assert members(world) == ("node-a", "node-b")


def test_weights_that_nobody_has_looked_for_yet_are_not_called_missing() -> None:
    world = two_nodes()
    world.weights = {}
    decided = world.settle()
    assert decided.refused == ()
    assert {w.reason for w in decided.waiting} == {WaitingFor.AGENT}


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
    world.end_rank(world.groups[world.replica(index=1)].rank_id(0), signal=9)
    assert world.settle() == Plan()
    assert members(world, index=1) == ("node-c", "node-d")
