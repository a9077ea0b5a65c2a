"""Hours and days in which little happens: everybody looks the more seldom, the further away the next fault is.

Nothing is left out: every time-out, back-off, expiry and retention of the product ends when it is over, and whatever is
pushed, breaks or falls due is answered at once. Only the looks that are made now and then are fewer, so that a fault that
nobody is told of is noticed later than on a real cluster. A minute before the next fault they have their own rhythm again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from reconciler.state import WaitingFor

from .pace import BUSY, Pace

if TYPE_CHECKING:
    from .world import World

AWAKE_SECONDS = 45.0
"""After a fault, everybody looks as often as ever for so long."""
RESTLESS_SECONDS = 1800.0
"""For so long at most, while something goes on that has no time of its own."""
LASTING = (WaitingFor.AGENT, WaitingFor.QUIET, WaitingFor.REMOVAL)
"""What may be waited for for hours: a machine that is away, and a better moment."""
LOOKS_SECONDS = (21_600.0, 3_600.0, 600.0, 60.0)
"""How seldom, from the most seldom on. Each ends before the next fault by as much as it lasts, for who sleeps does not
hear that it is to look more often."""


def rest(world: World, until: float) -> None:
    """Let time pass up to a moment."""
    world.run(min(AWAKE_SECONDS, until - world.loop.now))
    restless_until = min(world.loop.now + RESTLESS_SECONDS, until)
    while world.loop.now < restless_until and _restless(world):
        world.run(min(10.0, until - world.loop.now))
    for seconds in LOOKS_SECONDS:
        if until - world.loop.now > 2 * seconds:
            world.change_pace(Pace(seconds, seconds, seconds, seconds))
            world.run(until - seconds - world.loop.now)
    world.change_pace(BUSY)
    world.run(until - world.loop.now)


def _restless(world: World) -> bool:
    """Whether something goes on that is looked at now and then, such as a group that makes no progress."""
    parts = world.controller.parts if world.controller is not None else None
    if parts is None or parts.executor.in_flight or any(rank.stuck or rank.stopped for rank in world.ranks()):
        return True
    return any(wait.until is None and wait.reason not in LASTING for wait in parts.last.plan.waiting)
