"""Who is continued, who is given up, and who is only slow."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from reconciler import status
from reconciler.planning.context import deadlines
from reconciler.planning.context.deadlines import SILENCE_SECONDS
from reconciler.planning.context.workload import hash_of
from reconciler.planning.recovery.back_off import SHORT_LIVES_FREE
from reconciler.planning.recovery.stalls import CONTINUATIONS_MAX
from reconciler.state import (
    AllocateEpoch,
    Cause,
    ContinueRank,
    FaultClass,
    MachineFacts,
    NodeName,
    Plan,
    RequestedStop,
    StartRank,
    StopRank,
)
from reconciler.wire.launch import ExitCode, Phase, RankId
from tests.worlds import World, deployment, model, two_nodes

FIRST, SECOND = RankId("tiny", 0, 1, 0), RankId("tiny", 0, 1, 1)


def settled(**spec: Any) -> World:
    world = two_nodes(**spec)
    world.settle()
    world.history.clear()
    return world


def formed(world: World) -> AllocateEpoch:
    (step,) = world.done(AllocateEpoch)
    return step


# --- stopped ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("phase", [Phase.STARTING, Phase.LOADING, Phase.READY, Phase.DRAINING])
@pytest.mark.parametrize("demand", [0, 3])
def test_a_stopped_rank_is_continued_whatever_it_was_doing(phase: str, demand: int) -> None:
    world = settled()
    world.report(SECOND, stopped=True, phase=phase, demand=demand)
    (step,) = world.plan().steps
    assert step == ContinueRank(world.replica(), world.group().members[1], SECOND)
    world.obey(step)
    world.report(SECOND, phase=Phase.READY, demand=0)
    assert world.settle() == Plan()
    assert world.alive() == [FIRST, SECOND]


def test_a_rank_that_is_stopped_again_and_again_is_given_up_within_the_time_of_a_stall() -> None:
    world = settled(health={"stallAfter": "10s"})
    world.report(FIRST, demand=2)
    began = world.now
    silent = 0.0
    while not any(isinstance(step, AllocateEpoch) for step in world.history):
        world.now += 1
        silent += 1
        world.report(SECOND, stopped=True, silent_seconds=silent)
        for step in world.plan().steps:
            if isinstance(step, ContinueRank):
                silent = 0.0  # it gets some steps done before it is stopped again
            world.obey(step)
        assert world.now - began < 60, "it is continued for ever"
    assert world.now - began <= 10 + CONTINUATIONS_MAX + 1
    assert world.did().count("ContinueRank") == CONTINUATIONS_MAX
    assert formed(world).cause is Cause.STALLED
    assert "rank 1 on node-b is stopped by a signal and makes no progress" in formed(world).detail
    assert world.settle() == Plan()
    assert world.alive() == [RankId("tiny", 0, 2, 0), RankId("tiny", 0, 2, 1)]


def test_a_stopped_rank_that_a_later_epoch_replaces_is_ended_and_not_continued_first() -> None:
    world = settled()
    replica, group = world.replica(), world.group()
    world.groups[replica] = replace(group, epoch=group.epoch + 1, proven_at=None)
    world.report(SECOND, stopped=True)
    assert {type(step) for step in world.plan().steps} == {StopRank}
    world.settle()
    assert {rank.epoch for rank in world.alive()} == {group.epoch + 1}


def test_a_rank_that_was_continued_long_ago_is_continued_again() -> None:
    world = settled()
    for _ in range(10):
        world.report(SECOND, stopped=True)
        assert world.settle() == Plan()
        world.now += 200
    assert world.did() == ["ContinueRank"] * 10


def test_a_rank_that_is_not_continued_any_more_is_waited_for() -> None:
    world = settled(health={"stallAfter": "30s"})
    began = world.now
    for _ in range(CONTINUATIONS_MAX + 1):
        world.report(SECOND, stopped=True)
        plan = world.settle()
    (waiting,) = plan.waiting
    assert waiting.until is not None
    assert waiting.until - began == 70, "twice stallAfter, and ten seconds"
    world.now = waiting.until
    assert world.settle() == Plan()
    assert world.did() == ["ContinueRank"] * (CONTINUATIONS_MAX + 1)


@pytest.mark.parametrize("phase", [Phase.READY, Phase.RENDEZVOUS])
def test_who_was_stopped_while_no_controller_looked_is_given_the_time_of_a_stall_once_continued(
    phase: str,
) -> None:
    world = settled()
    allowed = 60.0 if phase == Phase.READY else deadlines.standstill_seconds(phase, 0, 1800.0)
    world.report(FIRST, demand=2, silent_seconds=500.0, phase=phase)
    world.report(SECOND, stopped=True, silent_seconds=500.0, phase=phase)
    world.settle()
    assert world.did() == ["ContinueRank"]
    world.now += allowed - 1
    assert world.plan().steps == ()
    world.now += 2
    world.settle()
    assert formed(world).cause is (Cause.STALLED if phase == Phase.READY else Cause.OVERDUE)


def test_a_clock_that_is_set_back_gives_a_rank_no_endless_continuations() -> None:
    world = settled()
    world.continued[SECOND] = (world.now + 5000,) * CONTINUATIONS_MAX
    for _ in range(CONTINUATIONS_MAX + 1):
        world.report(SECOND, stopped=True)
        world.settle()
    assert world.did() == ["ContinueRank"] * CONTINUATIONS_MAX


# --- silent ----------------------------------------------------------------------------------------


def test_a_group_that_is_silent_for_too_long_is_formed_again_and_ends_soon() -> None:
    world = settled()
    world.report(FIRST, demand=3, steps=41, silent_seconds=61.0)
    world.report(SECOND, demand=3, steps=40, silent_seconds=61.0)
    assert world.settle() == Plan()
    assert world.did() == [
        "AllocateEpoch", "StopRank", "StopRank", "StartRank", "StartRank", "ProveGroup",
    ]  # fmt: skip
    step = formed(world)
    assert step.cause is Cause.STALLED
    assert step.detail == (
        "rank 1 on node-b makes no progress for 61 s (3 requests wait), at most 60 s are allowed"
    )
    assert step.fault is FaultClass.SILENT_HANG, "it counts for the back-off"
    graces = {step.grace_seconds for step in world.history if isinstance(step, StopRank)}
    assert graces == {deadlines.HUNG_GRACE_SECONDS}


def routed(world: World) -> bool:
    (route,) = world.routes(Plan())
    return bool(route.backends)


@pytest.mark.parametrize("demand", [0, 3])
def test_a_rank_0_that_takes_no_requests_is_hung_whatever_it_says_of_its_steps(demand: int) -> None:
    """It may still decode what it has read before."""
    world = settled()
    world.report(FIRST, demand=demand, steps=41, deaf_seconds=59.0)
    assert world.plan().steps == (), "a busy one is given time"
    world.report(FIRST, demand=demand, steps=90, deaf_seconds=61.0)
    assert world.settle() == Plan()
    step = formed(world)
    assert step.detail == "rank 0 on node-a takes no requests for 61 s, at most 60 s are allowed"
    assert (step.cause, step.fault) == (Cause.STALLED, FaultClass.SILENT_HANG)


@pytest.mark.parametrize(("seconds", "routes"), [(0.0, True), (19.0, True), (20.0, False), (50.0, False)])
def test_a_rank_0_that_takes_no_requests_is_not_routed_to_after_a_while(seconds: float, routes: bool) -> None:
    world = settled()
    world.report(FIRST, deaf_seconds=seconds)
    assert routed(world) is routes


def test_ranks_with_as_many_steps_are_blamed_together() -> None:
    world = settled()
    world.report(FIRST, demand=1, steps=40, silent_seconds=61.0)
    world.report(SECOND, demand=1, steps=40, silent_seconds=61.0)
    step = world.forming()
    assert step.detail.startswith(
        "rank 0 on node-a and rank 1 on node-b make no progress for 61 s (1 request"
    )


def test_a_group_that_stalls_soon_after_its_start_waits_for_the_back_off_with_its_ranks_ended() -> None:
    world = settled()
    for epoch in range(1, SHORT_LIVES_FREE + 3):
        for rank in (0, 1):
            world.report(RankId("tiny", 0, epoch, rank), demand=1, silent_seconds=61.0)
        plan = world.settle()
    assert world.alive() == []
    (waiting,) = plan.waiting
    assert waiting.until is not None
    world.now = waiting.until
    assert world.settle() == Plan()


def test_the_way_in_which_ranks_of_a_hung_group_end_when_they_are_told_to_explains_nothing() -> None:
    world = settled()
    for epoch in range(1, SHORT_LIVES_FREE + 3):
        for rank in (0, 1):
            world.report(RankId("tiny", 0, epoch, rank), demand=1, silent_seconds=61.0)
        world.settle()
    assert world.alive() == []
    for ended in world.group().rank_ids:
        world.end_rank(ended, code=ExitCode.MEMORY)
    assert [trouble.fault for trouble in world.plan().troubles] == [FaultClass.SILENT_HANG]


def test_a_follower_that_waits_for_rank_0_is_no_stall_while_rank_0_goes_on() -> None:
    world = settled()
    world.report(SECOND, demand=1, silent_seconds=500.0)
    assert world.plan() == Plan()


def test_a_step_that_reads_a_prompt_may_take_longer() -> None:
    world = settled()
    world.report(FIRST, demand=1, silent_seconds=75.0, step_tokens=512)
    assert world.plan().steps == ()
    world.report(FIRST, silent_seconds=86.0)
    assert [type(step) for step in world.plan().steps] == [AllocateEpoch]


def test_a_stall_shows_before_the_group_is_given_up() -> None:
    world = settled()
    world.report(FIRST, demand=3, steps=41, silent_seconds=12.0)
    world.report(SECOND, demand=3, steps=40, silent_seconds=12.0)
    plan = world.plan()
    snapshots = world.snapshots(plan)
    conditions = {
        c.type: c
        for key, told in status.statuses(snapshots, {}).items()
        if key.kind == "ModelDeployment"
        for c in told.conditions
    }
    assert plan.steps == ()
    assert conditions["Ready"].status
    assert conditions["Reconciling"].status
    assert conditions["Reconciling"].reason == "NoProgress"
    assert (
        "rank 1 on node-b makes no progress for 12 s (3 requests wait)" in conditions["Reconciling"].message
    )


def test_a_pause_that_is_nothing_is_not_told() -> None:
    world = settled()
    world.report(FIRST, demand=1, silent_seconds=SILENCE_SECONDS - 1)
    assert world.plan() == Plan()


def test_a_hanging_group_that_nobody_wants_gets_no_time_to_drain() -> None:
    world = settled()
    world.report(FIRST, demand=1, silent_seconds=61.0)
    world.manifests = [m for m in world.manifests if m.kind != "ModelDeployment"]
    graces = {step.grace_seconds for step in world.plan().steps if isinstance(step, StopRank)}
    assert graces == {deadlines.HUNG_GRACE_SECONDS}


def test_a_rank_that_hangs_while_it_drains_is_asked_again_with_less_patience() -> None:
    world = settled()
    world.manifests = [m for m in world.manifests if m.kind != "ModelDeployment"]
    world.stops = {rank: RequestedStop(world.now + 20, world.now + 30) for rank in (FIRST, SECOND)}
    world.report(FIRST, demand=1, phase=Phase.DRAINING)
    assert world.plan().steps == ()
    world.report(FIRST, silent_seconds=61.0)
    assert [type(step) for step in world.plan().steps] == [StopRank, StopRank]


# --- coming up -------------------------------------------------------------------------------------

GIB = 2**30
UP: Mapping[str, tuple[dict[str, Any], float]] = {
    "starting": ({"phase": Phase.STARTING}, 120),
    "rendezvous": ({"phase": Phase.RENDEZVOUS}, 150),
    "loading a little": ({"phase": Phase.LOADING, "total_bytes": 50_000_000}, 61),
    "loading much": ({"phase": Phase.LOADING, "total_bytes": 50_000_000_000}, 1060),
    "loading more than there is time for": ({"phase": Phase.LOADING, "total_bytes": 400 * GIB}, 1800),
    "warm": ({"phase": Phase.WARM}, 120),
}


@pytest.mark.parametrize("report", UP)
def test_a_phase_may_stand_still_for_so_long(report: str) -> None:
    fields, allowed = UP[report]
    world = settled()
    world.report(FIRST, **fields, silent_seconds=allowed)
    assert world.plan().steps == ()
    world.report(FIRST, silent_seconds=allowed + 1)
    step = world.forming()
    assert step.cause is Cause.OVERDUE
    assert step.detail == (
        f"rank 0 on node-a is {fields['phase']} and shows no progress for {allowed + 1:.0f} s, "
        f"at most {allowed:.0f} s are allowed"
    )
    assert step.fault is FaultClass.SILENT_HANG


def test_loading_is_not_failing_but_ends_at_the_deadline() -> None:
    world = settled(health={"progressDeadline": "10m"})
    world.report(FIRST, phase=Phase.LOADING, age_seconds=599.0)
    assert world.plan().steps == ()
    world.report(FIRST, age_seconds=601.0)
    step = world.forming()
    assert step.detail == "rank 0 on node-a is still loading after 601 s, at most 600 s are allowed"


def test_a_rank_that_waits_for_a_slower_one_is_not_overdue() -> None:
    world = settled()
    world.report(FIRST, phase=Phase.LOADING, total_bytes=50_000_000_000, silent_seconds=500.0)
    world.report(SECOND, phase=Phase.WARM, silent_seconds=1000.0)
    assert world.plan().steps == ()


@pytest.mark.parametrize(
    ("behind", "ahead"),
    [*itertools.pairwise((Phase.STARTING, Phase.RENDEZVOUS, Phase.VERBS, Phase.LOADING, Phase.WARM))],
)
def test_of_ranks_that_come_up_too_slowly_the_one_that_is_furthest_behind_is_blamed(
    behind: str, ahead: str
) -> None:
    world = settled()
    world.report(FIRST, phase=ahead, age_seconds=1801.0)
    world.report(SECOND, phase=behind, age_seconds=1801.0)
    assert world.forming().detail == (
        f"rank 1 on node-b is still {behind} after 1801 s, at most 1800 s are allowed"
    )


def test_a_group_that_serves_has_no_deadline() -> None:
    world = settled()
    for rank in (FIRST, SECOND):
        world.report(rank, age_seconds=1e6)
    assert world.plan() == Plan()


# --- a firewall ------------------------------------------------------------------------------------


def looking(first: float, second: float, **of_second: Any) -> World:
    """A group that has never served, whose ranks have looked for each other for so long; a firewall is on."""
    world = settled()
    world.groups[world.replica()] = replace(world.group(), proven_at=None)
    world.facts[NodeName("node-b")] = MachineFacts(firewall=True)
    world.report(FIRST, phase=Phase.RENDEZVOUS, silent_seconds=first)
    world.report(SECOND, **{"phase": Phase.RENDEZVOUS, "silent_seconds": second, **of_second})
    return world


def test_ranks_behind_a_firewall_look_for_each_other_no_longer_than_they_need() -> None:
    world = looking(first=60.0, second=deadlines.MEETING_SECONDS)
    step = world.plan().steps[0]
    assert isinstance(step, AllocateEpoch)
    assert (step.cause, step.fault) == (Cause.RANKS_APART, FaultClass.RENDEZVOUS)


def test_ranks_that_may_meet_yet_are_waited_for() -> None:
    waited_for = [
        looking(first=60.0, second=deadlines.MEETING_SECONDS - 1),
        looking(first=60.0, second=60.0, phase=Phase.STARTING),
        looking(first=60.0, second=60.0, phase=Phase.LOADING),
    ]
    cut_off = looking(first=60.0, second=60.0)
    cut_off.facts[NodeName("node-b")] = MachineFacts(firewall=False)
    for world in (*waited_for, cut_off):
        assert world.plan().steps == ()


def test_behind_a_firewall_a_rank_that_is_not_started_yet_is_waited_for() -> None:
    world = looking(first=60.0, second=60.0)
    del world.ranks[SECOND]
    assert {type(step) for step in world.plan().steps} == {StartRank}


# --- the spec --------------------------------------------------------------------------------------


def test_a_change_of_health_restarts_nothing() -> None:
    patient, impatient = deployment(), deployment(health={"stallAfter": "3s"})
    assert hash_of(patient.spec, model()) == hash_of(impatient.spec, model())
    world = settled()
    world.manifests[-1] = impatient
    assert world.plan() == Plan()


def test_every_rank_that_starts_has_the_rendezvous_that_its_deadline_knows() -> None:
    world = two_nodes()
    world.settle()
    seconds = {s.spec.config.rendezvous_seconds for s in world.history if isinstance(s, StartRank)}
    assert seconds == {deadlines.RENDEZVOUS_SECONDS}
