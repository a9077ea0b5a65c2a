"""A controller that begins with a store that has lost a table, all of them, or what was written last."""

from __future__ import annotations

from dataclasses import replace

import pytest

from .schedules.acts import Act, back_up, lose_tables, restore_backup
from .schedules.play import play
from .schedules.points import Points
from .schedules.scenarios import SCENARIOS
from .world.stored import tables
from .world.world import World

TAKEN_BACK = SCENARIOS["rolling-refused"]
"""From second 15 until its next commit, a spec is served again because a newer one was refused."""
LOST_AT = 25.0
SLOW_PASSES = 2
"""A seed with which a controller looks twice a second, so that it decides of all machines at once."""


def lost(*names: str) -> tuple[tuple[float, Act], ...]:
    return ((LOST_AT, lose_tables(*names)),)


LOSSES = {
    **{name: lost(name) for name in tables()},
    "all": lost(*tables()),
    "groups and rollbacks": lost("groups", "setbacks"),
    "a backup from before the change": ((7.0, back_up), (LOST_AT, restore_backup)),
    "a backup from before any group was proven": ((0.9, back_up), (LOST_AT, restore_backup)),
}


@pytest.mark.second_tier
@pytest.mark.parametrize("acts", LOSSES.values(), ids=LOSSES)
def test_what_a_store_has_lost_takes_no_replica_out_of_service_that_serves(
    acts: tuple[tuple[float, Act], ...],
) -> None:
    story = sorted([*TAKEN_BACK.acts, *acts], key=lambda each: each[0])
    found = play(replace(TAKEN_BACK, acts=tuple(story)), Points(), SLOW_PASSES)
    assert found.violations == []


def test_passes_are_as_slow_as_that() -> None:
    world: World = TAKEN_BACK.world(Points(), SLOW_PASSES)
    assert world.coalesce_seconds == 0.5
    world.close()
