"""Jobs beside deployments: a slice of what ``make faults`` and ``make fuzz-faults`` do in full."""

from __future__ import annotations

import pytest

from tests.simulation.schedules.exhaustive import sweep
from tests.simulation.schedules.jobs import JOB_SCENARIOS, job_schedule
from tests.simulation.schedules.play import faultless, play
from tests.simulation.schedules.points import Points

pytestmark = pytest.mark.processes

NAMES = sorted(JOB_SCENARIOS)
PARTS = [
    *((name, 97) for name in ("job-preempts",)),
    *(pytest.param(name, 31, marks=pytest.mark.second_tier) for name in NAMES),
]
"""Every so many points of some stories, or of all, are tried here with every fault; all points by ``make faults``."""
SEEDS = [range(1, 4), pytest.param(range(4, 44), marks=pytest.mark.second_tier)]
FOUND = (161, 209, 906, 1021, 1023)
"""Seeds that have shown a fault of the product."""


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=() if at % 6 == 0 else pytest.mark.second_tier)
        for at, name in enumerate(NAMES)
    ],
)
def test_every_story_of_jobs_ends_well_and_is_the_same_each_time(name: str) -> None:
    first, second = faultless(JOB_SCENARIOS[name]), play(JOB_SCENARIOS[name], Points())
    assert first.violations == []
    assert first.points >= 40
    assert first.trace_hash == second.trace_hash


@pytest.mark.parametrize(("name", "parts"), PARTS)
def test_no_fault_at_some_of_the_points_does_harm_to_jobs(name: str, parts: int) -> None:
    tally = sweep(JOB_SCENARIOS[name], part=11 * NAMES.index(name) % parts, parts=parts)
    assert tally.violations == []
    assert tally.plans > 0


@pytest.mark.parametrize("seeds", SEEDS, ids=lambda seeds: f"{seeds[0]}-{seeds[-1]}")
def test_no_schedule_of_jobs_and_many_faults_does_harm(seeds: range) -> None:
    harmful = {seed: found for seed in seeds if (found := job_schedule(seed).play().violations)}
    assert harmful == {}


@pytest.mark.second_tier
@pytest.mark.parametrize("seed", FOUND)
def test_no_schedule_that_has_done_harm_to_jobs_does_it_again(seed: int) -> None:
    assert job_schedule(seed).play().violations == []
