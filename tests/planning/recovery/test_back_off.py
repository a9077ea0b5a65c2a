"""The back-off: when a group that died is formed again, and what is said until then."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reconciler.planning.context.back_off_time import BACK_OFF_SECONDS_MAX
from reconciler.planning.context.memory_ledger import Ledger
from reconciler.planning.context.target import Target
from reconciler.planning.context.view import Formed, look
from reconciler.planning.recovery import back_off
from reconciler.planning.recovery.back_off import PORTS_TAKEN_FREE, SERVED_SECONDS, SHORT_LIVES_FREE
from reconciler.planning.recovery.stalls import CONTINUATIONS_MAX
from reconciler.resources import Manifest
from reconciler.state import (
    AllocateEpoch,
    NodeName,
    ObjectKey,
    Plan,
    Refusal,
    RefusedBecause,
    Suspicion,
    WaitingFor,
)
from reconciler.wire.launch import ExitCode, Phase, RankId
from reconciler.wire.prompts import EndedGroup, QuarantinedPrompt
from tests.examples import examples
from tests.worlds import World, deployment, model, node, settled, two_nodes

HOUR = 3600.0
FREE = SHORT_LIVES_FREE + 1
"""So many early deaths in a row are followed by a group at once."""


def small() -> World:
    """One rank is enough to die."""
    return World([node("node-a"), model(), deployment(nodes=1)])


def crash(world: World, lived: float = 0.0, **how: int) -> None:
    """Rank 0 of the current group ends, so long after it was started."""
    world.now += lived
    epoch = world.group().epoch
    world.end_rank(RankId("tiny", 0, epoch, 0), **(how or {"code": 1}))


def restarts(world: World) -> list[float]:
    """When it was formed again because something was wrong."""
    return [step.group.created_at for step in world.history if isinstance(step, AllocateEpoch) and step.fault]


def up(world: World) -> bool:
    """Whether a group is there, of which no rank has ended."""
    return world.replica() in world.groups and bool(world.alive())


def heal(world: World, seconds: float = HOUR) -> float:
    """Let time pass until it is formed again; how long that took."""
    began = world.now
    plan = world.settle()
    while not up(world):
        untils = [waiting.until for waiting in plan.waiting if waiting.until is not None]
        assert untils, f"it waits for nothing: {plan}"
        world.now = max(world.now, min(untils))
        assert world.now - began <= seconds, f"wedged: {plan}"
        plan = world.settle()
    return world.now - began


def never_comes_up(world: World | None = None) -> World:
    """From now on, groups load and are never ready."""
    world = world or small()
    world.first_phase = Phase.LOADING
    world.settle()
    return world


def looping(world: World | None = None) -> World:
    """A replica that never comes up, and of which that has been said."""
    world = never_comes_up(world)
    for _ in range(10):
        crash(world)
        if any(each.reason is RefusedBecause.CRASH_LOOP for each in world.settle().refused):
            return world
        heal(world)
    raise AssertionError("it was never said")


def comes_up(world: World) -> None:
    """The group that loads is ready after all, and so are later ones."""
    world.first_phase = Phase.READY
    for rank in world.alive():
        world.report(rank, phase=Phase.READY)


def apply(world: World, manifest: Manifest) -> None:
    """A commit changes one object."""
    key = ObjectKey(manifest.kind, manifest.metadata.name)
    keys = [ObjectKey(m.kind, m.metadata.name) for m in world.manifests]
    world.manifests[keys.index(key)] = manifest
    world.generations[key] = world.generations.get(key, 1) + 1


def refused(plan: Plan) -> Refusal:
    (refusal,) = plan.refused
    return refusal


def spread(seconds: list[float]) -> list[object]:
    """The same waits, each up to a tenth longer."""
    return [pytest.approx(each * 1.05, rel=0.05) for each in seconds]


# --- failures to come up -----------------------------------------------------------------------------


def test_a_group_that_never_comes_up_is_tried_more_and_more_slowly_at_last_every_five_minutes() -> None:
    world = never_comes_up()
    delays = []
    for _ in range(9):
        crash(world)
        delays.append(heal(world))
    assert delays[:6] == spread([0, 10, 20, 40, 80, 160])
    assert delays[6:] == [300] * 3
    assert delays[1:6] != [10, 20, 40, 80, 160], "everybody comes back in the same moment"


def test_it_is_started_at_most_twelve_times_an_hour_once_the_back_off_has_grown() -> None:
    world = never_comes_up()
    began = world.now
    while world.now < began + 4 * HOUR:
        crash(world)
        heal(world)
    starts = [at - began for at in restarts(world)]
    assert sum(at < HOUR for at in starts) <= 18
    for first in range(4 * 3600 // 300 - 24):
        hour = HOUR / 2 + 300.0 * first
        assert sum(hour <= at < hour + HOUR for at in starts) <= 12


def test_a_crash_loop_says_how_often_why_until_when_and_what_to_do() -> None:
    world = looping()
    plan = world.settle()
    refusal = refused(plan)
    assert refusal.reason is RefusedBecause.CRASH_LOOP
    assert refusal.text.startswith("formed again 2 times in 1")
    assert "the last after rank 0 on node-a (epoch 3, pid " in refusal.text
    assert "exited with 1 (UnexpectedError)" in refusal.text
    assert "the next attempt is made at 00:17:" in refusal.text
    assert refusal.person.endswith("reconciler rollout restart deployment/tiny")
    (waiting,) = plan.waiting
    assert waiting.reason is WaitingFor.BACK_OFF
    assert waiting.until == pytest.approx(world.now + 21, abs=1)
    assert len(plan.troubles) == 1


def test_it_stays_refused_while_it_is_tried_once_more_and_no_longer_than_that() -> None:
    world = looping()
    (waiting,) = world.settle().waiting
    assert waiting.until is not None
    world.now = waiting.until
    plan = world.settle()
    assert refused(plan).reason is RefusedBecause.CRASH_LOOP
    assert "it is being tried once more" in refused(plan).text
    comes_up(world)
    assert world.settle() == Plan()


def test_nothing_is_said_of_a_group_that_does_not_come_up_once_more_after_a_long_back_off() -> None:
    def said(world: World) -> object:
        seen = world.seen()
        target = Target(world.desired().replicas()[world.replica()], None)
        found = look(seen, Ledger.of(seen), world.replica(), target)
        assert isinstance(found, Formed)
        return back_off.retrying(found)

    world = settled(small())
    assert said(world) == "", "it serves"
    world.first_phase = Phase.LOADING
    crash(world, code=1)
    world.settle()
    assert said(world) == "", "it comes up without a long back-off"
    world = settled(small())
    world.groups[world.replica()] = replace(world.group(), proven_at=None)
    assert said(world) == "", "it comes up for the first time"


def test_a_group_that_is_moved_while_it_is_tried_once_more_has_failed_as_often_as_before() -> None:
    world = looping(two_nodes(nodes=1))
    heal(world)
    (there,) = world.group().members
    apply(world, node(there, drain=True))
    plan = world.settle()
    assert world.group().members != (there,)
    assert refused(plan).reason is RefusedBecause.CRASH_LOOP


def test_what_the_last_failure_printed_is_kept_until_a_group_serves() -> None:
    world = looping()
    failed = RankId("tiny", 0, world.group().epoch, 0)
    for context in (512, 1024, 2048):
        apply(world, deployment(nodes=1, serving={"context": context}))
        world.settle()
    assert failed in world.ranks, "three groups later nothing has served yet"
    comes_up(world)
    world.settle()
    assert failed not in world.ranks


def test_a_rank_that_is_gone_without_a_trace_is_a_failure_like_any_other() -> None:
    world = settled(small())
    for _ in range(FREE):
        del world.ranks[world.alive()[0]]
        assert heal(world) == 0
    del world.ranks[world.alive()[0]]
    assert heal(world) == spread([10])[0]


def test_each_class_of_faults_has_its_own_back_off() -> None:
    world = never_comes_up()
    for _ in range(4):
        crash(world, code=1)
        heal(world)
    crash(world, code=ExitCode.WRONG_GROUP)
    assert heal(world) == 0, "the ranks met the wrong group for the first time"
    crash(world, code=1)
    assert heal(world) == spread([80])[0], "and what was before is not forgotten"


# --- deaths of groups that served ----------------------------------------------------------------------


def test_six_deaths_in_a_row_are_followed_by_a_group_at_once_and_further_ones_are_not() -> None:
    world = settled(small())
    delays = []
    for _ in range(13):
        crash(world, lived=SERVED_SECONDS - 1)
        delays.append(heal(world))
    assert delays[:FREE] == [0] * 6
    late = [max(0.0, each - SERVED_SECONDS + 1) for each in (10.5, 21, 42, 84, 168, 300, 300)]
    assert delays[FREE:] == [pytest.approx(each, abs=0.1 * each + 1.5) for each in late]


def test_a_group_that_served_is_formed_again_at_once_however_often_it_dies() -> None:
    world = settled(small())
    for _ in range(60):
        crash(world, lived=100)
        assert heal(world) == 0
    assert world.settle().refused == ()


def test_what_was_before_a_group_that_served_is_forgiven() -> None:
    world = looping()
    heal(world)
    comes_up(world)
    world.settle()
    crash(world, lived=SERVED_SECONDS)
    assert heal(world) == 0
    crash(world)
    assert heal(world) == 0


def test_how_long_a_rank_lived_is_told_by_its_own_node() -> None:
    """Its node's clock is an hour behind, and the controller was away when it died."""
    world = settled(small())
    (rank,) = world.alive()
    crash(world, lived=20)
    place, report = world.ranks[rank]
    assert report.exit is not None
    ended = replace(report.exit, at=report.exit.at - 3600)
    world.ranks[rank] = (place, replace(report, started_at=report.started_at - 3600, exit=ended))
    world.now += 7200
    assert world.forming().served == pytest.approx(20)


def test_a_death_that_a_request_brought_about_is_not_charged() -> None:
    world = settled(small())
    for _ in range(FREE + 6):
        epoch = world.group().epoch
        world.quarantined = (
            *world.quarantined,
            QuarantinedPrompt("tiny", f"{epoch}", "req", "", (EndedGroup(0, epoch),), world.now, 1e9),
        )
        crash(world)
        assert heal(world) == 0
    crash(world)
    assert heal(world) == 0, "the first that is"


@pytest.mark.parametrize(
    ("how", "expected"),
    [
        ({"code": 1}, Suspicion.STRONG),
        ({"signal": 6}, Suspicion.STRONG),
        ({"code": ExitCode.MEMORY}, Suspicion.STRONG),
        ({"signal": 9}, Suspicion.FAINT),
        ({"code": ExitCode.PEER_LOST}, Suspicion.FAINT),
        ({"code": ExitCode.WRONG_GROUP}, Suspicion.NONE),
    ],
    ids=["error", "abort", "memory", "kill", "peer", "wrong group"],
)
def test_the_end_of_a_group_says_how_much_it_points_to_a_request(
    how: dict[str, int], expected: Suspicion
) -> None:
    world = settled(small())
    crash(world, lived=60, **how)
    assert world.forming().suspicion is expected


def hang(world: World) -> None:
    for rank in world.alive():
        world.report(rank, demand=1, silent_seconds=90.0)


def test_a_group_that_hangs_points_to_what_it_was_asked() -> None:
    world = settled(two_nodes())
    hang(world)
    assert world.forming().suspicion is Suspicion.STRONG


def test_it_does_so_too_when_its_ranks_have_been_ended_by_the_time_that_it_is_formed_again() -> None:
    world = settled(two_nodes())
    for _ in range(FREE + 1):
        hang(world)
        plan = world.settle()
    assert world.alive() == []
    (waiting,) = plan.waiting
    assert waiting.until is not None
    world.now = waiting.until
    assert world.forming().suspicion is Suspicion.STRONG


def test_a_rank_that_is_gone_without_a_trace_hardly_points_to_a_request() -> None:
    world = settled(two_nodes())
    del world.ranks[world.alive()[1]]
    assert world.forming().suspicion is Suspicion.FAINT


@pytest.mark.parametrize(
    ("stopped", "expected"), [(False, Suspicion.STRONG), (True, Suspicion.FAINT)], ids=["no", "yes"]
)
def test_where_somebody_has_stopped_a_rank_a_request_is_hardly_to_blame(
    stopped: bool, expected: Suspicion
) -> None:
    world = settled(two_nodes())
    first, second = world.alive()
    world.report(first, stopped=stopped)
    world.continued[first] = (world.now,) * CONTINUATIONS_MAX  # it is not merely stopped
    world.end_rank(second, code=1)
    (step,) = [step for step in world.plan().steps if isinstance(step, AllocateEpoch)]
    assert step.suspicion is expected


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(119, "119 s"), (120, "2 minutes"), (7199, "120 minutes"), (7200, "2 hours")],
)
def test_how_long_it_has_gone_on_is_told_in_the_unit_that_fits(seconds: float, text: str) -> None:
    assert back_off._duration_text(seconds) == text


def test_a_port_in_use_is_chance_and_charged_to_nobody_until_it_goes_on() -> None:
    world, code = never_comes_up(), ExitCode.PORT_IN_USE
    waited = []
    for _ in range(PORTS_TAKEN_FREE + 3):
        crash(world, code=code)
        waited.append(heal(world))
    assert waited == spread([0.0] * (PORTS_TAKEN_FREE + 1) + [10.0, 20.0])
    ports = [step.group.port for step in world.done(AllocateEpoch)]
    assert len(set(ports)) == len(ports)


def test_a_port_in_use_makes_no_later_failure_wait_longer() -> None:
    world = never_comes_up()
    for _ in range(PORTS_TAKEN_FREE):
        crash(world, code=ExitCode.PORT_IN_USE)
        assert heal(world) == 0.0
    crash(world, code=ExitCode.RENDEZVOUS)
    assert heal(world) == 0.0
    crash(world, code=ExitCode.RENDEZVOUS)
    assert [heal(world)] == spread([10.0])


def test_what_people_plan_is_no_failure() -> None:
    world = settled(two_nodes(nodes={"min": 1, "max": 2}))
    for at in range(12):
        apply(world, node("node-b", drain=at % 2 == 0))
        world.manifests[3] = deployment(nodes={"min": 1, "max": 2}, serving={"context": 1024 + at})
        world.settle()
    assert up(world)
    assert restarts(world) == []
    crash(world)
    assert heal(world) == 0


@pytest.mark.parametrize("code", [ExitCode.MEMORY, ExitCode.WEIGHTS, ExitCode.CONFIG])
def test_what_another_attempt_cannot_change_is_not_tried_unchanged(code: int) -> None:
    world = never_comes_up()
    crash(world, code=code)
    plan = world.settle()
    assert refused(plan).reason is RefusedBecause.RANK_REFUSES
    assert plan.waiting == ()
    world.now += 1e6
    assert world.plan() == plan
    world.first_phase = Phase.READY
    apply(world, deployment(nodes=1, serving={"maxBatch": 1}))
    assert world.settle() == Plan()


def test_a_group_that_served_and_ran_out_of_memory_is_formed_again() -> None:
    """What it was asked was too much, and not what it holds: everybody else is still to be answered."""
    world = settled(small())
    crash(world, code=ExitCode.MEMORY)
    assert heal(world) == 0


# --- what begins anew ---------------------------------------------------------------------------------


def test_another_controller_comes_to_the_same_verdict() -> None:
    world = looping()
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
    world = looping()
    apply(world, manifest)
    world.settle()
    assert up(world)
    crash(world)
    assert heal(world) == 0


def test_a_generation_that_needs_no_other_group_begins_anew_too() -> None:
    world = looping()
    world.generations = {world.replica().key: 2}
    world.settle()
    assert up(world)


def test_a_lost_store_is_bearable() -> None:
    world = looping()
    world.lose_store()
    world.settle()
    assert up(world)
    crash(world)
    assert heal(world) == 0


# --- clocks -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("jump", [-3600.0, -1e7, 3600.0, 1e7])
def test_a_clock_that_jumps_costs_one_attempt_and_resets_nothing(jump: float) -> None:
    world = looping()
    world.now += jump
    assert heal(world) == 0
    crash(world)
    assert heal(world) == spread([40])[0]


def test_when_the_clock_comes_to_the_time_of_an_early_attempt_again_that_is_not_waited_for() -> None:
    world = looping()
    early = world.attempts[world.replica()][0].at
    world.now = early - HOUR
    assert heal(world) == 0
    for seconds in (40, 80):
        crash(world)
        assert heal(world) == spread([seconds])[0]


def test_a_clock_that_is_put_right_by_seconds_costs_nothing() -> None:
    world = looping()
    (before,) = world.settle().waiting
    world.now -= 30
    (waiting,) = world.settle().waiting
    assert waiting == before


def test_attempts_from_a_time_to_come_do_not_keep_a_replica_waiting() -> None:
    """The clock was wrong by years when they were made."""
    world = small()
    world.now += 1e9
    world = looping(world)
    world.now -= 1e9
    assert heal(world) == 0


# --- whatever happens ---------------------------------------------------------------------------------

LIVES = st.one_of(st.sampled_from([0.0, 1.0, 29.0, 30.0, 31.0, 250.0]), st.floats(0, 4000))
CODES = st.sampled_from([1, ExitCode.WRONG_GROUP, ExitCode.RENDEZVOUS, -6, -9])


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(st.tuples(LIVES, CODES, st.booleans()), max_size=25))
def test_no_wait_is_longer_than_five_minutes_and_none_follows_a_group_that_served(
    lives: list[tuple[float, int, bool]],
) -> None:
    world = settled(small())
    for lived, code, ready in lives:
        comes_up(world) if ready else None
        world.settle()
        proven = world.group().proven_at
        crash(world, lived, **({"signal": -code} if code < 0 else {"code": code}))
        world.first_phase = Phase.LOADING
        waited = heal(world, BACK_OFF_SECONDS_MAX)
        assert waited == 0 or proven is None or world.now - waited - proven < SERVED_SECONDS


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


def _load(world: World, seconds: float) -> None:
    world.first_phase = Phase.LOADING


DOINGS: list[Callable[[World, float], None]] = [
    _go_on, _set_clock, _crash, _crash, _settle, _settle, _forget, _load
]  # fmt: skip


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(st.tuples(st.sampled_from(DOINGS), st.floats(0, 6000)), max_size=20))
def test_whatever_clocks_and_crashes_do_it_is_formed_again_within_the_bound(
    history: list[tuple[Callable[[World, float], None], float]],
) -> None:
    world = settled(small())
    for act, seconds in history:
        act(world, seconds)
    heal(world, BACK_OFF_SECONDS_MAX + 130)
    comes_up(world)
    world.settle()
    crash(world)
    world.settle()
    apply(world, deployment(nodes=1, serving={"context": 512}))
    assert world.settle() == Plan(), "another spec does not wait"
    assert world.group().proven_at is not None
    assert NodeName("node-a") in world.group().members
