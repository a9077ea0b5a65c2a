"""Which of the tests that map to a bug belong to which tier.

``make test`` runs the first tier; tests marked ``second_tier`` belong to ``make test-all``. ``tests/conftest.py`` marks
those of whole clusters.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from .mutant import Mutant

FIRST, SECOND, SIMULATOR = "first", "second", "simulator"
TIERS = (FIRST, SECOND, SIMULATOR)
"""The quickest first."""
FIRST_MARKERS = "not second_tier and not nightly"
SIMULATION = ("tests/simulation",)
TEST_SECONDS_MAX = 20
"""For each test: a bug may well make something wait for ever."""
SCHEDULES_SECONDS_MAX = 120
"""For each test of the simulator: one plays dozens of schedules, which are slow only where the machine is busy."""
SIMULATED_ROOMS = (
    "planning",
    "state",
    "status",
    "execution",
    "store",
    "inventory",
    "controller",
    "agent",
    "incidents",
)
"""Whose code runs in the simulator."""


@dataclass(frozen=True, slots=True)
class Stage:
    """One run of pytest: which tests, and which of them by their markers."""

    tier: str
    tests: tuple[str, ...]
    markers: str
    test_seconds: int = TEST_SECONDS_MAX


def stages(mutant: Mutant, tiers: Iterable[str]) -> tuple[Stage, ...]:
    """Return what is run against a bug in those tiers, in the order of ``TIERS``; empty where nothing maps to it."""
    simulation = SIMULATION if mutant.room in SIMULATED_ROOMS else ()
    every = (
        Stage(FIRST, mutant.tests, FIRST_MARKERS),
        Stage(SECOND, mutant.tests, "second_tier and not nightly"),
        Stage(SIMULATOR, simulation, "not nightly", SCHEDULES_SECONDS_MAX),
    )
    return tuple(stage for stage in every if stage.tests and stage.tier in tiers)
