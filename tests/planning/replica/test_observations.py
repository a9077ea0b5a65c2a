"""What was not seen, or not since the last change, is no ground for a decision."""

from __future__ import annotations

from dataclasses import replace

import pytest

from reconciler.planning import plan
from reconciler.state import (
    AllocateEpoch,
    Contact,
    FaultClass,
    ForgetRank,
    NodeName,
    NodeObservation,
    Observed,
    Plan,
    StartAgent,
    StepFailure,
    StopRank,
    WaitingFor,
    Write,
)
from reconciler.state.plan import SetBack
from reconciler.wire.launch import RankId
from tests.planning.macs import learn_of_port, two_macs
from tests.worlds import World, deployment, model, node, settled, two_nodes

NODE_A, NODE_B, NODE_C = (NodeName(f"node-{letter}") for letter in "abc")


def test_a_group_is_not_judged_before_the_node_of_its_dead_rank_was_seen_again() -> None:
    world = settled(two_nodes())
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
        world.act()
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
    world = settled(World([node("node-a"), node("node-b"), node("node-c"), model(), deployment()]))
    leaving = world.manifests[2]
    assert leaving.metadata.name == NODE_C
    world.remove(leaving)
    world.stale[NODE_C] = NodeObservation(NODE_C, Contact.AGENT_DOWN, 0.0, 0, None, "no answer")
    assert world.plan().steps == (StartAgent(NODE_C),)


def test_nothing_is_forgotten_on_a_node_that_was_not_seen_since_it_was_changed() -> None:
    world = settled(two_nodes())
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


@pytest.mark.parametrize("changed", [False, True], ids=["as it was", "after a change"])
def test_a_cable_that_is_seen_to_be_out_after_the_rank_that_it_killed_is_told_as_its_cause(
    changed: bool,
) -> None:
    world = two_macs()
    if changed:
        (before,) = [each for each in world.manifests if each.kind == "ModelDeployment"]
        world.remove(before)
        world.bring(deployment(serving={"context": 1024}))
        world.settle()
    last = world.group().epoch
    world.end_rank(RankId("tiny", 0, last, 1), signal=11)
    nodes = world.observed().nodes
    nodes = {name: replace(nodes[name], examined=False) for name in (NODE_A, NODE_B)}
    decided = plan(world.desired(), Observed(nodes), world.memory(), world.now, "entropy")
    assert [type(step) for step in decided.steps] == [StopRank]
    assert decided.troubles == (), "nothing is told before it is known"
    assert any("the probes of node-a, node-b are running" in waiting.text for waiting in decided.waiting)

    for name in (NODE_A, NODE_B):
        learn_of_port(world, name, connected=False, active=False, verbs_up=False)
    decided = world.plan()
    (formed,) = [step for step in decided.steps if isinstance(step, AllocateEpoch)]
    assert formed.group.transport == "ring-lan"
    assert {trouble.fault for trouble in decided.troubles} == {FaultClass.LINK_DOWN}
    assert not any(isinstance(step, SetBack) for step in decided.steps)


def test_a_rank_that_died_with_every_cable_well_is_formed_again_over_the_same_ones_once_they_were_probed() -> (
    None
):
    world = two_macs()
    world.end_rank(RankId("tiny", 0, 1, 1), signal=9)
    (formed,) = [step for step in world.plan().steps if isinstance(step, AllocateEpoch)]
    assert formed.group.transport == "jaccl"


def test_a_group_that_lives_goes_on_while_its_machines_are_being_probed() -> None:
    world = two_macs()
    nodes = {name: replace(seen, examined=False) for name, seen in world.observed().nodes.items()}
    assert plan(world.desired(), Observed(nodes), world.memory(), world.now, "entropy") == Plan()


def test_the_probes_of_a_machine_that_does_not_answer_are_not_waited_for() -> None:
    world = two_macs()
    world.end_rank(RankId("tiny", 0, 1, 0), signal=9)
    world.lose(NODE_B)
    world.now += 60
    nodes = {name: replace(seen, examined=name == NODE_A) for name, seen in world.observed().nodes.items()}
    decided = plan(world.desired(), Observed(nodes), world.memory(), world.now, "entropy")
    assert not any("the probes of" in waiting.text for waiting in decided.waiting)


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
