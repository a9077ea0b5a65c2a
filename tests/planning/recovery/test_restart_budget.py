"""The back-off and the budget of restarts: when a group that died is formed again, and what is said until then."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reconciler.planning.recovery import restart_budget
from reconciler.resources import Manifest
from reconciler.state import (
    AllocateEpoch,
    NodeName,
    ObjectKey,
    Plan,
    Refusal,
    RefusedBecause,
    Standing,
    WaitingFor,
)
from reconciler.wire.launch import ExitCode, Phase, RankId
from tests.examples import examples
from tests.worlds import World, deployment, model, node, two_nodes

HALF_HOUR = 1800.0


def small() -> World:
    """One rank is enough to die."""
    return World([node("node-a"), model(), deployment(nodes=1)])


def crash(world: World, lived: float = 0.0, **how: int) -> None:
    """Rank 0 of the current group ends, so long after it was started."""
    world.now += lived
    epoch = world.groups[world.replica()].epoch
    world.end_rank(RankId("tiny", 0, epoch, 0), **(how or {"code": 1}))


def restarts(world: World) -> list[float]:
    """When it was formed again because something was wrong."""
    return [
        step.group.created_at for step in world.history if isinstance(step, AllocateEpoch) and step.counted
    ]


def serves(world: World) -> bool:
    record = world.groups.get(world.replica())
    return record is not None and record.proven_at is not None and bool(world.alive())


def heal(world: World, seconds: float = 2 * HALF_HOUR) -> float:
    """Let time pass until it serves again; how long that took."""
    began = world.now
    plan = world.settle()
    while not serves(world):
        untils = [waiting.until for waiting in plan.waiting if waiting.until is not None]
        assert untils, f"it waits for nothing: {plan}"
        world.now = max(world.now, min(untils))
        assert world.now - began <= seconds, f"wedged: {plan}"
        plan = world.settle()
    return world.now - began


def spent(world: World | None = None) -> World:
    """A replica whose budget is used up by crashes, one at once after the other."""
    world = world or small()
    world.settle()
    for _ in range(restart_budget.RESTARTS_MAX):
        crash(world)
        heal(world)
    crash(world)
    return world


def apply(world: World, manifest: Manifest) -> None:
    """A commit changes one object."""
    key = ObjectKey(manifest.kind, manifest.metadata.name)
    keys = [ObjectKey(m.kind, m.metadata.name) for m in world.manifests]
    world.manifests[keys.index(key)] = manifest
    world.generations[key] = world.generations.get(key, 1) + 1


def refused(plan: Plan) -> Refusal:
    (refusal,) = plan.refused
    return refusal


def test_a_group_that_keeps_dying_is_restarted_more_and_more_slowly_and_then_twice_an_hour() -> None:
    world = small()
    world.settle()
    delays = []
    for _ in range(9):
        crash(world)
        delays.append(heal(world))
    assert delays[:5] == pytest.approx([0, 1, 2, 4, 8], rel=0.1)
    assert delays[5:] == pytest.approx([HALF_HOUR] * 4)
    assert len(set(delays[:5])) == 5
    assert delays[1:5] != [1, 2, 4, 8], "everybody comes back in the same moment"


def test_the_budget_that_is_used_up_says_how_often_why_until_when_and_what_to_do() -> None:
    world = spent()
    plan = world.settle()
    refusal = refused(plan)
    assert refusal.reason is RefusedBecause.RESTARTS_SPENT
    assert refusal.text.startswith(
        "formed again 5 times in 14 s, the last after rank 0 on node-a (epoch 6, pid "
    )
    assert "exited with 1 (UnexpectedError)" in refusal.text
    assert "the next attempt is made at 00:46:5" in refusal.text
    assert refusal.text.endswith("reconciler rollout restart deployment/tiny")
    (waiting,) = plan.waiting
    assert waiting.reason is WaitingFor.BACK_OFF
    assert waiting.until == pytest.approx(world.now + HALF_HOUR)
    assert len(plan.troubles) == 1


def test_a_wait_that_is_long_enough_to_be_looked_at_says_how_to_end_it() -> None:
    world, told = small(), []
    world.settle()
    for restart in range(7):
        world.boots[NodeName("node-a")] = f"boot-{restart}"
        crash(world)
        plan = world.settle()
        told += [waiting.text for waiting in plan.waiting if waiting.reason is WaitingFor.BACK_OFF]
        heal(world)
    said = ["reconciler rollout restart deployment/tiny" in text for text in told]
    assert said == sorted(said)
    assert set(said) == {False, True}


def test_it_stays_refused_while_it_is_tried_once_more_and_no_longer_than_that() -> None:
    world = spent()
    (waiting,) = world.settle().waiting
    assert waiting.until is not None
    world.now = waiting.until
    world.first_phase = Phase.LOADING
    plan = world.settle()
    assert refused(plan).reason is RefusedBecause.RESTARTS_SPENT
    assert "it is being tried once more" in refused(plan).text
    (rank,) = world.alive()
    world.report(rank, phase=Phase.READY)
    assert world.settle() == Plan()


def test_what_the_last_failure_printed_is_kept_until_a_group_serves() -> None:
    world = spent()
    world.settle()
    failed = RankId("tiny", 0, world.groups[world.replica()].epoch, 0)
    world.first_phase = Phase.LOADING
    for context in (512, 1024, 2048):
        apply(world, deployment(nodes=1, serving={"context": context}))
        world.settle()
    assert failed in world.ranks, "three groups later nothing has served yet"
    (rank,) = world.alive()
    world.report(rank, phase=Phase.READY)
    world.settle()
    assert failed not in world.ranks


def test_another_controller_comes_to_the_same_verdict() -> None:
    world = spent()
    plan = world.settle()
    world.restart_controller()
    assert world.plan() == plan


@pytest.mark.parametrize(
    "manifest",
    [
        deployment(nodes=1, serving={"context": 1024}),
        deployment(nodes=1, restartedAt="2030-01-01T00:00:00Z"),
        model(trusted=True),
    ],
    ids=["serving", "rollout restart", "model"],
)
def test_another_wish_is_tried_at_once_and_begins_anew(manifest: Manifest) -> None:
    world = spent()
    world.settle()
    apply(world, manifest)
    assert world.settle() == Plan()
    assert serves(world)
    crash(world)
    assert heal(world) == 0


def test_a_generation_that_needs_no_other_group_begins_anew_too() -> None:
    world = spent()
    world.settle()
    world.generations = {world.replica().key: 2}
    assert world.settle() == Plan()
    assert serves(world)


def test_a_long_healthy_life_earns_an_immediate_restart() -> None:
    world = small()
    world.settle()
    for _ in range(4):
        crash(world)
        heal(world)
    crash(world, lived=599)
    assert formed(world).standing is Standing.NORMAL
    heal(world)
    crash(world, lived=601)
    assert formed(world).standing is Standing.FRESH
    assert heal(world) == 0
    world.now += HALF_HOUR  # what was before does not count any more either
    crash(world)
    assert heal(world) == 0
    crash(world)
    assert heal(world) == pytest.approx(1, rel=0.1)


def test_lives_of_ten_minutes_between_crashes_do_not_outrun_the_budget() -> None:
    world = small()
    world.settle()
    for _ in range(restart_budget.RESTARTS_MAX):
        crash(world)
        heal(world)
    crash(world, lived=601)
    assert heal(world) == 0
    began = restarts(world)[0]
    crash(world, lived=601)
    assert refused(world.settle()).reason is RefusedBecause.RESTARTS_SPENT
    heal(world)
    assert world.now == pytest.approx(began + HALF_HOUR)


def test_a_used_up_budget_is_remembered_for_longer_than_the_store_keeps_each_attempt() -> None:
    world = spent()
    heal(world)
    for _ in range(60):
        crash(world)
        assert heal(world) == pytest.approx(HALF_HOUR)


def test_a_group_that_comes_up_slowly_has_to_live_twice_as_long() -> None:
    world = small()
    world.settle()
    crash(world)
    world.first_phase = Phase.LOADING
    world.settle()
    world.now += 900
    (rank,) = world.alive()
    world.report(rank, phase=Phase.READY)
    world.first_phase = Phase.READY
    world.settle()
    crash(world, lived=1700)
    step = formed(world)
    assert step.standing is Standing.NORMAL
    world = small()
    world.settle()
    crash(world, lived=1900)
    assert formed(world).standing is Standing.FRESH


def formed(world: World) -> AllocateEpoch:
    (step,) = world.plan().steps
    assert isinstance(step, AllocateEpoch)
    return step


def test_how_long_a_rank_lived_is_told_by_its_own_node() -> None:
    """Its node's clock is an hour behind, and the controller was away when it died."""
    world = small()
    world.settle()
    crash(world)
    heal(world)
    (rank,) = world.alive()
    crash(world, lived=60)
    place, report = world.ranks[rank]
    assert report.exit is not None
    ended = replace(report.exit, at=report.exit.at - 3600)
    world.ranks[rank] = (place, replace(report, started_at=report.started_at - 3600, exit=ended))
    world.now += 7200
    assert formed(world).standing is Standing.NORMAL
    world = small()
    world.settle()
    (rank,) = world.alive()
    crash(world, lived=700)
    place, report = world.ranks[rank]
    assert report.exit is not None
    ended = replace(report.exit, at=report.exit.at - 3600)
    world.ranks[rank] = (place, replace(report, started_at=report.started_at - 3600, exit=ended))
    assert formed(world).standing is Standing.FRESH


def test_what_people_plan_is_not_charged() -> None:
    world = two_nodes(nodes={"min": 1, "max": 2})
    world.settle()
    for at in range(12):
        apply(world, node("node-b", drain=at % 2 == 0))
        world.manifests[3] = deployment(nodes={"min": 1, "max": 2}, serving={"context": 1024 + at})
        world.settle()
    assert serves(world)
    assert restarts(world) == []
    crash(world)
    assert heal(world) == 0


def test_a_rank_that_is_gone_without_a_trace_is_a_restart_like_any_other() -> None:
    world = small()
    world.settle()
    for _ in range(restart_budget.RESTARTS_MAX):
        del world.ranks[world.alive()[0]]
        heal(world)
    del world.ranks[world.alive()[0]]
    assert refused(world.settle()).reason is RefusedBecause.RESTARTS_SPENT


@pytest.mark.parametrize("code", [ExitCode.MEMORY, ExitCode.WEIGHTS, ExitCode.CONFIG])
def test_what_another_attempt_cannot_change_is_not_tried_unchanged(code: int) -> None:
    world = small()
    world.first_phase = Phase.LOADING
    world.settle()
    crash(world, code=code)
    plan = world.settle()
    assert refused(plan).reason is RefusedBecause.RANK_REFUSES
    assert plan.waiting == ()
    world.now += 1e6
    assert world.plan() == plan
    world.first_phase = Phase.READY
    apply(world, deployment(nodes=1, serving={"maxBatch": 1}))
    assert world.settle() == Plan()


def test_a_lost_store_is_bearable() -> None:
    world = spent()
    world.settle()
    world.lose_store()
    assert world.settle() == Plan()
    crash(world)
    assert heal(world) == 0


# --- clocks ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("jump", [-3600.0, -1e7, 3600.0, 1e7])
def test_a_clock_that_jumps_costs_one_attempt_and_resets_nothing(jump: float) -> None:
    world = spent()
    world.settle()
    world.now += jump
    assert heal(world) == 0
    crash(world)
    assert heal(world) == pytest.approx(HALF_HOUR)


def test_when_the_clock_comes_to_the_time_of_an_early_attempt_again_that_is_not_waited_for() -> None:
    world = spent()
    early = world.attempts[world.replica()][0].at
    world.now = early - 2 * HALF_HOUR
    assert heal(world) == 0
    for _ in range(2):
        crash(world)
        assert heal(world) == pytest.approx(HALF_HOUR)


def test_a_clock_that_is_put_right_by_seconds_costs_nothing() -> None:
    world = spent()
    (before,) = world.settle().waiting
    world.now -= 30
    (waiting,) = world.settle().waiting
    assert waiting == before


def test_attempts_from_a_time_to_come_do_not_keep_a_replica_waiting() -> None:
    """The clock was wrong by years when they were made."""
    world = small()
    world.now += 1e9
    world = spent(world)
    world.now -= 1e9
    assert heal(world) == 0


# --- whatever happens ------------------------------------------------------------------------------

LIVES = st.one_of(st.sampled_from([0.0, 1.0, 30.0, 250.0, 599.0, 601.0, 1300.0]), st.floats(0, 4000))


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(st.tuples(LIVES, st.sampled_from([1, ExitCode.DIVERGED, ExitCode.PEER_LOST])), max_size=14))
def test_no_half_hour_has_more_restarts_than_the_budget_and_one(crashes: list[tuple[float, int]]) -> None:
    world = small()
    world.settle()
    for lived, code in crashes:
        crash(world, lived, code=code)
        heal(world, HALF_HOUR + 1)
    formed_at = restarts(world)
    for at in formed_at:
        assert sum(at <= other < at + HALF_HOUR for other in formed_at) <= restart_budget.RESTARTS_MAX + 1


@settings(max_examples=examples(25), deadline=None)
@given(st.lists(st.floats(0, 590), min_size=1, max_size=10), st.integers(0, 2**16))
def test_a_used_up_budget_gives_one_restart_in_half_an_hour_for_as_long_as_nothing_lives(
    lives: list[float], begin: int
) -> None:
    world = small()
    world.now += begin
    world = spent(world)
    before = len(restarts(world))
    heal(world)
    for lived in lives:
        crash(world, lived)
        heal(world, HALF_HOUR + 1)
    slow = restarts(world)[before - 1 :]
    gaps = [later - earlier for earlier, later in pairwise(slow)]
    assert min(gaps) >= HALF_HOUR - 1e-6
    assert {attempt.standing for attempt in world.attempts[world.replica()][-len(lives) :]} == {Standing.SLOW}


def _go_on(world: World, seconds: float) -> None:
    world.now += seconds


def _set_clock(world: World, seconds: float) -> None:
    world.now += (seconds - 3000) * 1000


def _crash(world: World, seconds: float) -> None:
    if world.alive():
        crash(world, seconds / 4)


def _settle(world: World, seconds: float) -> None:
    world.settle()


def _forget(world: World, seconds: float) -> None:
    world.restart_controller()


DOINGS: list[Callable[[World, float], None]] = [_go_on, _set_clock, _crash, _crash, _settle, _settle, _forget]


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(st.tuples(st.sampled_from(DOINGS), st.floats(0, 6000)), max_size=20))
def test_whatever_clocks_and_crashes_do_it_serves_again_within_the_bound(
    history: list[tuple[Callable[[World, float], None], float]],
) -> None:
    world = small()
    world.settle()
    for act, seconds in history:
        act(world, seconds)
    heal(world, HALF_HOUR + 130)
    crash(world)
    world.settle()
    apply(world, deployment(nodes=1, serving={"context": 512}))
    assert world.settle() == Plan(), "another spec does not wait"
    assert serves(world)
