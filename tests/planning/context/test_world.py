"""What is asked of a world once, and when it is asked again."""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from typing import Any

import pytest

from reconciler.planning import plan
from reconciler.planning.context.world import DECIDED
from reconciler.planning.context.world import World as Snapshots
from reconciler.state import Memory, NodeName
from tests.worlds import World, deployment, model, node, two_nodes


class Questions:
    """Counts how often it is asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def ask(self, world: Snapshots, name: NodeName) -> str:
        self.asked.append(name)
        return f"about {name}"


@pytest.fixture
def world() -> Snapshots:
    made = two_nodes()
    made.settle()
    return made.seen()


def test_a_question_is_asked_once_for_each_node(world: Snapshots) -> None:
    questions, names = Questions(), [NodeName("node-a"), NodeName("node-b"), NodeName("node-a")]
    assert [world.once(questions.ask, name) for name in names] == [f"about {name}" for name in names]
    assert questions.asked == ["node-a", "node-b"]


def test_a_decision_leaves_answers_but_those_that_depend_on_decisions(world: Snapshots) -> None:
    lasting, momentary, name = Questions(), Questions(), NodeName("node-a")
    after = world.decided(groups={})
    for each in (world, after, world, after):
        each.once(lasting.ask, name)
        each.once_as_decided(momentary.ask, name)
    assert (len(lasting.asked), len(momentary.asked)) == (1, 2)
    assert not after.memory.groups
    assert world.memory.groups


def test_another_world_has_no_answers_and_a_decision_changes_nothing_else(world: Snapshots) -> None:
    questions, name = Questions(), NodeName("node-a")
    world.once(questions.ask, name)
    replace(world, now=world.now + 1).once(questions.ask, name)
    assert len(questions.asked) == 2
    with pytest.raises(AssertionError):
        world.decided(agents={})


@dataclass(frozen=True, kw_only=True)
class Watched(Memory):
    """A memory that refuses what decisions change to who is asked once for all of them."""

    def __getattribute__(self, name: str) -> Any:
        frame = sys._getframe(1) if name in DECIDED else None
        while frame is not None:
            assert frame.f_code is not Snapshots.once.__code__, f"an answer that is kept depends on {name}"
            frame = frame.f_back
        return super().__getattribute__(name)


def pass_through(world: World) -> None:
    """Obey until nothing is left to do, and have each pass watched."""
    for _ in range(40):
        memory = Watched(**vars(world.memory()))
        decided = plan(world.desired(), world.observed(), memory, world.now, "entropy")
        assert decided == world.plan()
        if not decided.steps:
            break
        world.now += 1.0
        for step in decided.steps:
            world.obey(step)


def test_no_answer_that_is_kept_depends_on_what_is_decided_meanwhile() -> None:
    nodes = [node(f"node-{at}") for at in range(5)]
    spec: dict[str, Any] = {"nodes": {"min": 1, "max": 2}, "replicas": 2, "rolling": {"maxSurge": 1}}
    world = World([*nodes, model(), deployment(**spec)])
    pass_through(world)
    world.now += 3600.0
    world.manifests[-1] = deployment(**spec, serving={"maxBatch": 4})
    pass_through(world)
    world.end_rank(world.alive()[0], signal=9)
    pass_through(world)
    world.manifests[0] = node("node-0", drain=True)
    pass_through(world)
    world.lose("node-1")
    world.now += 60.0
    pass_through(world)
    world.lose_store()
    pass_through(world)
    world.manifests[-1] = deployment("other", nodes=1)
    pass_through(world)
