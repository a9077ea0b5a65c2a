"""The bounds bite: where the product waits, asks or is away for too long, the simulator says so."""

from __future__ import annotations

from collections import Counter

import pytest

from reconciler import incidents
from reconciler.execution import executor
from reconciler.planning.context.world import World as Planned
from reconciler.planning.recovery import back_off
from reconciler.planning.recovery.back_off import RestartLater, RestartNow
from reconciler.state import WaitingFor
from tests.simulation.schedules.acts import crash, fit, stranger, unfit
from tests.simulation.schedules.days import judge_asked
from tests.simulation.schedules.fuzz import KINDS, apply
from tests.simulation.schedules.scenarios import Scenario, big, cluster, small, wide
from tests.simulation.world.rest import rest
from tests.worlds import deployment

from .bounds import SERVICE_LOST_SECONDS, UNTOLD_SECONDS, WAITING_SECONDS
from .ends import missing, told
from .up import up

DAY_SECONDS = 86_400.0


def test_a_group_that_is_away_for_longer_than_its_fault_explains(monkeypatch: pytest.MonkeyPatch) -> None:
    world = up()
    apply(world, "rank-crash", crash("big", 0, 1))
    world.run(60.0)
    assert world.oracles.violations == []
    assert 0.5 < world.oracles.service.longest < 20.0
    late = world.wall() + 100.0
    monkeypatch.setattr(
        back_off,
        "verdict",
        lambda view, fault: RestartLater(late) if view.world.now < late else RestartNow(),
    )
    apply(world, "rank-crash", crash("big", 0, 1))
    world.run(120.0)
    (found,) = world.oracles.violations
    assert "big/0 was out of service for 10" in found
    assert "explained by rank-crash, rank-crash" in found


def test_a_group_that_goes_out_of_service_without_any_fault() -> None:
    world = up()
    rank = world.rank("small", 0, 0)
    assert rank is not None
    rank.machine.load_seconds = 60.0
    crash("small", 0, 0)(world)
    world.run(120.0)
    assert any("40 s are explained by nothing" in text for text in world.oracles.violations)


@pytest.mark.parametrize("told", [True, False])
def test_a_deployment_that_nothing_can_serve_and_nobody_is_told_of(
    monkeypatch: pytest.MonkeyPatch, told: bool
) -> None:
    if not told:
        monkeypatch.setattr(incidents, "unserved", lambda *of: ())
    world = up()
    huge = deployment("huge", nodes=1, serving={"kvCache": "4TiB"})
    world.commit((*cluster(big(), small(), wide()), huge))
    world.run(UNTOLD_SECONDS + 30.0)
    untold = [text for text in world.oracles.violations if "nothing serves huge for" in text]
    assert len(untold) == (0 if told else 1)


def test_something_that_is_waited_for_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    world = up()
    monkeypatch.setattr(Planned, "seen_since_last_write", lambda self, name: False)
    world.run(90.0)
    assert any("(StaleObservation)" in text for text in world.oracles.violations)


def test_a_request_that_is_repeated_at_once_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executor, "RETRY_SECONDS_MAX", executor.RETRY_SECONDS_MIN)
    world = up()
    rank = world.rank("small", 0, 0)
    assert rank is not None
    for machine in world.machines.values():
        machine.disk.full = machine is rank.machine
    crash("small", 0, 0)(world)
    world.run(20.0)
    assert any("is asked 24 times within ten minutes" in text for text in world.oracles.violations)


@pytest.mark.parametrize("remembers", [True, False])
def test_a_person_who_is_asked_twice_for_one_fault(monkeypatch: pytest.MonkeyPatch, remembers: bool) -> None:
    if not remembers:
        monkeypatch.setattr(incidents, "REOPENED_WITHIN_SECONDS", 0.0)
    world = up(Scenario("leaking", cluster(wide()), system="Darwin"))
    for _ in range(2):
        unfit("b", wired_excess_bytes=20 * 2**30)(world)
        world.run(25.0)
        fit("b", wired_excess_bytes=0)(world)
        world.run(25.0)
    asked = judge_asked(world, Counter())
    assert asked == told(world)
    assert bool(world.oracles.violations) is not remembers
    judge_asked(world, asked)
    assert len(world.oracles.violations) <= 1


def test_a_port_that_a_stranger_has_taken_costs_one_more_start_and_nothing_else() -> None:
    world = up()
    rank = world.rank("big", 0, 1)
    assert rank is not None
    apply(world, "stranger", stranger(rank.node, 1))
    crash("big", 0, 1)(world)
    world.run(60.0)
    assert missing(world) == ""
    assert world.oracles.violations == []
    assert any("is in use by another" in note for note in world.notes)
    memory = world.memory()
    assert memory is not None
    assert not memory.transport_failures
    assert told(world) == Counter()


def test_days_pass_in_which_nothing_is_done_and_no_clock_seems_to_have_a_gap() -> None:
    world = up()
    world.points.steps.clear()
    rest(world, world.loop.now + 3 * DAY_SECONDS)
    assert world.points.steps == []
    assert missing(world) == ""
    world.jump(3600.0)
    rest(world, world.loop.now + DAY_SECONDS)
    assert "store: renew" in world.points.steps


def test_every_fault_and_every_reason_to_wait_has_its_bound() -> None:
    assert SERVICE_LOST_SECONDS.keys() >= KINDS.keys()
    had = {WaitingFor.RUNTIME, WaitingFor.WEIGHTS}  # by every simulated machine
    assert WAITING_SECONDS.keys() == set(WaitingFor) - had
