"""Schedules over days: faults that come seconds, hours or days after one another, and clients now and then.

So what has an hour or more to it is met: attempts that count for an hour, back-offs at their ceiling, groups that become
better at most twice an hour, panics that grow old, quarantines that end, incidents that are settled.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from reconciler.store.tables.incidents import IncidentFilter
from tests.simulation.oracles.ends import told
from tests.simulation.oracles.reached import Reached
from tests.simulation.world.rest import rest
from tests.simulation.world.world import World

from . import acts
from .acts import Act
from .fuzz import KINDS, LAST_SECONDS, POINT_FAULTS, apply, chooser
from .play import Verdict, faultless, finish, listening, verdict
from .points import Points
from .scenarios import CABLED, THREE, USUAL, Scenario, big, cluster, small

FAULTS_MAX = 6
GAPS_SECONDS = (2.0, 200_000.0)
"""Between two faults: from a moment to two days, as often of each magnitude."""
SERIES = 0.3
"""How often the next fault is of the kind of the last one."""
USE_SECONDS = 45.0
"""How long clients ask around a fault."""
BEGIN_SECONDS = 10.0
RESTART_SECONDS = 30
"""How long it may take until a controller that a fault has ended runs again, and tells what a person was asked."""

CLUSTERS = (
    Scenario("days", USUAL),
    Scenario("days-small", cluster(big(), small(1), nodes=THREE), names=THREE),
    Scenario("days-cabled", cluster(big(), nodes=THREE), names=THREE, system="Darwin", facts=CABLED),
)


@dataclass(frozen=True)
class Fault:
    """One fault with everything that belongs to it, such as its end."""

    at: float
    name: str
    acts: tuple[tuple[float, Act], ...]
    good: int
    poisons: int


@dataclass(frozen=True)
class Days:
    """What a seed means; ``good`` and ``poisons`` are those of all faults, and ``acts`` their beginnings."""

    seed: int
    scenario: Scenario
    rate: float
    faults: tuple[Fault, ...]
    good: int = 0
    acts: tuple[tuple[float, str, Act], ...] = field(default=())

    def play(self, without: Collection[str] = ()) -> Verdict:
        """Run it, leaving out some of its faults: ``point/N`` or ``world/N``, or all ``clients``."""
        points = Points(chooser=chooser(self.seed, self.rate, without))
        wanted = faultless(self.scenario).ending
        with listening() as complaints:
            world = self.scenario.world(points, self.seed)
            world.oracles.reached = reached = Reached(world)
            try:
                begun, asked = world.loop.now, Counter[tuple[str, str]]()
                for number, fault in enumerate(self.faults):
                    if f"world/{number}" not in without:
                        rest(world, begun + fault.at)
                        self._befall(world, fault, "clients" not in without)
                        asked = judge_asked(world, asked)
                world.asked_before = asked
                ended = finish(world, LAST_SECONDS, wanted=wanted)
                settled = settle(world)
                reached.ended(settled)
                found = verdict(world, ended, complaints)
                found.reached = sorted(reached.found)
                return found
            finally:
                world.close()

    def _befall(self, world: World, fault: Fault, clients: bool) -> None:
        if clients and fault.good:
            world.serve_clients(fault.good, fault.poisons, USE_SECONDS, self.seed)
        begun = world.loop.now
        for later, act in fault.acts:
            rest(world, begun + later)
            apply(world, fault.name, act)
        world.run(1.0)


def judge_asked(world: World, before: Counter[tuple[str, str]]) -> Counter[tuple[str, str]]:
    """Since the last fault, nobody was asked twice for the same."""
    now = told(world)
    for _ in range(RESTART_SECONDS):
        if now is not None:
            break
        world.run(1.0)
        now = told(world)
    if now is None:
        return before
    for key in now:
        if now[key] - before[key] > 1 + world.jumps:
            world.oracles.violated(
                f"a person was told {now[key] - before[key]} times of {key[1]} of {key[0]}"
            )
    return now


def settle(world: World) -> int:
    """Count the incidents that are over for good."""
    assert world.controller is not None
    if world.controller.parts is None:
        return 0
    found = world.controller.parts.store.incidents.find(IncidentFilter(limit=1000))
    return sum(incident.settled for incident in found)


def days(seed: int) -> Days:
    """The schedule over days of a seed."""
    draw = random.Random(f"days {seed}")
    scenario = draw.choice(CLUSTERS)
    names = [m.metadata.name for m in scenario.manifests if m.kind == "ModelDeployment"]
    faults: list[Fault] = []
    at, name = BEGIN_SECONDS, ""
    for _ in range(draw.randrange(2, FAULTS_MAX + 1)):
        kinds = sorted(_KINDS)
        name = name if name and draw.random() < SERIES else draw.choice(kinds)
        drawn = _KINDS[name](draw, scenario, names)
        good = draw.choice((0, 0, 2))
        poisons = draw.choice((0, 1)) if good else 0
        faults.append(Fault(at, name, tuple(sorted(drawn, key=lambda each: each[0])), good, poisons))
        at += max((later for later, _ in drawn), default=0.0)
        at += math.exp(draw.uniform(*map(math.log, GAPS_SECONDS)))
    begun = tuple((fault.at, fault.name, act) for fault in faults for _, act in fault.acts[:1])
    return Days(
        seed, scenario, draw.choice(POINT_FAULTS[:2]), tuple(faults), max(f.good for f in faults), begun
    )


Drawn = list[tuple[float, Act]]


def _leak(draw: random.Random, scenario: Scenario, names: list[str]) -> Drawn:
    """Wired memory that belongs to nobody grows for hours, until somebody restarts the machine."""
    name, step = draw.choice(scenario.names), draw.uniform(300.0, 3600.0)
    grown: list[tuple[float, Act]] = [
        (number * step, acts.unfit(name, wired_excess_bytes=number * 6 * 2**30)) for number in range(1, 4)
    ]
    return [*grown, (4 * step, acts.power_off(name)), (4 * step + 30.0, acts.power_on(name))]


def _deaths(draw: random.Random, scenario: Scenario, names: list[str]) -> Drawn:
    """Groups end one after the other, as where each start leaves something behind."""
    name, rank, gap = draw.choice(names), draw.randrange(2), draw.uniform(4.0, 400.0)
    return [(number * gap, acts.crash(name, 0, rank)) for number in range(draw.randrange(3, 12))]


def _panics_apart(draw: random.Random, scenario: Scenario, names: list[str]) -> Drawn:
    """A machine panics, and again within an hour or after it."""
    name, again = draw.choice(scenario.names), draw.uniform(60.0, 7200.0)
    first = [(0.0, acts.panic(name))]
    if again > 3600.0:
        return [*first, (3600.0, acts.panics_are_old(name)), (again, acts.panic(name)), (again + 3600.0, acts.panics_are_old(name))]  # fmt: skip
    return [*first, (again, acts.panic(name)), (again + 3600.0, acts.panics_are_old(name))]


_KINDS: dict[str, Callable[[random.Random, Scenario, list[str]], Drawn]] = {
    **{name: kind for name, kind in KINDS.items() if name != "panics"},
    "leak": _leak,
    "deaths": _deaths,
    "panics-apart": _panics_apart,
}
