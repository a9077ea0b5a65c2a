"""Schedules over days: what has an hour to it is reached, and nothing is harmed by it."""

from __future__ import annotations

from collections import Counter
from functools import cache
from typing import Any

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

SEEDS = range(5, 48)
LATER = [pytest.param(seed, marks=pytest.mark.second_tier) for seed in SEEDS[3:]]
LIMITS = (DAYS, FORGOTTEN, GIVEN_UP, TAKEN_UP, QUARANTINED, RELEASED, SETTLED)


@cache
def played(seed: int) -> tuple[list[Any], Counter[str]]:
    """What is wrong with a schedule, and what it reaches."""
    result = days(seed).play()
    return result.violations, Counter(result.reached)


@pytest.mark.parametrize("seed", [*SEEDS[:3], *LATER])
def test_no_schedule_over_days_does_harm(seed: int) -> None:
    violations, _ = played(seed)
    assert violations == []


def test_a_schedule_over_days_is_the_same_each_time() -> None:
    first, second = days(7).play(), days(7).play()
    assert first.trace_hash == second.trace_hash
    assert first.notes == second.notes


@pytest.mark.second_tier
@pytest.mark.parametrize("limit", LIMITS)
def test_limits_of_an_hour_and_what_expires_are_reached(limit: str) -> None:
    seen: Counter[str] = Counter()
    for seed in SEEDS:
        seen.update(played(seed)[1])
        if limit in seen:
            break
    assert limit in seen, table(len(SEEDS), seen)
