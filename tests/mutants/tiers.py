"""Which of the tests that map to a bug belong to which tier.

``make test`` runs the first tier; what is marked ``second_tier``, and whole clusters, belong to ``make test-all``.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from .mutant import Mutant

FIRST, SECOND, SIMULATOR = "first", "second", "simulator"
TIERS = (FIRST, SECOND, SIMULATOR)
"""The quickest first."""
CLUSTER_TESTS = ("tests/e2e", "tests/hosts", "tests/documents")
SIMULATION = ("tests/simulation",)
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


def stages(mutant: Mutant, tiers: Iterable[str]) -> tuple[Stage, ...]:
    """Return what is run against a bug in those tiers, in the order of ``TIERS``; empty where nothing maps to it."""
    on_clusters = tuple(test for test in mutant.tests if test.startswith(CLUSTER_TESTS))
    parts = tuple(test for test in mutant.tests if test not in on_clusters)
    every = (
        Stage(FIRST, parts, "not second_tier and not nightly and not e2e"),
        Stage(SECOND, parts, "second_tier and not nightly and not e2e"),
        Stage(SECOND, on_clusters, "not nightly"),
        Stage(SIMULATOR, SIMULATION if mutant.room in SIMULATED_ROOMS else (), "not nightly and not e2e"),
    )
    return tuple(stage for stage in every if stage.tests and stage.tier in tiers)
