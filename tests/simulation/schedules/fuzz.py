"""Random schedules: from a seed follow the scenario, the order of callbacks, the faults of the world and of points.

Every fault is drawn for itself, so that leaving some of them out changes nothing about the others.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Protocol

from reconciler.resources import ModelDeployment
from tests.simulation.world.programs import Program
from tests.simulation.world.stored import tables
from tests.simulation.world.world import World

from . import acts
from .acts import Act
from .play import Verdict, faultless, finish, listening, verdict
from .points import Points
from .scenarios import SCENARIOS, Scenario

POINT_FAULTS = (0.0, 0.005, 0.02, 0.05)
"""How likely a fault is at each point: swarms of few and of many."""
WORLD_FAULTS_MAX = 4
LAST_SECONDS = 40.0
GOOD_CLIENTS = (0, 3, 6)
POISONS = (0, 0, 1, 3)
TABLES = tables()
CLIENTS_SECONDS = 60.0
"""For how long clients ask, from the beginning on."""


@dataclass(frozen=True)
class Schedule:
    """What a seed means."""

    seed: int
    scenario: Scenario
    rate: float
    acts: tuple[tuple[float, str, Act], ...]
    good: int = 0
    """Clients that behave."""
    poisons: int = 0
    """Clients with a prompt that ends groups."""
    programs: Mapping[str, Program] | None = None
    """What the programs of jobs do instead of what they do in the story."""

    def play(self, without: Collection[str] = ()) -> Verdict:
        """Run it, leaving out some of its faults: ``point/N`` or ``world/N``."""
        points = Points(chooser=chooser(self.seed, self.rate, without))
        wanted = faultless(self.scenario).ending
        with listening() as complaints:
            world = self.scenario.world(points, self.seed)
            try:
                if self.programs is not None:
                    world.programs = self.programs
                if self.good and "clients" not in without:
                    world.serve_clients(self.good, self.poisons, CLIENTS_SECONDS, self.seed)
                for number, (at, name, act) in enumerate(self.acts):
                    if f"world/{number}" not in without:
                        world.loop.call_later(at, apply, world, name, act)
                last = max([self.scenario.length, *(at for at, _, _ in self.acts)])
                ended = finish(world, last + LAST_SECONDS, wanted=wanted)
                return verdict(world, ended, complaints)
            finally:
                world.close()


def chooser(
    seed: int, rate: float, without: Collection[str]
) -> Callable[[int, str, tuple[str, ...]], str | None]:
    """Draw the faults of points."""

    def choose(number: int, label: str, kinds: tuple[str, ...]) -> str | None:
        if not rate or f"point/{number}" in without:
            return None
        drawn = random.Random(seed * 1_000_003 + number)
        return drawn.choice(kinds) if drawn.random() < rate else None

    return choose


def apply(world: World, name: str, act: Act) -> None:
    """Have something befall a world that is not left in peace yet."""
    if world.points.open:
        world.note(f"WORLD {name}")
        world.disturbed.append(world.loop.now)
        world.oracles.service.fault(name)
        act(world)
        world.oracles.service.look()


def schedule(seed: int, only: str | None = None) -> Schedule:
    """The schedule of a seed."""
    draw = random.Random(seed)
    scenario = SCENARIOS[only or draw.choice(sorted(SCENARIOS))]
    rate = draw.choice(POINT_FAULTS)
    names = [m.metadata.name for m in scenario.manifests if isinstance(m, ModelDeployment)]
    acts: list[tuple[float, str, Act]] = []
    for _ in range(draw.randrange(WORLD_FAULTS_MAX + 1)):
        at = draw.uniform(0.5, 25.0)
        name = draw.choice(sorted(KINDS))
        acts += [(at + later, name, act) for later, act in KINDS[name](draw, scenario, names)]
    good = draw.choice(GOOD_CLIENTS)
    poisons = draw.choice(POISONS) if good else 0
    return Schedule(seed, scenario, rate, tuple(sorted(acts, key=lambda each: each[0])), good, poisons)


class Playable(Protocol):
    """What a seed means, of either kind."""

    @property
    def scenario(self) -> Scenario:
        """The cluster and its story."""

    @property
    def good(self) -> int:
        """The clients that behave."""

    @property
    def acts(self) -> tuple[tuple[float, str, Act], ...]:
        """Its faults of the world, each with its time and kind."""

    def play(self, without: Collection[str] = ()) -> Verdict:
        """Run it, leaving out some of its faults."""


Drawn = list[tuple[float, Act]]


def _of_rank(make: Callable[[str, int, int], Act]) -> Callable[[random.Random, Scenario, list[str]], Drawn]:
    def drawn(draw: random.Random, scenario: Scenario, names: list[str]) -> Drawn:
        return [(0.0, make(draw.choice(names), draw.randrange(2), draw.randrange(2)))]

    return drawn


def _pair(
    begin: Callable[[str], Act], end: Callable[[str], Act], seconds: float
) -> Callable[[random.Random, Scenario, list[str]], Drawn]:
    def drawn(draw: random.Random, scenario: Scenario, names: list[str]) -> Drawn:
        name = draw.choice(scenario.names)
        return [(0.0, begin(name)), (draw.uniform(0.2, seconds), end(name))]

    return drawn


def _set(field: str, value: float, seconds: float) -> Callable[[random.Random, Scenario, list[str]], Drawn]:
    """Something about the whole world is otherwise for a while."""

    def drawn(draw: random.Random, scenario: Scenario, names: list[str]) -> Drawn:
        return [
            (0.0, lambda world: setattr(world, field, value)),
            (draw.uniform(0.2, seconds), lambda world: setattr(world, field, type(value)(0))),
        ]

    return drawn


def _machine(field: str, value: float, after: float) -> Callable[[str], Act]:
    return lambda name: lambda world: setattr(world.machines[name], field, value)


def _disk(full: bool) -> Callable[[str], Act]:
    return lambda name: lambda world: setattr(world.machines[name].disk, "full", full)


def _jump(draw: random.Random, scenario: Scenario, names: list[str]) -> Drawn:
    by = draw.choice((-3600.0, -30.0, 30.0, 3600.0))
    return [(0.0, lambda world: world.jump(by))]


def _jump_of_node(draw: random.Random, scenario: Scenario, names: list[str]) -> Drawn:
    by, name = draw.choice((-3600.0, 3600.0)), draw.choice(scenario.names)
    return [(0.0, lambda world: setattr(world.machines[name], "skew", by))]


def _freeze(draw: random.Random, scenario: Scenario, names: list[str]) -> Drawn:
    """The controller's machine sleeps for a while."""
    seconds = draw.uniform(1.0, 40.0)
    return [(0.0, lambda world: world.freeze_controller(seconds))]


def _zombie(draw: random.Random, scenario: Scenario, names: list[str]) -> Drawn:
    """It stands still, another takes its place, and then it goes on."""
    seconds = draw.uniform(0.6, 20.0)
    return [(0.0, lambda world: world.freeze_controller(seconds, replaced=True))]


def _kill_agent(draw: random.Random, scenario: Scenario, names: list[str]) -> Drawn:
    return [(0.0, acts.kill_agent(draw.choice(scenario.names)))]


def _hang_agent(draw: random.Random, scenario: Scenario, names: list[str]) -> Drawn:
    return [(0.0, acts.hang_agent(draw.choice(scenario.names)))]


def _cable(
    make: Callable[[bool], Act], machines: int = 2
) -> Callable[[random.Random, Scenario, list[str]], Drawn]:
    """Something about the cable is otherwise for a while, where there is one."""

    def drawn(draw: random.Random, scenario: Scenario, names: list[str]) -> Drawn:
        acts_ = [(0.0, make(True)), (draw.uniform(5.0, 60.0), make(False))]
        there = scenario.facts and not scenario.recabled and len(scenario.names) >= machines
        return acts_ if there else []

    return drawn


def _wrong_results(draw: random.Random, scenario: Scenario, names: list[str]) -> Drawn:
    """RDMA gives wrong results when a group is formed again, until all machines have another macOS."""
    if not scenario.facts:
        return []
    where, again = draw.choice(scenario.names), draw.uniform(0.0, 10.0)
    over, version = draw.uniform(5.0, 60.0), (26, draw.randrange(10, 10_000))
    return [
        (0.0, acts.garbage(where)),
        (again, acts.crash(draw.choice(names), 0, draw.randrange(2))),
        (over, acts.garbage(where, spoiled=False)),
        (over, acts.update(scenario.names, version)),
    ]


def _stranger(draw: random.Random, scenario: Scenario, names: list[str]) -> Drawn:
    """A port is taken, and a rank ends that needs another."""
    node, ports = draw.choice(scenario.names), draw.choice((1, 1, 2))
    again = acts.crash(draw.choice(names), 0, draw.randrange(2))
    return [(0.0, acts.stranger(node, ports)), (draw.uniform(0.0, 5.0), again)]


def _panics(draw: random.Random, scenario: Scenario, names: list[str]) -> Drawn:
    name, again = draw.choice(scenario.names), draw.uniform(6.0, 30.0)
    return [(0.0, acts.panic(name)), (again, acts.panic(name)), (again + 40.0, acts.panics_are_old(name))]


def _lose_tables(draw: random.Random, scenario: Scenario, names: list[str]) -> Drawn:
    """One table of the store is lost, or several are."""
    return [(0.0, acts.lose_tables(*draw.sample(TABLES, draw.choice((1, 1, 2, 3, len(TABLES))))))]


def _older_backup(draw: random.Random, scenario: Scenario, names: list[str]) -> Drawn:
    return [(0.0, acts.back_up), (draw.uniform(1.0, 30.0), acts.restore_backup)]


KINDS: dict[str, Callable[[random.Random, Scenario, list[str]], Drawn]] = {
    "rank-crash": _of_rank(acts.crash),
    "rank-hang": _of_rank(acts.hang),
    "rank-deaf": _of_rank(acts.deafen),
    "rank-stopped": _of_rank(acts.freeze),
    "shim-death": _of_rank(acts.kill_shim),
    "agent-death": _kill_agent,
    "agent-hang": _hang_agent,
    "controller-death": lambda draw, scenario, names: [(0.0, acts.kill_controller)],
    "store-lost": lambda draw, scenario, names: [(0.0, acts.lose_store)],
    "tables-lost": _lose_tables,
    "older-backup": _older_backup,
    "controller-sleeps": _freeze,
    "controller-zombie": _zombie,
    "reboot": _pair(acts.power_off, acts.power_on, 30.0),
    "panics": _panics,
    "cable-out": _cable(lambda out: acts.cable(not out)),
    "cable-slow": _cable(acts.slow_cable),
    "cable-swapped": _cable(acts.swap_cable, machines=3),
    "partition": _pair(acts.cut_off, acts.back, 80.0),
    "slow-node": _pair(_machine("slow", 8.0, 0.0), _machine("slow", 1.0, 0.0), 40.0),
    "node-disk-full": _pair(_disk(True), _disk(False), 20.0),
    "disk-full": _set("disk_full", True, 10.0),
    "pushes-lost": _set("lost_pushes", 0.5, 40.0),
    "pushes-repeated": _set("repeated_pushes", 0.5, 40.0),
    "commands-late": _set("late_commands", True, 40.0),
    "clock-jump": _jump,
    "clock-jump-of-node": _jump_of_node,
    "stranger": _stranger,
    "wrong-results": _wrong_results,
}


def shrink(found: Playable) -> tuple[list[str], Verdict]:
    """As many of the faults left out as can be while something is still violated."""
    without: list[str] = []
    best = found.play(without)
    if found.good and (tried := found.play(["clients"])).violations:
        without, best = ["clients"], tried
    acts = sorted({name for _, name, _ in found.acts})  # what is never mended again is another story
    parts = [[f"world/{n}" for n, (_, other, _) in enumerate(found.acts) if other == name] for name in acts]
    parts += [[f"point/{n}"] for n, _, _ in best.hit]
    for part in reversed(parts):
        tried = found.play([*without, *part])
        if tried.violations:
            without, best = [*without, *part], tried
    return without, best
