"""Nothing waits without a bound, and nothing is asked for again and again."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from reconciler.state import ObjectKey, Plan, WaitingFor

from .bounds import REPEATS_MAX, REPEATS_SECONDS, WAITING_SECONDS

if TYPE_CHECKING:
    from tests.simulation.world.loop import Process
    from tests.simulation.world.machines import Machine
    from tests.simulation.world.world import World

Waits = tuple[ObjectKey, WaitingFor]


class Patience:
    """Told of every plan, and of every request to an agent."""

    def __init__(self, world: World, violated: Callable[[str], None]) -> None:
        self._world = world
        self._violated = violated
        self._since: dict[Waits, float] = {}
        self._told: set[Waits] = set()
        self._asked: dict[tuple[Process, str, str], deque[float]] = {}

    def planned(self, plan: Plan) -> None:
        """A controller has made a plan: what waits in it has waited since it was in every plan."""
        now = self._world.loop.now
        waits = {(each.object, each.reason): each.text for each in plan.waiting}
        self._since = {key: self._since.get(key, now) for key in waits}
        disturbed = max(self._world.disturbed, default=-math.inf)
        for key, since in self._since.items():
            waited = now - max(since, disturbed)
            if waited > WAITING_SECONDS.get(key[1], 0.0) and not self._excused(key):
                self._told.add(key)
                self._violated(f"{key[0]} waits for {waited:.0f} s ({key[1].value}): {waits[key]}")

    def _excused(self, key: Waits) -> bool:
        """A machine that nobody reaches is waited for without end, and each is complained of once."""
        unreached = any(not machine.reachable for machine in self._world.machines.values())
        return key in self._told or (unreached and key[1] in (WaitingFor.AGENT, WaitingFor.REMOVAL))

    def requested(self, by: Process, machine: Machine, message: Any) -> None:
        """A controller has asked an agent for a change."""
        now, key = self._world.loop.now, (by, machine.name, repr(message))
        times = self._asked.setdefault(key, deque())
        times.append(now)
        while now - times[0] > REPEATS_SECONDS:
            times.popleft()
        if len(times) == REPEATS_MAX:
            self._violated(
                f"{machine.name} is asked {REPEATS_MAX} times within ten minutes: {message!r:.200}"
            )
