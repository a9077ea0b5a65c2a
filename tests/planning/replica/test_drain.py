"""A node that is drained is left by its ranks: elsewhere where there is a place, else after they have finished."""

from __future__ import annotations

from typing import Any

import pytest

from reconciler.planning.context.deadlines import DRAIN_SECONDS
from reconciler.state import (
    AllocateEpoch,
    Cause,
    Plan,
    RefusedBecause,
    ReleaseReplica,
    RequestedStop,
    StopRank,
    WaitingFor,
)
from reconciler.wire.launch import RankId
from tests.worlds import World, deployment, model, node, settled

ONE_OR_TWO = {"min": 1, "max": 2}


def cluster(*names: str, nodes: Any = 2) -> World:
    world = settled(World([*(node(name) for name in names), model(), deployment(nodes=nodes)]))
    world.history.clear()
    return world


def set_node(world: World, name: str, **spec: Any) -> None:
    world.manifests = [node(name, **spec) if m.metadata.name == name else m for m in world.manifests]


def graces(world: World) -> set[float]:
    return {step.grace_seconds for step in world.history if isinstance(step, StopRank)}


def test_a_group_moves_to_a_node_that_is_free() -> None:
    world = cluster("node-a", "node-b", "node-c")
    set_node(world, "node-b", drain=True)
    assert world.settle() == Plan()
    assert world.group().members == ("node-a", "node-c")
    assert isinstance(world.history[0], AllocateEpoch)
    assert world.history[0].cause is Cause.NODE_DRAINED
    assert world.history[0].detail == "node-b is being drained"
    assert graces(world) == {DRAIN_SECONDS}


def test_a_group_becomes_smaller_where_its_bounds_allow_it_and_stays_so_until_a_quiet_moment() -> None:
    world = cluster("node-a", "node-b", nodes=ONE_OR_TWO)
    set_node(world, "node-b", drain=True)
    assert world.settle() == Plan()
    assert world.group().members == ("node-a",)
    set_node(world, "node-b")
    plan = world.plan()
    assert plan.steps == ()
    assert [waiting.reason for waiting in plan.waiting] == [WaitingFor.QUIET]


def test_a_group_without_another_place_finishes_and_waits_for_uncordon() -> None:
    world = cluster("node-a", "node-b")
    set_node(world, "node-b", drain=True)
    plan = world.settle()
    assert (world.alive(), world.groups) == ([], {})
    assert graces(world) == {DRAIN_SECONDS}
    (refusal,) = plan.refused
    assert refusal.reason is RefusedBecause.NO_NODES
    assert "node-b is drained; undo with: reconciler uncordon node-b" in refusal.text
    set_node(world, "node-b")
    assert world.settle() == Plan()
    assert world.alive() == [RankId("tiny", 0, 2, 0), RankId("tiny", 0, 2, 1)]
    formed = world.attempts[world.replica()]
    assert [(attempt.cause, attempt.fault) for attempt in formed[1:]] == [("NewReplica", None)]


def test_ranks_that_end_before_the_others_do_not_cut_what_those_finish() -> None:
    world = cluster("node-a", "node-b")
    set_node(world, "node-b", drain=True)
    for step in world.plan().steps:
        assert isinstance(step, StopRank)
        world.stops[step.id] = RequestedStop(world.now + DRAIN_SECONDS, world.now + DRAIN_SECONDS + 10)
    world.end_rank(RankId("tiny", 0, 1, 1), code=0)
    assert world.plan().steps == ()
    world.end_rank(RankId("tiny", 0, 1, 0), code=0)
    assert [type(step) for step in world.plan().steps] == [ReleaseReplica]


def test_whether_there_is_another_place_is_waited_for_while_the_group_goes_on() -> None:
    world = cluster("node-a", "node-b")
    world.manifests.append(node("node-c"))  # its agent has not been started yet
    set_node(world, "node-b", drain=True)
    assert not any(isinstance(step, StopRank) for step in world.plan().steps)
    assert world.settle() == Plan()
    assert world.group().members == ("node-a", "node-c")


def test_a_new_replica_goes_to_no_drained_node() -> None:
    world = World([node("node-a"), node("node-b", drain=True), model(), deployment(nodes=ONE_OR_TWO)])
    assert world.settle() == Plan()
    assert world.group().members == ("node-a",)


def test_ranks_on_a_cordoned_node_go_on_and_a_refusal_names_it() -> None:
    world = cluster("node-a", "node-b")
    set_node(world, "node-b", unschedulable=True)
    assert world.plan() == Plan()
    world.manifests[-1] = deployment(serving={"context": 1024})
    (refusal,) = world.plan().refused
    assert refusal.text.endswith("(node-b is cordoned; undo with: reconciler uncordon node-b)")


@pytest.mark.parametrize("where", ["node-a", "node-c"])
def test_nodes_without_ranks_of_the_group_are_drained_without_touching_it(where: str) -> None:
    world = cluster("node-a", "node-b", "node-c", nodes=1)
    (member,) = world.group().members
    other = "node-c" if member == where else where
    set_node(world, other, drain=True)
    assert world.plan() == Plan()


def test_another_time_of_restart_forms_a_group_anew_and_none_changes_nothing() -> None:
    world = cluster("node-a", "node-b")
    before = world.group().fingerprint
    world.manifests[-1] = deployment(restartedAt="2026-11-21T10:00:00Z")
    assert world.settle() == Plan()
    assert world.group().epoch == 2
    world.manifests[-1] = deployment()
    world.settle()
    assert world.group().fingerprint == before


def test_a_drained_group_goes_on_until_the_gateway_is_told_where_to_go() -> None:
    world = settled(World([node("node-a"), node("node-b"), node("node-c"), model(), deployment(nodes=2)]))
    world.routed = False
    set_node(world, "node-b", drain=True)
    assert world.plan().steps == ()
    world.routed = True
    assert world.settle() == Plan()
    assert "node-b" not in world.group().members
