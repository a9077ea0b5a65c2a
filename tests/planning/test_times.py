"""Times in texts of a plan are UTC, wherever the controller's machine is."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from reconciler.state import Plan
from tests.planning.placement.test_guessed import world as guessed
from tests.planning.recovery.test_back_off import looping
from tests.planning.recovery.test_quarantined_prompts import refuse, served
from tests.planning.transport.test_fallback import left
from tests.worlds import World, settled
from tests.zones import ZONES, in_zone


def refused_prompt() -> World:
    world = served(1)
    refuse(world, 1)
    return world


def unexamined() -> World:
    return settled(guessed())


def texts(plan: Plan) -> list[str]:
    """Every text for people that has a time."""
    found = [waiting.text for waiting in plan.waiting] + [refusal.text for refusal in plan.refused]
    found += [trouble.doing for trouble in plan.troubles]
    return [text for text in found if " UTC" in text]


@pytest.mark.parametrize("make", [left, looping, refused_prompt, unexamined])
def test_a_time_for_people_does_not_depend_on_the_time_zone(make: Callable[[], World]) -> None:
    world = make()
    said = []
    for name in ZONES:
        with in_zone(name):
            said.append(texts(world.plan()))

    assert said[0]
    assert said == said[:1] * len(ZONES)
