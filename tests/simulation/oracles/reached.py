"""What only hours and days bring about: how many schedules have reached each of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from itertools import pairwise
from typing import TYPE_CHECKING

from reconciler.planning.context.back_off_time import BACK_OFF_SECONDS_MAX
from reconciler.planning.diagnosis.detectors import PANICS_MAX
from reconciler.planning.recovery.diagnose import ATTEMPTS_SECONDS
from reconciler.state import RefusedBecause, WaitingFor
from reconciler.status import Snapshots
from reconciler.transports import VERBS_ATTEMPTS_MAX

from .oracles import UP, UP_PER_HOUR_MAX

if TYPE_CHECKING:
    from tests.simulation.world.world import World

DAY_SECONDS = 86_400.0
CEILING = "a back-off of more than four minutes"
LOOP = "a crash loop is said to be one"
GIVEN_UP = "a transport is given up"
TAKEN_UP = "a transport that was given up is taken up again"
UPS = "a group has become better twice within an hour"
FORGOTTEN = "an end is older than an hour when the next one is judged"
PANICS = "a machine has panicked twice within an hour"
PANICS_OVER = "its panics are old"
VERBS = "RDMA was set up too often in one boot"
QUARANTINED = "a prompt is quarantined"
RELEASED = "the quarantine of a prompt is over"
SETTLED = "an incident is settled"
DAYS = "more than a day has passed"
ALL = (CEILING, LOOP, GIVEN_UP, TAKEN_UP, UPS, FORGOTTEN, PANICS, PANICS_OVER, VERBS, QUARANTINED, RELEASED, SETTLED, DAYS)  # fmt: skip


class Reached:
    """Told of what each pass has decided."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._begun = world.loop.now
        self.found: set[str] = set()

    def passed(self, last: Snapshots) -> None:
        """A controller has made a plan."""
        now = set(self._now(last))
        for before, after in ((GIVEN_UP, TAKEN_UP), (PANICS, PANICS_OVER), (QUARANTINED, RELEASED)):
            if before in self.found and before not in now:
                self.found.add(after)
        self.found |= now

    def _now(self, last: Snapshots) -> Iterable[str]:
        memory, observed = last.memory, last.observed
        for wait in last.plan.waiting:
            if (
                wait.reason is WaitingFor.BACK_OFF
                and (wait.until or 0.0) - last.now > BACK_OFF_SECONDS_MAX * 0.8
            ):
                yield CEILING
        if any(refusal.reason is RefusedBecause.CRASH_LOOP for refusal in last.plan.refused):
            yield LOOP
        if memory.transport_failures:
            yield GIVEN_UP
        for attempts in memory.attempts.values():
            ends = [attempt.at for attempt in attempts]
            if any(later - earlier > ATTEMPTS_SECONDS for earlier, later in pairwise(ends)):
                yield FORGOTTEN
            ups = [attempt.at for attempt in attempts if attempt.cause in UP]
            if len(ups) >= UP_PER_HOUR_MAX and ups[-1] - ups[-UP_PER_HOUR_MAX] < ATTEMPTS_SECONDS:
                yield UPS
        if any((node.facts.panics or 0) >= PANICS_MAX for node in observed.nodes.values()):
            yield PANICS
        if any(each.count >= VERBS_ATTEMPTS_MAX for each in memory.verbs.values()):
            yield VERBS
        if observed.gateway and observed.gateway.quarantined:
            yield QUARANTINED
        if self._world.loop.now - self._begun > DAY_SECONDS:
            yield DAYS

    def ended(self, settled: int) -> None:
        """The world has come to its end, with so many settled incidents."""
        if settled:
            self.found.add(SETTLED)


def table(schedules: int, counts: Counter[str]) -> str:
    """How many schedules have reached each, as text."""
    rows = [f"  {counts[name]:6}  {name}" for name in ALL]
    return "\n".join([f"of {schedules} schedules over days, so many reached:", *rows])
