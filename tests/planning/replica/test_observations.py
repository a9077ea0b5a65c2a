"""What was not seen, or not since the last change, is no ground for a decision."""

from __future__ import annotations

from reconciler.state import (
    AllocateEpoch,
    Contact,
    ForgetRank,
    NodeName,
    NodeObservation,
    StartAgent,
    StepFailure,
    WaitingFor,
    Write,
)
from reconciler.wire.launch import RankId
from tests.worlds import World, deployment, model, node, two_nodes

NODE_A, NODE_B, NODE_C = (NodeName(f"node-{letter}") for letter in "abc")


def test_a_group_is_not_judged_before_the_node_of_its_dead_rank_was_seen_again() -> None:
    world = two_nodes()
    world.settle()
    world.end_rank(RankId("tiny", 0, 1, 1), signal=9)
    world.writes[NODE_B] = Write(link=1, sequence=world.sequence + 1)
    decided = world.plan()
    assert decided.steps == ()
    assert [(w.reason, w.text) for w in decided.waiting] == [
        (WaitingFor.OBSERVATION, "tiny/0: waiting for a newer report from node-b")
    ]


def test_what_is_being_done_to_a_replica_is_not_decided_anew() -> None:
    world = two_nodes()
    while not any(isinstance(step, AllocateEpoch) for step in world.plan().steps):
        for step in world.plan().steps:
            world.obey(step)
    world.in_flight = {"replica/tiny/0"}
    decided = world.plan()
    assert decided.steps == ()
    assert [w.reason for w in decided.waiting] == [WaitingFor.STEP]


def test_no_group_is_formed_before_every_node_was_asked_for_epochs_also_those_it_would_not_use() -> None:
    labels = {"pool": "studios"}
    world = World(
        [
            node("node-a", labels=labels),
            node("node-b", labels=labels),
            node("node-c"),
            model(),
            deployment(placement={"nodeSelector": labels}),
        ]
    )
    for step in world.plan().steps:
        assert isinstance(step, StartAgent)
        if step.node != NODE_C:
            world.obey(step)
    decided = world.plan()
    assert [step for step in decided.steps if isinstance(step, AllocateEpoch)] == []
    assert "tiny/0: no answer yet from node-c, which may know of a later epoch" in [
        w.text for w in decided.waiting
    ]


def test_an_agent_that_was_not_seen_yet_is_started_before_it_is_ended_with_its_node() -> None:
    world = World([node("node-a"), node("node-b"), node("node-c"), model(), deployment()])
    world.settle()
    leaving = world.manifests[2]
    assert leaving.metadata.name == NODE_C
    world.remove(leaving)
    world.stale[NODE_C] = NodeObservation(NODE_C, Contact.AGENT_DOWN, 0.0, 0, None, "no answer")
    assert world.plan().steps == (StartAgent(NODE_C),)


def test_nothing_is_forgotten_on_a_node_that_was_not_seen_since_it_was_changed() -> None:
    world = two_nodes()
    world.settle()
    for epoch in (1, 2):
        world.now += 1000
        world.end_rank(RankId("tiny", 0, epoch, 0), signal=9)
        if epoch == 1:
            world.settle()
    (step,) = world.plan().steps
    world.obey(step)  # epoch 3: of the first nothing needs to be kept
    assert [step.node for step in world.plan().steps if isinstance(step, ForgetRank)] == [NODE_A, NODE_B]
    world.writes[NODE_A] = Write(link=1, sequence=world.sequence + 1)
    assert [step.node for step in world.plan().steps if isinstance(step, ForgetRank)] == [NODE_B]


def test_a_step_that_failed_waits_for_its_turn() -> None:
    world = two_nodes()
    key = StartAgent(NODE_A).key
    world.failures[key] = StepFailure(3, world.now + 10, "no route to host")
    decided = world.plan()
    assert decided.steps == (StartAgent(NODE_B),)
    assert [(w.until, w.text) for w in decided.waiting if w.reason is WaitingFor.BACK_OFF] == [
        (world.now + 10, f"{StartAgent(NODE_A)}: failed 3 times, last: no route to host")
    ]
    world.now += 10
    assert StartAgent(NODE_A) in world.plan().steps
