"""A rank that SIGKILL does not end: nothing waits for it but its machine, which is restarted by rule or by a person."""

from __future__ import annotations

from dataclasses import replace

import pytest

from reconciler.planning.context.memory_ledger import Ledger
from reconciler.planning.context.reboot_requests import AWAY_SECONDS
from reconciler.planning.diagnosis.rules import NO_LOCAL_NETWORK, Remedy
from reconciler.state import (
    AllocateEpoch,
    Cause,
    FaultClass,
    NodeName,
    Plan,
    Reboot,
    RebootNode,
    RefusedBecause,
    StartRank,
    StopAgent,
    StopRank,
    WaitingFor,
)
from reconciler.state.observed import KILL_SECONDS
from reconciler.wire.launch import Phase, RankId
from tests.planning.macs import A, B, C, three_macs, two_macs
from tests.worlds import World, deployment, model, node, settled

FIRST, SECOND = RankId("tiny", 0, 1, 0), RankId("tiny", 0, 1, 1)
SEEN = "rank 1 of tiny/0 on node-b (epoch 1, pid 101) has not ended within 30 s of SIGKILL"


def held(world: World) -> World:
    """The group has died, its ranks were killed, and rank 1 is held in the kernel."""
    world.settle()
    world.unkillable.add(B)
    world.end_rank(FIRST, signal=9)
    world.settle()
    assert world.ranks[SECOND][1].killed_seconds == 0.0
    world.history.clear()
    return world


def macs(count: int, **spec: object) -> World:
    return World([*(node(name) for name in (A, B, C)[:count]), model(), deployment(**spec)])  # type: ignore[arg-type]


def members(world: World) -> tuple[NodeName, ...]:
    return world.group().members


def serves(world: World) -> bool:
    (route,) = world.routes()
    return bool(route.backends)


def troubles(world: World) -> list[tuple[str, str]]:
    """Who has this fault, and what a person is asked for it."""
    return [
        (str(t.subject), t.person) for t in world.plan().troubles if t.fault is FaultClass.UNKILLABLE_RANK
    ]


def test_for_half_a_minute_its_end_is_waited_for_and_it_is_not_asked_again() -> None:
    world = held(macs(3))
    world.pass_time(world.now + KILL_SECONDS - 1)
    plan = world.plan()
    assert (plan.steps, plan.quarantined, troubles(world)) == ((), (), [])
    (waiting,) = plan.waiting
    assert (waiting.reason, waiting.until) == (WaitingFor.STOPPING, world.now + 1)


def test_then_its_node_is_quarantined_and_the_group_is_formed_without_it() -> None:
    world = held(macs(3))
    world.pass_time(world.now + KILL_SECONDS)
    plan = world.settle()
    (formed,) = world.done(AllocateEpoch)
    assert (formed.group.members, formed.cause) == ((A, C), Cause.NODE_QUARANTINED)
    assert SEEN in formed.detail
    assert {step.node for step in world.history if isinstance(step, StartRank)} == {A, C}
    assert serves(world)
    (kept_out,) = plan.quarantined
    assert (kept_out.node, kept_out.reason, kept_out.text) == (B, "UnkillableRank", SEEN)
    assert SECOND in world.alive()


def test_where_its_bounds_allow_the_others_serve_alone() -> None:
    world = held(macs(2, nodes={"min": 1, "max": 2}))
    world.pass_time(world.now + KILL_SECONDS)
    world.settle()
    assert (members(world), serves(world)) == ((A,), True)


def test_the_other_ranks_of_its_group_are_ended_as_always() -> None:
    world = settled(macs(3))
    world.lingers = True
    world.report(SECOND, killed_seconds=KILL_SECONDS)
    world.act(2)
    assert [step.id for step in world.done(StopRank)] == [FIRST]
    assert not any(isinstance(step, StartRank) and step.spec.id.epoch == 2 for step in world.history)
    world.pass_time(world.now + 60)
    world.settle()
    assert (members(world), serves(world)) == ((A, C), True)


def test_one_that_ends_after_all_gives_its_node_back() -> None:
    world = held(macs(3))
    world.pass_time(world.now + KILL_SECONDS)
    world.settle()
    world.unkillable.clear()
    world.end_rank(SECOND, signal=9)
    world.settle()
    assert (world.plan().quarantined, troubles(world)) == ((), [])


def test_once_it_has_ended_after_all_nobody_is_asked_to_restart_anything() -> None:
    """The other ranks of its group were asked to end because of it, and the group has not been formed since."""
    world = killed_on_macs(two_macs(transport=["jaccl"]))
    world.act()
    world.end_rank(SECOND, signal=9)
    plan = world.plan()
    assert [(str(t.subject), t.fault, t.doing, t.person) for t in plan.troubles] == [
        ("replica/tiny/0", FaultClass.UNKILLABLE_RANK, Remedy.FORM.value, "")
    ]
    assert world.settle() == Plan()
    assert (members(world), serves(world)) == ((A, B), True)


def test_a_group_that_has_no_other_place_says_why_and_serves_again_after_the_restart() -> None:
    world = held(macs(2))
    world.pass_time(world.now + KILL_SECONDS)
    (refused,) = world.settle().refused
    assert refused.reason is RefusedBecause.NO_NODES
    assert f"node-b is quarantined: {SEEN}" in refused.text
    world.unkillable.clear()
    world.end_rank(SECOND, signal=9)
    world.boots[B] = "boot-2"
    world.pass_time(world.now + 400)
    assert world.settle() == Plan()
    assert (members(world), serves(world)) == ((A, B), True)


def test_a_killed_rank_gets_no_requests_although_it_once_said_that_it_is_ready() -> None:
    world = settled(macs(1, nodes=1))
    assert serves(world)
    world.report(FIRST, killed_seconds=0.0)
    assert not serves(world)


def test_a_group_whose_only_sign_is_the_rank_is_dead_of_it() -> None:
    """Its controller was replaced, and knows nothing of what the rank was killed for."""
    world = settled(macs(2, nodes=1))
    (place,) = members(world)
    world.report(FIRST, phase=Phase.DRAINING, killed_seconds=KILL_SECONDS)
    step = world.forming()
    assert step.fault is FaultClass.UNKILLABLE_RANK
    assert place not in step.group.members


def test_its_memory_stays_charged_to_its_machine() -> None:
    world = settled(macs(3, nodes={"min": 1, "max": 2}))
    world.report(SECOND, killed_seconds=KILL_SECONDS)
    ledger = Ledger.of(world.seen())
    need = world.group().rank_bytes
    assert world.memory_bytes - ledger.free(B, world.replica()) == need
    assert ledger.free(A, world.replica()) == world.memory_bytes


# --- nothing else waits for it ----------------------------------------------------------------------


def test_everything_can_be_stopped() -> None:
    world = held(macs(2))
    world.pass_time(world.now + KILL_SECONDS)
    world.stopping = True
    assert world.settle() == Plan()
    assert (world.groups, world.agents, world.alive()) == ({}, set(), [SECOND])


def test_no_machine_is_restarted_while_everything_is_being_stopped() -> None:
    world = killed_on_macs(three_macs())
    world.stopping = True
    world.settle()
    assert (restarts(world), world.agents) == ([], set())


def test_its_deployment_can_be_removed() -> None:
    world = held(macs(2))
    world.pass_time(world.now + KILL_SECONDS)
    world.remove(next(m for m in world.manifests if m.kind == "ModelDeployment"))
    world.settle()
    assert (world.groups, world.leaving) == ({}, {})


def test_its_node_can_be_removed() -> None:
    world = held(macs(3))
    world.pass_time(world.now + KILL_SECONDS)
    world.settle()
    world.remove(next(m for m in world.manifests if m.metadata.name == B))
    world.settle()
    assert any(isinstance(step, StopAgent) and step.node == B for step in world.history)
    assert world.leaving == {}


# --- the restart ------------------------------------------------------------------------------------


def restarts(world: World) -> list[NodeName]:
    return [step.node for step in world.done(RebootNode)]


def killed_on_macs(world: World) -> World:
    world.unkillable.add(B)
    world.report(SECOND, killed_seconds=KILL_SECONDS)
    return world


def test_its_machine_is_restarted_where_its_node_allows_that_and_can_be_used_again() -> None:
    world = killed_on_macs(three_macs())
    assert [person for _, person in troubles(world)] == ["", ""], "nobody has to do it"
    plan = world.settle()
    assert restarts(world) == [B]
    assert members(world) == (A, C)
    assert (plan.quarantined, plan.troubles) == ((), ())


def test_it_is_restarted_though_the_rank_looks_like_one_that_serves() -> None:
    """It has no other place to go, so that its group is still the one that was proven."""
    world = three_macs()
    world.manifests = [m for m in world.manifests if m.metadata.name != C and m.kind != "Fabric"]
    world.settle()
    world.history.clear()
    killed_on_macs(world)
    assert world.ranks[SECOND][1].phase == Phase.READY
    world.settle()
    assert B in restarts(world)


def test_where_it_may_not_be_a_person_gets_the_line_to_type_of_the_node_alone() -> None:
    world = killed_on_macs(two_macs())
    asked = dict(troubles(world))
    assert asked["replica/tiny/0"] == ""
    assert asked["node/node-b"].startswith("on node-b: sudo shutdown -r now; it may take some minutes")


def test_nobody_is_asked_for_a_machine_that_takes_minutes_to_shut_down() -> None:
    world = killed_on_macs(three_macs())
    world.reboots[B] = Reboot(world.now, "boot", f"C18: {SEEN}")
    world.lose(B)
    world.now += 253
    plan = world.settle()
    assert [trouble.person for trouble in plan.troubles if trouble.person] == []
    (kept_out,) = plan.quarantined
    assert "it was asked to restart" in kept_out.person
    world.now += AWAY_SECONDS - 253
    (asked,) = [trouble for trouble in world.plan().troubles if trouble.person]
    assert (str(asked.subject), asked.fault) == ("node/node-b", FaultClass.HOST_UNREACHABLE)


def test_a_machine_that_asks_for_the_password_of_its_disk_has_come_as_far_as_it_can_alone() -> None:
    world = killed_on_macs(three_macs())
    world.reboots[B] = Reboot(world.now, "boot", f"C18: {SEEN}")
    world.lose(B)
    world.lost[B] = replace(world.lost[B], problem="it takes passwords only", remedy="ssh ada@node-b")
    world.now += 60
    plan = world.settle()
    assert [(str(t.subject), t.person) for t in plan.troubles if t.person] == [
        ("node/node-b", "ssh ada@node-b")
    ]
    assert [kept_out.person for kept_out in plan.quarantined] == ["ssh ada@node-b"]


def test_what_keeps_the_controller_from_every_machine_is_asked_for_once() -> None:
    world = three_macs()
    for name in (A, B, C):
        world.lose(name)
        world.lost[name] = replace(world.lost[name], barred=NO_LOCAL_NETWORK, remedy="allow it")
    world.now += 60
    silent = [
        t
        for t in world.settle().troubles
        if t.object.kind == "Node" and t.fault is FaultClass.HOST_UNREACHABLE
    ]
    assert [(str(t.subject), t.person) for t in silent] == [
        ("node/node-a", "allow it"), ("node/node-b", ""), ("node/node-c", ""),
    ]  # fmt: skip
    assert [t.doing.endswith("see node/node-a") for t in silent] == [False, True, True]


def test_a_machine_that_is_silent_after_its_restart_is_a_matter_for_a_person() -> None:
    world = settled(killed_on_macs(three_macs()))
    assert restarts(world) == [B]
    world.now += 120
    world.lose(B)
    world.now += 60
    (asked,) = [trouble for trouble in world.settle().troubles if trouble.person]
    assert (str(asked.subject), asked.fault) == ("node/node-b", FaultClass.HOST_UNREACHABLE)


def test_a_machine_that_answers_as_before_is_not_asked_twice_and_after_a_while_a_person_is() -> None:
    world = killed_on_macs(three_macs())
    (restart,) = [step for step in world.plan().steps if isinstance(step, RebootNode)]
    world.reboots[B] = restart.reboot  # it was asked, and goes on for now
    world.settle()
    world.now += 253
    world.settle()
    assert (restarts(world), troubles(world)) == ([], [("node/node-b", "")])
    world.now += AWAY_SECONDS
    world.settle()
    ((_, person),) = troubles(world)
    assert (restarts(world), "sudo shutdown -r now" in person) == ([], True)


@pytest.mark.parametrize("seconds", [None, 0.0, KILL_SECONDS - 5])
def test_a_rank_that_was_killed_a_moment_ago_is_no_fault(seconds: float | None) -> None:
    world = settled(macs(2))
    world.report(SECOND, killed_seconds=seconds)
    assert (world.plan().quarantined, troubles(world)) == ((), [])
