"""Which of the tests that map to a bug belong to which tier.

``make test`` runs the first tier; tests marked ``second_tier`` belong to ``make test-all``. ``tests/conftest.py`` marks
those of whole clusters. The copies in which bugs are planted have no git, so that every room counts as changed there.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from .mutant import Mutant

FIRST, SECOND, SIMULATOR = "first", "second", "simulator"
TIERS = (FIRST, SECOND, SIMULATOR)
"""The quickest first."""
QUICK, REST = "quick", "rest"
"""Of generated bugs alone: tests of both tiers that reach one, first those near it, then all others."""
FIRST_MARKERS = "not second_tier and not nightly"
GATING_MARKERS = "not nightly"
"""Of both tiers: what fails there does not land."""
SIMULATION = ("tests/simulation",)
TEST_SECONDS_MAX = 20
"""For each test: a bug may well make something wait for ever."""
SCHEDULES_SECONDS_MAX = 300
"""For each test of the simulator: one plays dozens of schedules, which are slow only where the machine is busy."""
SECONDS_MAX = 300.0
"""For all tests of one tier that map to one bug."""
SIMULATOR_SECONDS_MAX = 1200.0
"""For the simulator's slice."""
SLOWER = 6
"""How many times as long as without a bug tests may take where that is known: the machine may be busier than it was."""
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
class Took:
    """How many seconds the tests that map to a bug took without one; 0 where that is not known."""

    longest: float = 0.0
    """Of the slowest test."""
    all: float = 0.0


NOT_KNOWN = Took()


@dataclass(frozen=True, slots=True)
class Stage:
    """One run of pytest: which tests, which of them by their markers, and how many seconds they may take."""

    tier: str
    tests: tuple[str, ...]
    markers: str
    test_seconds: int
    """For each test."""
    seconds: float
    """For all."""


def stages(mutant: Mutant, tiers: Iterable[str], took: Took = NOT_KNOWN) -> tuple[Stage, ...]:
    """Return what is run against a bug in those tiers, in the order of ``TIERS``; empty where nothing maps to it."""
    simulation = SIMULATION if mutant.room in SIMULATED_ROOMS else ()
    limits = (max(TEST_SECONDS_MAX, int(SLOWER * took.longest)), max(SECONDS_MAX, SLOWER * took.all))
    every = (
        Stage(FIRST, mutant.tests, FIRST_MARKERS, *limits),
        Stage(SECOND, mutant.tests, "second_tier and not nightly", *limits),
        Stage(SIMULATOR, simulation, GATING_MARKERS, SCHEDULES_SECONDS_MAX, SIMULATOR_SECONDS_MAX),
        *(Stage(tier, mutant.tests, GATING_MARKERS, *limits) for tier in (QUICK, REST)),
    )
    return tuple(stage for stage in every if stage.tests and stage.tier in tiers)
