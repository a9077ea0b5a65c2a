"""Schedules over days: what has an hour to it is reached, and nothing is harmed by it."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.simulation.oracles.reached import (
    DAYS,
    FORGOTTEN,
    GIVEN_UP,
    QUARANTINED,
    RELEASED,
    SETTLED,
    TAKEN_UP,
    table,
)
from tests.simulation.schedules.days import days

SEEDS = [range(5, 8), pytest.param(range(8, 48), marks=pytest.mark.second_tier)]


@pytest.mark.parametrize("seeds", SEEDS, ids=lambda seeds: f"{seeds[0]}-{seeds[-1]}")
def test_no_schedule_over_days_does_harm(seeds: range) -> None:
    harmful = {seed: found for seed in seeds if (found := days(seed).play().violations)}
    assert harmful == {}


def test_a_schedule_over_days_is_the_same_each_time() -> None:
    first, second = days(7).play(), days(7).play()
    assert first.trace_hash == second.trace_hash
    assert first.notes == second.notes


@pytest.mark.second_tier
def test_limits_of_an_hour_and_what_expires_are_reached() -> None:
    reached: Counter[str] = Counter()
    for seed in range(1, 31):
        reached.update(days(seed).play().reached)
    missed = {DAYS, FORGOTTEN, GIVEN_UP, TAKEN_UP, QUARANTINED, RELEASED, SETTLED} - reached.keys()
    assert not missed, table(30, reached)
