"""Worlds for tests of the oracles: each ends with its test."""

from __future__ import annotations

from tests.simulation.schedules.points import Points
from tests.simulation.schedules.scenarios import USUAL, Scenario
from tests.simulation.world.world import World

from .ends import missing

UP_SECONDS = 7.0
_worlds: list[World] = []


def kept(world: World) -> World:
    """Have a world end with the test."""
    _worlds.append(world)
    return world


def up(scenario: Scenario | None = None) -> World:
    """A world in which everything serves, and nothing has befallen it yet."""
    world = kept((scenario or Scenario("usual", USUAL)).world(Points()))
    world.run(UP_SECONDS)
    assert missing(world) == ""
    return world


def end_all() -> None:
    """End the worlds of a test."""
    while _worlds:
        _worlds.pop().close()
