"""A machine is restarted last, rarely, and never beside another: each rule holds it back by itself."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reconciler.planning.context.reboot_requests import AWAY_SECONDS
from reconciler.planning.context.world import World as Snapshots
from reconciler.planning.plan import one_restart
from reconciler.planning.recovery import reboot
from reconciler.planning.recovery.diagnose import REFRESHED_SECONDS
from reconciler.state import (
    AllocateEpoch,
    FaultClass,
    ForgetRank,
    MachineFacts,
    Memory,
    NodeName,
    Plan,
    ProveGroup,
    RebootNode,
    StartAgent,
    StartRank,
    StepFailure,
    StopRank,
)
from reconciler.wire.launch import ExitCode, RankId
from tests.examples import examples
from tests.planning.macs import A, C, learn, three_macs
from tests.worlds import World, deployment, model, node, settled

NODE, OTHER = NodeName("node-a"), NodeName("node-b")
HOURS = 3600.0
HELD = FaultClass.KERNEL_OBJECTS


def cluster(**repair: bool) -> World:
    """Two nodes that may be restarted; nothing runs on them."""
    allowed = repair or {"reboot": True}
    world = settled(World([node("node-a", repair=allowed), node("node-b", repair=allowed), model()]))
    return world


def snapshots(world: World, system: str = "Linux", **facts: Any) -> Snapshots:
    observed = world.observed()
    nodes = {
        name: replace(
            seen,
            facts=MachineFacts(**facts),
            report=replace(seen.report, system=system) if seen.report else None,
        )
        for name, seen in observed.nodes.items()
    }
    return Snapshots(world.desired(), replace(observed, nodes=nodes), world.memory(), world.now, "")


def asked(world: World, name: NodeName = NODE, fault: FaultClass = HELD, **seen: Any) -> RebootNode | str:
    return reboot.restart(snapshots(world, **seen), name, fault, "5 protection domains are held")


def restarted(world: World, name: NodeName = NODE) -> None:
    step = asked(world, name)
    assert isinstance(step, RebootNode), step
    world.obey(step)


def test_a_machine_that_may_is_restarted_for_what_it_helps_against() -> None:
    world = cluster()
    step = asked(world)
    assert isinstance(step, RebootNode)
    assert (step.reboot.at, step.reboot.boot_id) == (world.now, "boot")
    assert str(step) == "restart node-a (C7: 5 protection domains are held)"


def test_it_is_off_by_default() -> None:
    world = cluster(reboot=False)
    assert asked(world) == "spec.repair.reboot of node/node-a does not allow a restart"
    assert (
        asked(world, NodeName("stranger")) == "spec.repair.reboot of node/stranger does not allow a restart"
    )


@pytest.mark.parametrize(
    "fault",
    [FaultClass.RDMA_DISABLED, FaultClass.LINK_DOWN, FaultClass.RANK_CRASH, FaultClass.HOST_UNREACHABLE],
)
def test_never_where_it_cannot_help(fault: FaultClass) -> None:
    assert asked(cluster(), fault=fault) == f"a restart of node-a would not help against {fault.value}"


def test_never_a_machine_that_a_person_has_to_unlock_unless_the_node_says_who_does() -> None:
    locked = "after a restart a person would have to unlock node-a (FileVault)"
    assert asked(cluster(), filevault=True) == locked
    assert asked(cluster(), system="Darwin") == locked, "what is not known is not fine"
    assert isinstance(asked(cluster(), system="Darwin", filevault=False), RebootNode)
    declared = cluster(reboot=True, fileVault=True)
    assert isinstance(asked(declared, system="Darwin", filevault=True), RebootNode)


def test_never_while_it_serves_and_at_once_when_that_is_over() -> None:
    world = cluster()
    world.bring(deployment())
    world.settle()
    assert asked(world) == "tiny/0 serves on node-a"
    world.end_rank(RankId("tiny", 0, 1, 1), signal=9)
    assert isinstance(asked(world), RebootNode)


def test_never_a_machine_that_does_not_answer() -> None:
    world = cluster()
    world.down.add(NODE)
    assert asked(world) == "node-a does not answer now"


def test_one_at_a_time_in_the_whole_cluster_until_it_is_back() -> None:
    world = cluster()
    restarted(world, OTHER)
    world.now += 10 * HOURS
    assert asked(world) == "node-b is being restarted, and only one machine is at a time"
    world.settle()  # its agent answers again, from another boot
    assert isinstance(asked(world), RebootNode)


def test_a_machine_that_left_the_cluster_while_it_was_away_is_not_waited_for() -> None:
    world = cluster()
    restarted(world, OTHER)
    world.remove(world.manifests[1])
    assert isinstance(asked(world), RebootNode)


def test_a_restart_that_never_took_place_does_not_hold_others_back_for_ever() -> None:
    """The controller died between its note and the deed."""
    world = cluster()
    step = asked(world, OTHER)
    assert isinstance(step, RebootNode)
    world.reboots[OTHER] = step.reboot
    assert asked(world) == "node-b is being restarted, and only one machine is at a time"
    world.now += AWAY_SECONDS
    assert isinstance(asked(world), RebootNode)


@pytest.mark.parametrize("later", [6 * HOURS, -7 * HOURS, 1e8, -1e8])
def test_each_machine_at_most_every_six_hours_by_a_clock_that_may_be_set(later: float) -> None:
    world = cluster()
    restarted(world)
    world.settle()
    world.now += 5.9 * HOURS
    assert asked(world) == "node-a was restarted less than 6 hours ago"
    world.now -= 7 * HOURS
    assert asked(world) == "node-a was restarted less than 6 hours ago"
    world.now = world.reboots[NODE].at + later
    assert isinstance(asked(world), RebootNode)


def test_of_two_machines_that_need_it_in_one_pass_one_is_restarted() -> None:
    steps = [asked(cluster(), name) for name in (NODE, OTHER)]
    both = Plan(tuple(step for step in steps if isinstance(step, RebootNode)))
    assert len(both.steps) == 2
    assert one_restart(both, Memory(token=1), 0.0).steps == both.steps[:1]


@settings(max_examples=examples(100), deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from([NODE, OTHER]), st.booleans(), st.floats(0, 8 * HOURS)), max_size=30)
)
def test_however_often_it_is_asked_for_they_are_apart(asks: list[tuple[NodeName, bool, float]]) -> None:
    world = cluster()
    done: list[tuple[NodeName, float]] = []
    for name, back, pause in asks:
        step = asked(world, name)
        if isinstance(step, RebootNode):
            assert not world.down, "two are away"
            world.obey(step)
            done.append((name, world.now))
        if back:
            world.settle()
        world.now += pause
    for name in (NODE, OTHER):
        times = [at for other, at in done if other == name]
        assert all(later - earlier >= reboot.EVERY_SECONDS for earlier, later in pairwise(times))


# --- as the next remedy of a group -----------------------------------------------------------------


def exhausted(**repair: bool) -> World:
    """A group that lacks kernel objects on node-b although it was formed again."""
    world = cluster(**repair)
    world.bring(deployment())
    world.settle()
    for epoch in (1, 2):
        world.end_rank(RankId("tiny", 0, epoch, 1), code=ExitCode.KERNEL_OBJECTS)
        if epoch == 1:
            world.settle()
    world.history.clear()
    return world


def test_where_forming_again_did_not_help_the_machine_is_restarted_after_its_ranks_have_ended() -> None:
    world = exhausted()
    (trouble,) = world.plan().troubles
    assert (trouble.doing, trouble.person) == ("restart the machine", ""), "nobody has to do it"
    assert world.settle() == Plan(), "a restart of its machine has a back-off of its own"
    assert [type(step) for step in world.history if not isinstance(step, ForgetRank)] == [
        StopRank, RebootNode, StartAgent, AllocateEpoch, StartRank, StartRank, ProveGroup,
    ]  # fmt: skip
    assert [step.node for step in world.done(RebootNode)] == [OTHER]
    (formed,) = world.done(AllocateEpoch)
    assert formed.fault is FaultClass.REBOOT


def gpu_fails(world: World, times: int = 3) -> list[str]:
    """Rank 1 of the group ends so often with a fault of the GPU; returns what follows each time."""
    followed = []
    for _ in range(times):
        rank = world.group().rank_ids[1]
        world.end_rank(rank, code=ExitCode.GPU)
        (trouble,) = [each for each in world.plan().troubles if each.fault is FaultClass.GPU_FAULT]
        followed.append(trouble.doing)
        world.now += 400
        world.settle()
    return followed


def test_a_gpu_fault_that_is_back_after_a_restart_moves_its_group_and_restarts_nothing() -> None:
    again = ["form the group again"] * 2
    world = three_macs()
    assert gpu_fails(world) == [*again, "restart the machine"]
    (restarted,) = world.done(RebootNode)
    world.now += 7 * HOURS
    world.settle()
    assert world.group().members[1] == restarted.node
    assert gpu_fails(world) == [*again, "form the group without the machine"]
    assert restarted.node not in world.group().members
    assert world.done(RebootNode) == [restarted]


def test_after_a_week_a_restart_may_help_again() -> None:
    world = three_macs()
    gpu_fails(world)
    world.now += REFRESHED_SECONDS
    world.settle()
    assert gpu_fails(world)[-1] == "restart the machine"


def test_where_it_may_not_be_the_group_is_formed_again_and_the_reason_is_told() -> None:
    world = exhausted(reboot=False)
    (trouble,) = world.plan().troubles
    assert trouble.doing == (
        "restart the machine, not now: spec.repair.reboot of node/node-b does not allow a restart"
    )
    assert "sudo shutdown -r now" in trouble.person
    plan = world.settle()
    world.now = max([world.now, *(waiting.until for waiting in plan.waiting if waiting.until is not None)])
    assert world.settle() == Plan()
    assert not any(isinstance(step, RebootNode) for step in world.history)


def test_a_restart_that_is_refused_does_not_keep_the_group_from_being_formed() -> None:
    world = exhausted()
    for _ in range(2):
        for step in world.plan().steps:
            if isinstance(step, RebootNode):
                world.failures[step.key] = StepFailure(
                    1, world.now + 60, "it is the controller's own machine"
                )
            else:
                world.obey(step)
    (trouble,) = world.plan().troubles
    assert trouble.doing.endswith("node-b could not be restarted: it is the controller's own machine")
    assert "sudo shutdown -r now" in trouble.person
    world.now += 2
    assert world.settle() == Plan()


# --- who is asked -------------------------------------------------------------------------------------


def test_nobody_is_asked_to_restart_a_machine_that_is_about_to_be_and_somebody_where_that_did_not_help() -> (
    None
):
    world = three_macs()
    learn(world, C, verbs_answer=False)
    decided = world.plan()
    (restart,) = [step for step in decided.steps if isinstance(step, RebootNode)]
    assert [(each.doing, each.person) for each in decided.troubles] == [("restart the machine", "")]
    world.obey(restart)
    assert [each.person for each in world.plan().troubles if each.fault is FaultClass.VERBS_WEDGED] == [""]
    world.settle()
    (wedged,) = world.plan().troubles
    assert "sudo shutdown -r now" in wedged.person, "it is as it was, and was restarted less than 6 hours ago"


def test_somebody_is_asked_to_restart_a_machine_as_long_as_a_group_serves_on_it() -> None:
    world = three_macs()
    learn(world, A, verbs_answer=False)
    assert any("sudo shutdown -r now" in each.person for each in world.plan().troubles)


def test_somebody_is_asked_for_a_machine_that_does_not_come_back_from_its_restart() -> None:
    world = three_macs()
    learn(world, C, verbs_answer=False)
    world.obey(next(step for step in world.plan().steps if isinstance(step, RebootNode)))
    assert not reboot.in_hand(snapshots(world), C, FaultClass.HOST_UNREACHABLE)
    assert reboot.in_hand(snapshots(world), C, FaultClass.VERBS_WEDGED)
    world.lose(C)
    world.now += 2 * AWAY_SECONDS
    asked_for = [each for each in world.plan().troubles if each.fault is FaultClass.HOST_UNREACHABLE]
    assert any(each.person for each in asked_for), asked_for
