"""Machines that somebody wants restarted: emptied first, one after the other, and each once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reconciler.planning.context.reboot_requests import AWAY_SECONDS
from reconciler.planning.recovery import reboot
from reconciler.planning.recovery.back_off import SHORT_LIVES_FREE
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
    Reboot,
    RebootNode,
    RefusedBecause,
    ReleaseReplica,
    RequestedStop,
    StartAgent,
    WaitingFor,
)
from reconciler.state.observed import KILL_SECONDS
from reconciler.wire.launch import ExitCode, RankId
from tests.examples import examples
from tests.worlds import World, deployment, manifest, model, node, settled

A, B, C = NodeName("node-a"), NodeName("node-b"), NodeName("node-c")
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIPbP3JZnBSCsPkM5XQd6EuNmIpQ8p2mFHwqbIqNlNnY7"
FIRST_BOOT = "boot"


def remote(name: str, **spec: Any) -> Node:
    ssh = {"host": name, "user": "me", "hostKey": KEY}
    return manifest(Node, name, None, ssh=ssh, address=f"10.0.0.{ord(name[-1])}", **spec)  # type: ignore[no-any-return]


def cluster(*names: NodeName) -> World:
    """A group of two ranks on these, or on the first two of three."""
    world = settled(World([*(remote(name) for name in names or (A, B, C)), model(), deployment(nodes=2)]))
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
    assert set(world.group().members) == {A, C}


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
        world.act()
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
        world.act()
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
    for _ in range(SHORT_LIVES_FREE + 2):
        world.end_rank(world.group().rank_ids[0], code=ExitCode.UNEXPECTED)
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
    assert text(world, A) == "node-a: it was asked to restart, and is expected back"
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


def test_the_next_does_not_begin_before_the_agent_of_the_last_is_back() -> None:
    world = cluster()
    ask(world, A, B)
    for _ in range(20):
        for step in world.plan().steps:
            if not isinstance(step, StartAgent):
                world.obey(step)
    assert story(world)[-1] == "ProveGroup"
    assert text(world, B) == "node-b: it is restarted when node-a is back"


def test_the_next_does_not_begin_while_nobody_has_seen_the_one_that_is_being_emptied() -> None:
    world = cluster()
    ask(world, B)
    ask(world, A, drain=True)
    step_by_step(world, until="EmptyNode node-a")
    world.lose(A)
    world.restart_controller()
    world.settle()
    assert "EmptyNode node-b" not in story(world)


def test_none_is_restarted_beside_another_whoever_wanted_that() -> None:
    world = World([remote(A, rebootFrom=FIRST_BOOT), remote(C, repair={"reboot": True}), model()])
    step_by_step(world, until="EmptyNode node-a")
    snapshot = world.seen()
    healing = reboot.restart(snapshot, C, FaultClass.KERNEL_OBJECTS, "held")
    assert healing == "node-a is being restarted, and only one machine is at a time"
    world.reboots[C] = Reboot(world.now, FIRST_BOOT, "C7: held")
    world.down.add(C)
    assert [step for step in world.plan().steps if not isinstance(step, StartAgent)] == []
    assert text(world, A) == "node-a: it is empty, and restarted when node-c is back"


def test_a_wish_that_is_taken_back_leaves_the_machine_in_use() -> None:
    world = cluster(A, B)
    ask(world, A)
    step_by_step(world, until="ReleaseReplica")
    world.manifests = [remote(A) if each.metadata.name == A else each for each in world.manifests]
    assert world.settle() == Plan()
    assert world.group().members == (A, B)
    assert "RebootNode node-a" not in story(world)


def test_a_machine_stays_drained_that_was() -> None:
    world = cluster()
    ask(world, A, drain=True)
    world.settle()
    assert story(world)[-2:] == ["RebootNode node-a", "StartAgent node-a"]
    assert A not in world.group().members


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
        world.stops[rank] = RequestedStop(world.now + 30, world.now + 40)
    assert world.plan().steps == ()
    assert text(world, A).startswith("node-a: it is being emptied for a restart: ")


class Play:
    """A cluster that is to be restarted, whatever happens to it."""

    def __init__(self, *names: NodeName) -> None:
        self.world = cluster(*names)
        self.names = [NodeName(m.metadata.name) for m in self.world.manifests if isinstance(m, Node)]
        self.restarted: list[NodeName] = []
        self.expected: dict[NodeName, float] = {}
        """Until when a machine that was restarted is waited for."""
        ask(self.world, *self.names)

    def obey(self, count: int) -> None:
        world = self.world
        for step in world.plan().steps[:count]:
            if isinstance(step, RebootNode):
                assert not [rank for rank in world.alive() if world.ranks[rank][0] == step.node]
                away = [name for name in self.restarted if name in world.down]
                assert not [name for name in away if world.now < self.expected[name]], "one at a time"
                self.restarted.append(step.node)
                self.expected[step.node] = world.now + AWAY_SECONDS
            world.obey(step)

    def kill(self, number: int) -> None:
        alive = sorted(self.world.alive())
        if alive:
            self.world.end_rank(alive[number % len(alive)], signal=9)

    def lose(self, number: int) -> None:
        name = self.names[number % len(self.names)]
        if name not in self.world.lost:
            self.world.lose(name)

    def find(self, number: int) -> None:
        self.world.find(self.names[number % len(self.names)])


ACTS: dict[str, Callable[[Play, int], object]] = {
    "all": lambda play, _: play.obey(100),
    "one": lambda play, _: play.obey(1),
    "another controller": lambda play, _: play.world.restart_controller(),
    "kill": Play.kill,
    "lose": Play.lose,
    "find": Play.find,
    "wait": lambda play, number: play.world.pass_time(play.world.now + 10.0 ** (number % 4)),
}


@settings(max_examples=examples(60), deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from(["all", "all", *ACTS]), st.integers(0, 7)), max_size=25), st.booleans()
)
def test_whatever_happens_each_is_restarted_once_empty_and_alone(
    acts: list[tuple[str, int]], pair: bool
) -> None:
    play = Play(A, B) if pair else Play()
    for act, number in acts:
        ACTS[act](play, number)
    for number in range(len(play.names)):
        play.find(number)
    for _ in range(40):
        play.obey(100)
        play.world.pass_time(play.world.now + 400)
    assert sorted(play.restarted) == play.names
    assert play.world.groups[play.world.replica()].proven_at is not None


def test_a_machine_is_restarted_although_nothing_ends_a_rank_there() -> None:
    world = cluster()
    world.unkillable.add(B)
    world.report(RankId("tiny", 0, 1, 1), killed_seconds=KILL_SECONDS)
    ask(world, B)
    world.settle()
    assert [step.node for step in world.done(RebootNode)] == [B]


def test_changes_that_are_paused_do_not_keep_machines_from_being_restarted() -> None:
    world = cluster()
    world.manifests[-1] = deployment(nodes=2, serving={"maxBatch": 4}, paused=True)
    assert [waiting.reason for waiting in world.plan().waiting] == [WaitingFor.PAUSED]
    ask(world, C)
    world.settle()
    assert [step.node for step in world.done(RebootNode)] == [C]
