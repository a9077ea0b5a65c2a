"""What is asked of a world once, and when it is asked again."""

from __future__ import annotations

from dataclasses import replace

import pytest

from reconciler.planning.context.world import World as Snapshots
from reconciler.state import NodeName
from tests.worlds import two_nodes

from .test_reservations import snapshots


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
    return snapshots(made)


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
