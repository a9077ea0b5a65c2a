"""A slice of what ``make faults`` and ``make fuzz-faults`` do in full."""

from __future__ import annotations

import random

import pytest

from tests.simulation.schedules.exhaustive import sweep
from tests.simulation.schedules.fuzz import GOOD_CLIENTS, KINDS, POINT_FAULTS, Schedule, schedule
from tests.simulation.schedules.play import faultless, play
from tests.simulation.schedules.points import Points
from tests.simulation.schedules.scenarios import SCENARIOS

from .world import world

pytestmark = pytest.mark.processes

NAMES = sorted(SCENARIOS)
PARTS = [
    *((name, 285) for name in NAMES[::6]),
    *(pytest.param(name, 115, marks=pytest.mark.second_tier) for name in NAMES),
]
"""Every so many points of some scenarios, or of all, are tried here with every fault; all points by ``make faults``."""
SEEDS = [range(1, 7), pytest.param(range(7, 37), marks=pytest.mark.second_tier)]


@pytest.mark.second_tier
@pytest.mark.parametrize("name", NAMES)
def test_every_scenario_ends_well_with_many_points_and_the_same_seed_runs_it_in_the_same_way(
    name: str,
) -> None:
    first, second = faultless(SCENARIOS[name]), play(SCENARIOS[name], Points())
    assert first.violations == []
    assert first.points >= 80
    assert first.trace_hash == second.trace_hash
    assert first.notes == second.notes


@pytest.mark.parametrize(("name", "parts"), PARTS)
def test_no_fault_at_some_of_the_points_does_harm(name: str, parts: int) -> None:
    first = 37 * (1 + NAMES.index(name)) % 80  # another stage of each, and no scenario has fewer points
    tally = sweep(SCENARIOS[name], part=first % parts, parts=parts)
    assert tally.violations == []
    assert tally.plans > 0


@pytest.mark.second_tier
@pytest.mark.parametrize("seeds", SEEDS, ids=lambda seeds: f"{seeds[0]}-{seeds[-1]}")
def test_no_schedule_of_many_faults_does_harm(seeds: range) -> None:
    harmful = {seed: found for seed in seeds if (found := schedule(seed).play().violations)}
    assert harmful == {}


def test_the_same_seed_draws_the_same_faults_and_another_one_others() -> None:
    traces = [schedule(seed, "rank-crash").play().trace_hash for seed in (7, 7, 8)]
    assert traces[0] == traces[1]
    assert traces[0] != traces[2]


def test_a_process_elsewhere_plays_a_seed_in_the_same_way() -> None:
    """Also where an error tells the path of the store, which each process has a temporary folder for."""
    scenario, seed = SCENARIOS["bring-up"], 12
    acts = KINDS["disk-full"](random.Random(seed), scenario, [])  # named, so that a new kind draws no other
    begins = tuple((0.8 + later, "disk-full", act) for later, act in acts)
    tells_of_a_full_disk = Schedule(seed, scenario, max(POINT_FAULTS), begins, max(GOOD_CLIENTS))
    here = tells_of_a_full_disk.play()
    world.place.cache_clear()
    there = tells_of_a_full_disk.play()
    assert any("cannot be written now" in note for note in here.notes)
    assert here.notes == there.notes
    assert here.trace_hash == there.trace_hash


def test_a_fault_can_be_played_again_by_its_number() -> None:
    found = play(SCENARIOS["bring-up"], Points({40: "crash-after"}))
    assert [(number, kind) for number, kind, _ in found.hit] == [(40, "crash-after")]
    assert found.trace_hash == play(SCENARIOS["bring-up"], Points({40: "crash-after"})).trace_hash
