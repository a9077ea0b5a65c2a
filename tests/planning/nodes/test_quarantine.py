"""Nodes that give no answer: unrouted at once, done without after a while, cleared before they are used again."""

from __future__ import annotations

from dataclasses import replace

import pytest

from reconciler import status
from reconciler.planning.nodes import quarantine
from reconciler.state import (
    AllocateEpoch,
    Cause,
    Contact,
    FaultClass,
    ForgetAgent,
    NodeName,
    Plan,
    Refusal,
    ReleaseReplica,
    StartRank,
    StepFailure,
    StopRank,
    WaitingFor,
)
from reconciler.wire.launch import RankId
from tests.worlds import World, deployment, model, node, settled

A, B, C = (NodeName(f"node-{letter}") for letter in "abc")


def three_nodes(nodes: object = 2) -> World:
    """Three nodes, of which the replica uses the first two."""
    world = settled(World([node(A), node(B), node(C), model(), deployment(nodes=nodes)]))
    world.history.clear()
    return world


def backends(world: World) -> list[int]:
    """The epochs that are routed to."""
    (route,) = world.routes()
    return [backend.epoch for backend in route.backends]


def reason(world: World, name: NodeName) -> str:
    planning = world.seen()
    return quarantine.reason(planning, name)


def lose_for_good(world: World, name: NodeName) -> Plan:
    world.lose(name)
    world.now += 30
    return world.settle()


def test_a_node_that_gives_no_answer_is_unrouted_at_once_and_nothing_is_done_to_its_group() -> None:
    world = three_nodes()
    assert backends(world) == [1]
    world.lose(B)
    plan = world.settle()
    assert backends(world) == []
    assert world.history == []
    assert {(w.reason, w.until) for w in plan.waiting} == {(WaitingFor.AGENT, world.now + 30)}
    assert [(str(trouble.subject), trouble.fault, trouble.person) for trouble in plan.troubles] == [
        ("replica/tiny/0", FaultClass.HOST_UNREACHABLE, ""),
        ("node/node-b", FaultClass.HOST_UNREACHABLE, ""),
    ]
    world.now += 29
    assert world.plan().steps == ()
    world.find(B)
    assert world.settle() == Plan()
    assert (backends(world), world.history) == ([1], [])


def test_a_node_that_says_itself_what_it_needs_of_a_person_is_quoted() -> None:
    world = three_nodes()
    world.lose(B)
    world.lost[B] = replace(world.lost[B], remedy="unlock the disk of node-b")
    world.now += 30
    plan = world.settle()
    assert [kept.person for kept in plan.quarantined] == ["unlock the disk of node-b"]
    (trouble,) = [trouble for trouble in plan.troubles if str(trouble.subject) == "node/node-b"]
    assert trouble.person == "unlock the disk of node-b"


def test_a_group_waits_until_the_last_of_its_silent_nodes_is_lost() -> None:
    world = three_nodes()
    world.lose(A)
    world.now += 10
    world.lose(B)
    untils = [waiting.until for waiting in world.settle().waiting if waiting.workload == world.replica()]
    assert untils[0] == world.now + 30


def test_an_agent_that_is_merely_down_does_not_unroute_its_ranks() -> None:
    world = three_nodes()
    world.down.add(B)
    assert backends(world) == [1]


def test_an_agent_that_is_merely_down_after_a_silence_leaves_its_ranks_unrouted() -> None:
    world = three_nodes()
    world.lose(B)
    world.lost[B] = replace(world.lost[B], contact=Contact.AGENT_DOWN)  # as of a machine that has booted
    assert backends(world) == []
    world.find(B)
    assert backends(world) == [1]


def test_a_node_is_not_lost_because_the_controller_could_not_write_down_that_it_starts_its_agent() -> None:
    world = three_nodes()
    world.lose(B)
    world.lost[B] = replace(world.lost[B], contact=Contact.AGENT_DOWN)
    world.failures[f"start-agent/{B}"] = StepFailure(3, world.now, "the disk is full", unwritten=3)
    world.now += 60
    assert {name.node for name in world.plan().quarantined} == set()
    world.failures[f"start-agent/{B}"] = StepFailure(4, world.now, "no python3", unwritten=3)
    assert {name.node for name in world.plan().quarantined} == {B}


def test_after_lost_after_the_replica_is_formed_on_other_nodes_with_other_ports() -> None:
    world = three_nodes()
    before = world.group()
    plan = lose_for_good(world, B)
    assert world.did() == ["AllocateEpoch", "StopRank", "StartRank", "StartRank", "ProveGroup"]
    formed = world.history[0]
    assert isinstance(formed, AllocateEpoch)
    assert formed.cause is Cause.NODE_QUARANTINED
    assert "node-b is quarantined: it does not answer: timed out" in formed.detail
    assert formed.group.members == (A, C)
    assert formed.group.port >= before.port + 3
    assert backends(world) == [2]
    assert RankId("tiny", 0, 1, 1) in world.alive(), "nobody could end it"
    (kept_out,) = plan.quarantined
    assert (kept_out.node, kept_out.reason) == (B, "NotAnswering")
    (trouble,) = plan.troubles
    assert "reconciler delete node node-b" in trouble.person


def test_lost_after_is_the_nodes_own() -> None:
    world = settled(World([node(A), node(B, lostAfter="5m"), node(C), model(), deployment()]))
    world.lose(B)
    world.now += 299
    assert world.plan().steps == ()
    world.now += 1
    assert isinstance(world.plan().steps[0], AllocateEpoch)


def test_what_a_lost_node_ran_stays_charged_to_its_host() -> None:
    world = three_nodes(nodes={"min": 1, "max": 2})
    need = world.group().rank_bytes
    world.hosts = {B: "shared", C: "shared"}
    world.memory_of = {A: 10 * need, B: 2 * need - 1, C: 2 * need - 1}
    lose_for_good(world, B)
    assert world.group().members == (A,), "the rank on node-b may have the memory of node-c"


def test_a_node_that_is_back_is_cleared_and_the_new_group_is_not_disturbed() -> None:
    world = three_nodes()
    lose_for_good(world, B)
    group = world.group()
    world.history.clear()
    world.find(B)
    assert backends(world) == [2]
    assert world.settle() == Plan()
    (stop,) = world.history
    assert isinstance(stop, StopRank)
    assert (stop.node, stop.id) == (B, RankId("tiny", 0, 1, 1))
    assert world.group() == group
    assert reason(world, B) == ""


def test_a_node_that_is_back_is_used_for_nothing_before_its_old_ranks_are_gone() -> None:
    world = three_nodes()
    lose_for_good(world, B)
    world.lingers = True
    world.find(B)
    world.bring(deployment("other", nodes=3, strategy="pipeline"))
    plan = world.settle()
    assert not any(isinstance(step, StartRank) and step.node == B for step in world.history[5:])
    (waiting,) = [w for w in plan.waiting if w.object.name == "other"]
    assert waiting.reason is WaitingFor.STOPPING
    assert "rank 1 of tiny/0, epoch 1, on node-b" in waiting.text
    world.pass_time(world.now + 40)
    assert world.settle() == Plan()
    assert world.group("other").members == (A, B, C)


def test_a_group_that_finds_no_other_place_waits_for_its_node_and_goes_on_with_it() -> None:
    world = settled(World([node(A), node(B), model(), deployment()]))
    world.history.clear()
    plan = lose_for_good(world, B)
    assert (world.history, backends(world)) == ([], [])
    (refusal,) = plan.refused
    assert "1 can be used" in refusal.text
    assert "node-b is quarantined: it does not answer" in refusal.text
    world.find(B)
    assert world.settle() == Plan()
    assert (world.history, backends(world)) == ([], [1])


def test_what_is_left_of_a_group_that_is_dead_for_certain_is_ended_while_its_node_is_lost() -> None:
    world = settled(World([node(A), node(B), model(), deployment()]))
    world.lose(B)
    world.now += 30
    world.end_rank(RankId("tiny", 0, 1, 0), code=67)
    assert isinstance(world.settle().refused[0], Refusal)
    assert world.alive() == [RankId("tiny", 0, 1, 1)]
    world.find(B)
    world.now += 2
    assert world.settle() == Plan()
    assert backends(world) == [2]


def test_a_smaller_group_takes_over_where_the_bounds_allow() -> None:
    world = settled(World([node(A), node(B), model(), deployment(nodes={"min": 1, "max": 2})]))
    lose_for_good(world, B)
    assert world.group().members == (A,)
    assert backends(world) == [2]


def test_a_replica_that_is_not_wanted_any_more_does_not_wait_for_a_lost_node() -> None:
    world = three_nodes()
    world.lose(B)
    world.now += 30
    world.remove(next(m for m in world.manifests if m.kind == "ModelDeployment"))
    plan = world.settle()
    assert world.groups == {}
    assert world.alive() == [RankId("tiny", 0, 1, 1)]
    texts = [w.text for w in plan.waiting if w.reason is WaitingFor.REMOVAL]
    assert texts == ["modeldeployment/tiny is being removed: waiting for the end of rank 1 on node-b, which does"
                     " not answer"]  # fmt: skip
    world.find(B)
    assert world.settle() == Plan()
    assert world.alive() == []


@pytest.mark.parametrize("nodes", [2, 3])
def test_a_node_removed_while_it_is_lost_leaves_after_lost_after_and_what_may_be_left_is_told(
    nodes: int,
) -> None:
    """With three nodes the replica could be formed elsewhere, with two it ends."""
    world = settled(World([*(node(name) for name in (A, B, C)[:nodes]), model(), deployment()]))
    world.lose(B)
    world.remove(next(m for m in world.manifests if m.metadata.name == B))
    assert world.settle().steps == ()
    world.history.clear()
    world.now += 30
    plan = world.settle()
    assert world.leaving == {}
    (forgotten,) = world.done(ForgetAgent)
    assert "rank 1 of tiny/0, epoch 1 may go on there" in str(forgotten)
    if nodes == 2:
        assert any(isinstance(step, ReleaseReplica) for step in world.history)
        assert [refusal.reason.value for refusal in plan.refused] == ["NotEnoughNodes"]
    else:
        assert backends(world) == [2]
    assert plan.troubles == ()


def test_a_node_removed_while_its_agent_stands_still_is_not_forgotten_before() -> None:
    world = settled(World([node(A), node(B), node(C), model(), deployment(nodes=1)]))
    world.lose(C)
    world.remove(next(m for m in world.manifests if m.metadata.name == C))
    world.now += 25
    assert world.settle().steps == ()
    world.find(C)
    assert world.settle() == Plan()
    assert world.did()[-2:] == ["StopAgent", "RemoveObject"]


def test_an_agent_that_cannot_be_started_for_as_long_counts_the_same() -> None:
    world = three_nodes()
    world.down.add(B)
    world.broken.add(B)
    world.now = 29  # down since 0 of its clock
    world.act(3)
    assert world.group().epoch == 1
    assert backends(world) == [1]
    world.now = 31
    while world.group().proven_at is None or world.group().epoch == 1:
        steps = [step for step in world.plan().steps if step.key != f"start-agent/{B}"]
        assert steps
        for step in steps:
            world.obey(step)
    assert world.group().members == (A, C)
    assert "its agent cannot be started" in reason(world, B)
    world.broken.clear()
    world.failures.clear()
    assert world.settle() == Plan()
    assert world.alive() == [RankId("tiny", 0, 2, 0), RankId("tiny", 0, 2, 1)]


def test_everything_is_stopped_without_a_node_that_is_lost() -> None:
    world = three_nodes()
    world.lose(B)
    world.stopping = True
    assert {w.reason for w in world.settle().waiting} == {WaitingFor.AGENT}
    world.now += 30
    assert world.settle() == Plan()
    assert (world.groups, world.agents) == ({}, set())


def test_a_controller_that_has_just_started_does_without_a_node_that_it_never_saw() -> None:
    world = three_nodes()
    world.lose(B)
    world.restart_controller()
    assert world.settle().steps == ()
    world.now += 30
    world.settle()
    assert world.group().members == (A, C)
    world.find(B)
    assert world.settle() == Plan()
    assert world.alive() == [RankId("tiny", 0, 2, 0), RankId("tiny", 0, 2, 1)]


def test_a_lost_store_is_made_again_without_a_lost_node() -> None:
    world = three_nodes()
    world.lose(B)
    world.lose_store()
    world.now += 30
    world.settle()
    world.find(B)
    assert world.settle() == Plan()
    assert len(world.alive()) == 2
    assert len(backends(world)) == 1


def test_a_clock_that_was_set_back_does_not_keep_a_lost_node_for_ever() -> None:
    world = three_nodes()
    world.lose(B)
    world.now -= 600
    assert isinstance(world.plan().steps[0], AllocateEpoch)


def test_the_node_says_that_it_is_unreachable_and_when_it_is_quarantined() -> None:
    world = three_nodes()
    world.lose(B)
    for after, quarantined in ((0, False), (30, True)):
        world.now += after
        snapshots = world.snapshots()
        found = status.statuses(snapshots, {})
        key = next(key for key in found if key.name == B)
        ready, kept_out = found[key].condition("Ready"), found[key].condition("Quarantined")
        assert ready is not None
        assert kept_out is not None
        assert (ready.status, ready.reason) == (False, "NodeUnreachable")
        assert kept_out.status is quarantined
        assert kept_out.reason == ("NotAnswering" if quarantined else "NotQuarantined")
        assert ("reconciler delete node node-b" in kept_out.message) is quarantined
        assert found[key].extra["agent"] == "unreachable"


def test_a_step_that_fails_does_not_hold_back_what_is_formed_elsewhere() -> None:
    world = three_nodes()
    world.failures[f"stop/{RankId('tiny', 0, 1, 1)}"] = StepFailure(3, world.now + 60, "timed out")
    lose_for_good(world, B)
    assert backends(world) == [2]


def test_an_old_epoch_that_comes_back_ready_gets_no_route() -> None:
    world = three_nodes()
    lose_for_good(world, B)
    world.find(B)
    world.stale[B] = world.observed().nodes[B]
    old = world.group()
    world.groups[world.replica()] = replace(old, proven_at=None)
    assert backends(world) == []
