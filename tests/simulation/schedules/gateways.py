"""Stories of gateways on nodes, and random schedules of them, beside deployments and jobs. They have names of their own, so
that what other seeds mean stays as it is.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from functools import cache, partial

from reconciler.resources import Gateway, Job, Manifest, ModelDeployment
from reconciler.state import NodeName
from reconciler.state.subjects import GatewaySubject
from tests.simulation.world.node_gateways import GatewayHome, program_of
from tests.simulation.world.world import World

from .acts import (
    Act,
    back,
    back_up,
    begin_again,
    commit,
    crash,
    cut_off,
    kill_controller,
    lose_store,
    nothing,
    panic,
    panics_are_old,
    power_off,
    power_on,
    restore_backup,
    stop_everything,
)
from .fuzz import GOOD_CLIENTS, KINDS, POINT_FAULTS, Drawn, Schedule
from .jobs import JOB_KINDS, JOB_SCENARIOS, Deleted, befall_job, changed, train, workers
from .scenarios import PAIR, SCENARIOS, THREE, Scenario, cluster, small, with_gateways

WORLD_FAULTS_MAX = 5


# --- what befalls gateways ----------------------------------------------------------------------------


def _to_gateway(name: str, do: Callable[[GatewayHome], object]) -> Act:
    def act(world: World) -> None:
        do(world.machines[name].gateway)

    return act


def kill_gateway(name: str) -> Act:
    """Its gateway crashes, if it has one."""

    def act(home: GatewayHome) -> None:
        for each in list(home.processes):
            each.end("Aborted")

    return _to_gateway(name, act)


def freeze_gateway(name: str) -> Act:
    """Somebody sends SIGSTOP to its gateway, if it has one."""

    def act(home: GatewayHome) -> None:
        for each in home.processes:
            each.freeze()

    return _to_gateway(name, act)


def _may_be_told(world: World, name: str, begins: bool) -> None:
    """A person may be asked once more about the gateway of a node, for it may fail for long from now on."""
    world.failing_gateways[str(GatewaySubject(NodeName(name)))] += begins


def take_port(name: str, taken: bool) -> Act:
    """Somebody else listens at the address of the next gateway there; or no longer."""

    def act(world: World) -> None:
        _may_be_told(world, name, taken)
        world.note(f"the gateway's port of {name} is {'taken' if taken else 'free'}")
        world.machines[name].gateway.port_taken = taken

    return act


def fill_disk(name: str, full: bool) -> Act:
    def act(world: World) -> None:
        _may_be_told(world, name, full)
        world.note(f"the disk of {name} is {'full' if full else 'free'}")
        world.machines[name].disk.full = full

    return act


def hold_gateway(name: str, held: bool) -> Act:
    """A debugger holds its gateway, which nothing continues until it lets go."""

    def act(world: World) -> None:
        _may_be_told(world, name, held)
        world.machines[name].gateway.held = held
        if held:
            freeze_gateway(name)(world)

    return act


def stubborn(name: str, is_so: bool) -> Act:
    """Its gateways give answers that never end."""

    def act(world: World) -> None:
        world.machines[name].gateway.stubborn = is_so

    return act


def upgrade(version: int) -> Act:
    """Another version of the product is installed: the next controller is of that."""

    def act(world: World) -> None:
        world.note(f"version {version} is installed")
        world.program = program_of(version)
        kill_controller(world)

    return act


# --- stories --------------------------------------------------------------------------------------------


def on_nodes(*nodes: str, replicas: int = 1, **drained: bool) -> tuple[Manifest, ...]:
    """A cluster of two machines over SSH, with gateways on some."""
    return with_gateways(cluster(small(replicas), nodes=PAIR, **drained), nodes)


def without_gateway(manifests: tuple[Manifest, ...]) -> tuple[Manifest, ...]:
    return tuple(each for each in manifests if not isinstance(each, Gateway))


_BOTH = on_nodes(*PAIR)
_pair = partial(Scenario, names=PAIR)

_SCENARIOS = (
    _pair("gateway", _BOTH),
    _pair(
        "gateway-added",
        on_nodes(),
        ((8, commit(*on_nodes("a"))), (14, commit(*on_nodes("a", "b"))), (22, commit(*on_nodes("b")))),
    ),
    _pair(
        "gateway-removed",
        _BOTH,
        ((8, commit(*without_gateway(_BOTH))), (16, commit(*on_nodes("b"))), (24, commit(*on_nodes()))),
    ),
    _pair(
        "gateway-routes",
        _BOTH,
        ((8, commit(*on_nodes(*PAIR, replicas=2))), (15, crash("small", 0, 0)), (22, commit(*_BOTH))),
    ),
    _pair(
        "gateway-upgrade",
        _BOTH,
        ((8, upgrade(2)), (18, stubborn("a", True)), (19, upgrade(3)), (50, nothing)),
    ),
    _pair(
        "gateway-dies",
        _BOTH,
        (
            (8, kill_gateway("a")),
            (12, freeze_gateway("b")),
            (16, kill_gateway("a")),
            (16.5, freeze_gateway("a")),
        ),
    ),
    _pair(
        "gateway-held", _BOTH, ((8, hold_gateway("a", True)), (150, hold_gateway("a", False)), (160, nothing))
    ),
    _pair(
        "gateway-cannot-listen",
        on_nodes("a"),
        (
            (2, take_port("b", True)),
            (4, commit(*_BOTH)),
            (90, take_port("b", False)),
            (105, kill_gateway("b")),
        ),
    ),
    _pair(
        "gateway-panic",
        _BOTH,
        (
            (8, panic("b")),
            (30, power_off("a")),
            (45, power_on("a")),
            (50, panics_are_old("b")),
            (60, nothing),
        ),
    ),
    _pair(
        "gateway-disk-full",
        _BOTH,
        (
            (8, fill_disk("a", True)),
            (9, commit(*on_nodes(*PAIR, replicas=2))),
            (14, kill_gateway("a")),
            (30, fill_disk("a", False)),
        ),
    ),
    _pair(
        "gateway-cut-off",
        _BOTH,
        (
            (8, cut_off("b")),
            (20, commit(*on_nodes("a"))),
            (140, back("b")),
            (150, commit(*_BOTH)),
        ),
        persons=(("node/b", "C0"),),
    ),
    _pair(
        "gateway-controllers",
        _BOTH,
        ((1.5, kill_controller), (3.2, kill_controller), (8, kill_controller), (8.7, kill_controller)),
    ),
    _pair("gateway-store-lost", _BOTH, ((8, lose_store), (20, commit(*on_nodes("a"))))),
    _pair(
        "gateway-older-store",
        on_nodes("a"),
        ((4, back_up), (6, commit(*_BOTH)), (16, restore_backup), (26, commit(*on_nodes("b")))),
    ),
    _pair("gateway-stop-everything", _BOTH, ((8, stop_everything), (20, begin_again))),
    Scenario(
        "gateway-beside-jobs",
        with_gateways(workers(small(1), train()), ("a",)),
        ((8, kill_gateway("a")), (20, commit(*with_gateways(workers(small(2), train()), ("b", "c"))))),
        names=THREE,
    ),
)

GATEWAY_SCENARIOS = {scenario.name: scenario for scenario in _SCENARIOS}


# --- random schedules -----------------------------------------------------------------------------------

_OTHERS = {
    name: scenario
    for name, scenario in {**SCENARIOS, **JOB_SCENARIOS}.items()
    if not scenario.facts and scenario.system == "Linux"
}
"""Stories of deployments and jobs that are told with gateways, too; those of cables have names of nodes of their own."""


@cache
def beside(name: str) -> Scenario:
    """A story of deployments or jobs, on machines over SSH, of which two have gateways."""
    story = _OTHERS[name]
    return replace(story, name=f"{name} with gateways", gateway_nodes=story.names[:2])


Kind = Callable[[random.Random, str], Drawn]
"""Draws what befalls the gateway of a node."""


def _once(make: Callable[[str], Act]) -> Kind:
    return lambda draw, name: [(0.0, make(name))]


def _for_a_while(make: Callable[[str, bool], Act], seconds: float) -> Kind:
    return lambda draw, name: [(0.0, make(name, True)), (draw.uniform(0.3, seconds), make(name, False))]


def _again_and_again(draw: random.Random, name: str) -> Drawn:
    gap = draw.uniform(0.3, 6.0)
    return [(number * gap, kill_gateway(name)) for number in range(draw.randrange(2, 6))]


def _upgrade(draw: random.Random, name: str) -> Drawn:
    first, later = draw.randrange(2, 5), draw.uniform(0.3, 40.0)
    return [(0.0, upgrade(first)), (later, upgrade(draw.randrange(1, 5)))]


def _moved(draw: random.Random, name: str) -> Drawn:
    """Other nodes are to have gateways, and then others again."""
    sets = ((name,), (), PAIR, PAIR[:1], PAIR[1:])
    times = (0.0, draw.uniform(0.2, 20.0))
    return [(at, changed(Gateway, "main", nodes=draw.choice(sets))) for at in times]


def _deleted(draw: random.Random, name: str) -> Drawn:
    deleted = Deleted(Gateway, "main")
    return [(0.0, deleted.delete), (draw.uniform(0.2, 30.0), deleted.restore)]


GATEWAY_KINDS: dict[str, Kind] = {
    "gateway-death": _once(kill_gateway),
    "gateway-deaths": _again_and_again,
    "gateway-stopped": _once(freeze_gateway),
    "gateway-held": _for_a_while(hold_gateway, 90.0),
    "gateway-port-taken": _for_a_while(take_port, 200.0),
    "gateway-stubborn": _for_a_while(stubborn, 60.0),
    "gateway-disk-full": _for_a_while(fill_disk, 60.0),
    "gateway-moved": _moved,
    "gateway-deleted": _deleted,
    "upgrade": _upgrade,
}
OFTEN = 3
"""So much more often than any other fault befalls one the gateways of nodes."""


def gateway_schedule(seed: int, only: str | None = None) -> Schedule:
    """The schedule of gateways of a seed: half of them beside the stories of deployments and jobs."""
    draw = random.Random(f"gateways {seed}")
    if only is None and draw.random() < 0.5:
        scenario = beside(draw.choice(sorted(_OTHERS)))
    else:
        scenario = GATEWAY_SCENARIOS[only or draw.choice(sorted(GATEWAY_SCENARIOS))]
    rate = draw.choice(POINT_FAULTS)
    names = [m.metadata.name for m in scenario.manifests if isinstance(m, ModelDeployment)]
    has_jobs = any(isinstance(m, Job) for m in scenario.manifests)
    kinds = [*sorted(KINDS), *(sorted(JOB_KINDS) if has_jobs else ()), *sorted(GATEWAY_KINDS) * OFTEN]
    drawn: list[tuple[float, str, Act]] = []
    for _ in range(draw.randrange(WORLD_FAULTS_MAX + 1)):
        at, kind = draw.uniform(0.5, max(25.0, scenario.length)), draw.choice(kinds)
        if kind in JOB_KINDS:
            drawn += befall_job(draw, scenario, kind, at)
        elif kind in GATEWAY_KINDS:
            made = GATEWAY_KINDS[kind](draw, draw.choice(scenario.names[:2]))
            drawn += [(at + later, kind, act) for later, act in made]
        else:
            drawn += [(at + later, kind, act) for later, act in KINDS[kind](draw, scenario, names)]
    good = draw.choice(GOOD_CLIENTS) if draw.random() < 0.3 else 0
    return Schedule(seed, scenario, rate, tuple(sorted(drawn, key=lambda each: each[0])), good)
