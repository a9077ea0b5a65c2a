"""Gateways on nodes: a slice of what ``make faults`` and ``make fuzz-faults`` do in full."""

from __future__ import annotations

import pytest

from tests.simulation.schedules.exhaustive import sweep
from tests.simulation.schedules.gateways import GATEWAY_KINDS, GATEWAY_SCENARIOS, gateway_schedule
from tests.simulation.schedules.play import faultless, play
from tests.simulation.schedules.points import Points

pytestmark = pytest.mark.processes

NAMES = sorted(GATEWAY_SCENARIOS)
PARTS = [
    ("gateway-dies", 41),
    *(pytest.param(name, 23, marks=pytest.mark.second_tier) for name in NAMES),
]
"""Every so many points of a story, or of all, are tried here with every fault; all points by ``make faults``."""
SEEDS = [range(1, 3), pytest.param(range(3, 43), marks=pytest.mark.second_tier)]


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=() if at % 6 == 0 else pytest.mark.second_tier)
        for at, name in enumerate(NAMES)
    ],
)
def test_every_story_of_gateways_ends_well_and_is_the_same_each_time(name: str) -> None:
    first, second = faultless(GATEWAY_SCENARIOS[name]), play(GATEWAY_SCENARIOS[name], Points())
    assert first.violations == []
    assert any("gateway of" in note and "listens" in note for note in first.notes)
    assert first.trace_hash == second.trace_hash


@pytest.mark.parametrize(("name", "parts"), PARTS)
def test_no_fault_at_some_of_the_points_does_harm_to_gateways(name: str, parts: int) -> None:
    tally = sweep(GATEWAY_SCENARIOS[name], part=7 * NAMES.index(name) % parts, parts=parts)
    assert tally.violations == []
    assert tally.plans > 0


@pytest.mark.parametrize("seeds", SEEDS, ids=lambda seeds: f"{seeds[0]}-{seeds[-1]}")
def test_no_schedule_of_gateways_and_many_faults_does_harm(seeds: range) -> None:
    harmful = {seed: found for seed in seeds if (found := gateway_schedule(seed).play().violations)}
    assert harmful == {}


def test_gateways_of_nodes_are_drawn_beside_deployments_and_jobs_with_every_kind_of_fault() -> None:
    drawn = [gateway_schedule(seed) for seed in range(1, 200)]
    stories = {each.scenario.name for each in drawn}
    assert stories >= GATEWAY_SCENARIOS.keys()
    assert {"scale with gateways", "job-retries with gateways"} <= stories
    assert {name for each in drawn for _, name, _ in each.acts} >= GATEWAY_KINDS.keys()
