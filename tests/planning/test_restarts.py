"""Machines that somebody wants restarted: emptied first, one after the other, and each once."""

from __future__ import annotations

from typing import Any

import pytest

from reconciler.planning.asked import AWAY_SECONDS
from reconciler.resources import Node
from reconciler.state import (
    AllocateEpoch,
    EmptyNode,
    FaultClass,
    MachineFacts,
    NodeName,
    ObjectKey,
    Plan,
    ProveGroup,
    RebootNode,
    RefusedBecause,
    ReleaseReplica,
    StartAgent,
    StopAsked,
    WaitingFor,
)
from reconciler.wire.launch import ExitCode
from tests.worlds import World, deployment, manifest, model, node

A, B, C = NodeName("node-a"), NodeName("node-b"), NodeName("node-c")
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIPbP3JZnBSCsPkM5XQd6EuNmIpQ8p2mFHwqbIqNlNnY7"
FIRST_BOOT = "boot"


def remote(name: str, **spec: Any) -> Node:
    ssh = {"host": name, "user": "me", "hostKey": KEY}
    return manifest(Node, name, None, ssh=ssh, address=f"10.0.0.{ord(name[-1])}", **spec)  # type: ignore[no-any-return]


def cluster(*names: NodeName) -> World:
    """A group of two ranks on these, or on the first two of three."""
    world = World([*(remote(name) for name in names or (A, B, C)), model(), deployment(nodes=2)])
    world.settle()
    world.history.clear()
    return world


def ask(world: World, *names: NodeName, boot: str = FIRST_BOOT, **spec: Any) -> None:
    """What `reconciler reboot` commits."""
    asked = {name: remote(name, rebootFrom=boot, **spec) for name in names}
    world.manifests = [asked.get(NodeName(each.metadata.name), each) for each in world.manifests]


def story(world: World) -> list[str]:
    """What was done to machines and groups, in order."""
    kinds = (EmptyNode, RebootNode, StartAgent, AllocateEpoch, ProveGroup, ReleaseReplica)
    return [
        f"{type(step).__name__}{' ' + step.node if isinstance(step, EmptyNode | RebootNode | StartAgent) else ''}"
        for step in world.history
        if isinstance(step, kinds)
    ]


def waits(world: World, name: NodeName) -> list[WaitingFor]:
    return [each.reason for each in world.plan().waiting if each.object == ObjectKey("Node", name)]


def text(world: World, name: NodeName) -> str:
    (found,) = [each.text for each in world.plan().waiting if each.object == ObjectKey("Node", name)]
    return found


def test_each_machine_is_emptied_restarted_and_back_before_the_next() -> None:
    world = cluster()
    ask(world, B, A)
    assert world.settle() == Plan()
    assert story(world) == [
        "EmptyNode node-a", "AllocateEpoch", "RebootNode node-a", "StartAgent node-a", "ProveGroup",
        "EmptyNode node-b", "AllocateEpoch", "RebootNode node-b", "StartAgent node-b", "ProveGroup",
    ]  # fmt: skip
    assert set(world.groups[world.replica()].members) == {A, C}


def test_a_group_that_needs_every_machine_is_served_again_before_the_next_goes() -> None:
    world = cluster(A, B)
    ask(world, A, B)
    assert world.settle() == Plan()
    assert story(world) == [
        "EmptyNode node-a", "ReleaseReplica", "RebootNode node-a", "StartAgent node-a", "AllocateEpoch", "ProveGroup",
        "EmptyNode node-b", "ReleaseReplica", "RebootNode node-b", "StartAgent node-b", "AllocateEpoch", "ProveGroup",
    ]  # fmt: skip


def test_what_has_no_place_meanwhile_says_for_which_machine_it_waits() -> None:
    world = cluster(A, B)
    ask(world, A)
    step_by_step(world, until="ReleaseReplica")
    (refusal,) = world.plan().refused
    assert refusal.reason is RefusedBecause.RESTARTING
    assert refusal.text == "it is formed again when node-a, which is being restarted, is back"


def step_by_step(world: World, until: str) -> None:
    for _ in range(20):
        for step in world.plan().steps:
            world.obey(step)
        if story(world)[-1:] == [until]:
            return
    raise AssertionError(story(world))


@pytest.mark.parametrize("lost", [False, True])
def test_a_controller_that_comes_later_goes_on_where_the_last_one_ended_and_none_restarts_twice(
    lost: bool,
) -> None:
    """After each pass; at last also without the store."""
    world = cluster(A, B)
    ask(world, A, B)
    for _ in range(40):
        for step in world.plan().steps:
            world.obey(step)
        world.restart_controller()
    if lost:
        world.lose_store()
        world.reboots.clear()
    world.settle()
    assert [each for each in story(world) if each.startswith("Reboot")] == [
        "RebootNode node-a",
        "RebootNode node-b",
    ]


def test_a_machine_that_another_boot_was_seen_of_is_left_alone() -> None:
    world = cluster()
    ask(world, A, boot="an earlier one")
    assert world.settle() == Plan()
    assert story(world) == []


def test_the_next_waits_for_what_was_not_up_when_it_was_asked_for() -> None:
    world = cluster()
    for _ in range(2):
        world.end_rank(world.groups[world.replica()].rank_ids[0], code=ExitCode.UNEXPECTED)
        world.settle()
    ask(world, C)
    world.settle()
    assert story(world).count("EmptyNode node-c") == 0
    assert waits(world, C) == [WaitingFor.TURN]
    assert text(world, C).startswith("node-c: it is restarted when tiny/0 is served (tiny/0: next attempt")


def test_a_machine_that_is_told_and_does_not_restart_is_told_again_and_the_next_does_not_go() -> None:
    world = cluster(A, B)
    ask(world, A, B)
    step_by_step(world, until="ReleaseReplica")
    (step,) = world.plan().steps
    assert isinstance(step, RebootNode)
    world.reboots[A] = step.reboot  # and that was all
    assert world.plan().steps == ()
    assert (waits(world, A), waits(world, B)) == ([WaitingFor.RESTART], [WaitingFor.TURN])
    world.pass_time(world.now + AWAY_SECONDS)
    (again,) = world.plan().steps
    assert isinstance(again, RebootNode)
    assert again.node == A


def test_a_machine_that_is_away_for_a_restart_is_no_trouble_until_it_is_late() -> None:
    world = cluster()
    ask(world, A)
    step_by_step(world, until="RebootNode node-a")
    world.boots[A] = FIRST_BOOT
    world.lose(A)
    world.pass_time(world.now + AWAY_SECONDS - 1)
    assert [each.fault for each in world.plan().troubles] == []
    world.pass_time(world.now + 1)
    assert [each.fault for each in world.plan().troubles] == [FaultClass.HOST_UNREACHABLE]


def test_the_next_does_not_begin_while_a_machine_is_away_of_which_a_new_controller_knows_nothing() -> None:
    world = cluster()
    ask(world, A, B)
    step_by_step(world, until="RebootNode node-a")
    world.lose(A)
    world.restart_controller()
    world.settle()
    assert "EmptyNode node-b" not in story(world)
    world.find(A)
    assert world.settle() == Plan()
    assert "RebootNode node-b" in story(world)


def test_a_wish_that_is_taken_back_leaves_the_machine_in_use() -> None:
    world = cluster(A, B)
    ask(world, A)
    step_by_step(world, until="ReleaseReplica")
    world.manifests = [remote(A) if each.metadata.name == A else each for each in world.manifests]
    assert world.settle() == Plan()
    assert world.groups[world.replica()].members == (A, B)
    assert "RebootNode node-a" not in story(world)


def test_a_machine_stays_drained_that_was() -> None:
    world = cluster()
    ask(world, A, drain=True)
    world.settle()
    assert story(world)[-2:] == ["RebootNode node-a", "StartAgent node-a"]
    assert A not in world.groups[world.replica()].members


@pytest.mark.parametrize(
    ("facts", "spec", "why"),
    [
        ({"filevault": True}, {}, "a person would have to unlock its disk (FileVault)"),
        ({}, {}, "a person would have to unlock its disk (FileVault)"),
        ({"filevault": False}, {}, ""),
        ({"filevault": True}, {"repair": {"fileVault": True}}, ""),
    ],
)
def test_a_mac_that_somebody_has_to_unlock_is_refused_unless_the_node_says_who_does(
    facts: dict[str, Any], spec: dict[str, Any], why: str
) -> None:
    world = cluster()
    world.system = "Darwin"
    world.facts = {name: MachineFacts(rdma_enabled=False, **facts) for name in (A, B, C)}
    world.settle()
    world.history.clear()
    ask(world, A, **spec)
    plan = world.settle()
    refused = [each.text for each in plan.refused if each.reason is RefusedBecause.NO_RESTART]
    assert [why in each for each in refused] == ([True] if why else [])
    assert ("RebootNode node-a" in story(world)) == (not why)


def test_the_controllers_own_machine_is_refused_and_the_others_go_on() -> None:
    world = cluster()
    ask(world, B)
    world.manifests = [node(A, rebootFrom=FIRST_BOOT) if m.metadata.name == A else m for m in world.manifests]
    plan = world.settle()
    assert [each.reason for each in plan.refused if each.object.kind == "Node"] == [RefusedBecause.NO_RESTART]
    assert [each for each in story(world) if each.startswith("Reboot")] == ["RebootNode node-b"]


def test_nothing_is_restarted_while_a_rank_of_whomever_lives_there() -> None:
    world = cluster(A, B)
    ask(world, A)
    world.obey(next(step for step in world.plan().steps if isinstance(step, EmptyNode)))
    for rank in world.alive():
        world.stops[rank] = StopAsked(world.now + 30, world.now + 40)
    assert world.plan().steps == ()
    assert text(world, A).startswith("node-a: it is being emptied for a restart: ")
