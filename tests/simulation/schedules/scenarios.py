"""What happens in a world, beside what the product does and what befalls it: each scenario is a short story."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from reconciler.resources import Gateway, Manifest, Node, SshAccess
from reconciler.state import DeploymentName, MachineFacts, NodeName, ReplicaId, Route
from reconciler.wire.node import ModelReport
from tests.planning.macs import mac, port
from tests.simulation.world.node_gateways import PYTHON
from tests.simulation.world.programs import Program
from tests.simulation.world.world import World
from tests.status.test_gateway import SSH
from tests.worlds import TINY, deployment, fabric, gateway, model, node

from .acts import (
    Act,
    back,
    begin_again,
    cable,
    commit,
    crash,
    cut_off,
    deafen,
    fit,
    freeze,
    garbage,
    hang,
    hang_agent,
    kill_agent,
    kill_controller,
    kill_shim,
    lose_ipv4,
    lose_store,
    nothing,
    panic,
    panics_are_old,
    power_off,
    power_on,
    rdma,
    slow_cable,
    stop_everything,
    swap_cable,
    unfit,
    update,
)
from .points import Points

GIB = 2**30
NAMES = ("a", "b", "c", "d")
THREE = NAMES[:3]
PAIR = NAMES[:2]


@dataclass(frozen=True)
class Scenario:
    """``acts``: seconds after the beginning, and what happens then."""

    name: str
    manifests: tuple[Manifest, ...]
    acts: tuple[tuple[float, Act], ...] = ()
    memory_bytes: int = 64 * GIB
    names: tuple[str, ...] = NAMES
    weights: dict[str, ModelReport] = field(default_factory=dict)
    refused_batch: int = 0
    """With this batch ranks end instead of loading."""
    unservable: tuple[tuple[str, int], ...] = ()
    """Replicas for which there is no room in the end."""
    persons: tuple[tuple[str, str], ...] = ()
    """What only a person can mend: subject and class, of each of which somebody is told exactly once."""
    system: str = "Linux"
    facts: dict[str, MachineFacts] = field(default_factory=dict)
    """What probes tell of some machines."""
    programs: Mapping[str, Program] = field(default_factory=dict)
    """What the programs of jobs do."""
    waiting: tuple[str, ...] = ()
    """Jobs for which there are no nodes in the end."""
    begins: float | None = None
    """The controller's clock at the beginning, in seconds since the Unix epoch, where that matters."""
    recabled: bool = False
    """Whether its cables lead elsewhere in the end: then none is pulled and put back beside that."""
    gateway_nodes: tuple[str, ...] = ()
    """Nodes that have a gateway in every commit."""

    @property
    def length(self) -> float:
        """Seconds until the last act."""
        return max((at for at, _ in self.acts), default=0.0)

    def world(self, points: Points, seed: int = 0) -> World:
        """A world in which it is about to begin."""
        world = World(self.names, points, seed, self.memory_bytes)
        if self.gateway_nodes:
            world.dress = partial(dressed, nodes=self.gateway_nodes)
        world.weights.update(self.weights)
        world.refused_batch = self.refused_batch
        world.programs = self.programs
        world.waiting = self.waiting
        if self.begins is not None:
            world.skew = self.begins - world.wall()
        world.unservable = {ReplicaId(DeploymentName(name), index) for name, index in self.unservable}
        for name, machine in world.machines.items():
            found = self.facts.get(name, MachineFacts(system=self.system))
            machine.sound = machine.facts = found
        world.start_controller()
        world.commit(self.manifests)
        for at, act in self.acts:
            world.loop.call_later(at, _happen, world, act)
        return world


def _happen(world: World, act: Act) -> None:
    world.disturbed.append(world.loop.now)
    world.oracles.service.fault("story")
    act(world)


def cluster(*deployments: Manifest, nodes: Sequence[str] = NAMES, **drained: bool) -> tuple[Manifest, ...]:
    """Manifests of a cluster with these deployments."""
    machines = [node(name, drain=drained.get(name, False)) for name in nodes]
    return (*machines, model(), *deployments, gateway())


def with_gateways(manifests: tuple[Manifest, ...], nodes: Sequence[str]) -> tuple[Manifest, ...]:
    """The same cluster on machines over SSH, with gateways on these nodes."""
    return tuple(_over_ssh(each, tuple(nodes)) for each in manifests)


def dressed(manifests: tuple[Manifest, ...], nodes: Sequence[str]) -> tuple[Manifest, ...]:
    """The same, unless its machines are over SSH already: whoever changes one manifest leaves the gateways as they are."""
    there = any(isinstance(each, Node) and each.spec.ssh is not None for each in manifests)
    return manifests if there else with_gateways(manifests, nodes)


def _over_ssh(each: Manifest, nodes: tuple[str, ...]) -> Manifest:
    if isinstance(each, Node):
        access = {"local": None, "ssh": SshAccess.model_validate({**SSH, "host": each.metadata.name})}
        return each.model_copy(update={"spec": each.spec.model_copy(update={**access, "python": PYTHON})})
    if isinstance(each, Gateway):
        return each.model_copy(update={"spec": each.spec.model_copy(update={"nodes": nodes})})
    return each


def big(**spec: Any) -> Manifest:
    return deployment("big", nodes=2, **spec)


def small(replicas: int = 2, **spec: Any) -> Manifest:
    return deployment("small", nodes=1, replicas=replicas, **spec)


def wide(**spec: Any) -> Manifest:
    return deployment("wide", nodes={"min": 2, "max": 4}, **spec)


USUAL = cluster(big(), small(), wide())
"""Where a story is long by itself, another cluster is as small as the story allows: what is told at every point is
told of everything that is there."""


A, B = NodeName("a"), NodeName("b")
CABLED = {
    "a": mac(port(3, (B, 4), "10.77.0.1")),
    "b": mac(port(4, (A, 3), "10.77.0.2")),
}

BARE = {
    name: replace(
        facts,
        routes=(Route("192.168.1.0/24", "en0"),),
        ports=tuple(replace(p, bridged=True, address="", mapped_gid=False) for p in facts.ports),
    )
    for name, facts in CABLED.items()
}
"""As after a boot: with the bridge, and without addresses."""


def declared(end: str) -> tuple[Manifest, ...]:
    """The cable that leaves a is meant to lead there."""
    return (*cluster(big(), nodes=THREE), fabric("cables", ("a/3", end)))


def repaired(*deployments: Manifest, a: bool = True) -> tuple[Manifest, ...]:
    """The cable is declared, and b, and a as well, may be repaired."""
    allowed = [node("a", repair={"network": a}), node("b", repair={"network": True})]
    return (*allowed, model(), *deployments, gateway(), fabric("ab", ("a/3", "b/4"), pool="10.77.0.0/16"))


HEAVY = ModelReport("heavy", "/models/heavy", True, 20 * GIB, TINY)


def heavy(name: str, replicas: int) -> Manifest:
    return deployment(name, nodes=1, replicas=replicas, model="heavy")


def competing(first: int, second: int) -> tuple[Manifest, ...]:
    base = [node(name) for name in NAMES]
    return (*base, model("heavy", "heavy"), heavy("first", first), heavy("second", second), gateway())


OTHER = ModelReport("other", "/models/other", True, 5_000_000, TINY)


def _with_other(manifests: tuple[Manifest, ...], path: str = "tiny") -> tuple[Manifest, ...]:
    """The Model has these weights, and there is a second one."""
    left = [each for each in manifests if each.kind != "Model"]
    return (*left, model(path=path), model("second", "other"))


def _never_fewer(**spec: Any) -> tuple[Manifest, ...]:
    """Two replicas, of which none may be away; there is room for a third."""
    return cluster(small(2, rolling={"maxSurge": 1, "maxUnavailable": 0}, **spec), nodes=THREE)


def _full(unavailable: int, nodes: Sequence[str] = PAIR, **spec: Any) -> tuple[Manifest, ...]:
    """Two replicas that fill two machines."""
    rolling = {"maxSurge": 1, "maxUnavailable": unavailable}
    made = deployment("first", nodes=1, replicas=2, model="heavy", rolling=rolling, **spec)
    return (*(node(name) for name in nodes), model("heavy", "heavy"), made, gateway())


_of_three = partial(Scenario, names=THREE)
_cabled = partial(Scenario, names=THREE, system="Darwin", facts=CABLED)

_SCENARIOS = (
    Scenario("bring-up", cluster(big(), small(3), wide(), deployment("other", nodes=2))),
    Scenario(
        "rank-crash",
        cluster(big(), wide()),
        ((8, crash("big", 0, 1)), (14, crash("wide", 0, 0, code=1))),
    ),
    Scenario("agent-death", USUAL, ((8, kill_agent("a")), (8.5, kill_agent("b")), (12, kill_agent("a")))),
    Scenario("agent-hang", USUAL, ((8, hang_agent("a")), (8.5, hang_agent("b")), (60, hang_agent("a")))),
    Scenario("rank-deaf", cluster(big(), wide()), ((8, deafen("big", 0)), (14, deafen("wide", 0)))),
    Scenario(
        "controller-restart",
        USUAL,
        ((2.2, kill_controller), (8, kill_controller), (8.7, kill_controller), (12, kill_controller)),
    ),
    Scenario(
        "scale",
        cluster(small(1)),
        ((6, commit(*cluster(small(4)))), (14, commit(*cluster(small(2)))), (20, commit(*cluster(small(3))))),
    ),
    Scenario(
        "spec-change",
        cluster(big(), small()),
        ((8, commit(*cluster(big(serving={"context": 8192}), small()))),),
    ),
    Scenario(
        "drain",
        cluster(big(), small()),
        ((8, commit(*cluster(big(), small(), a=True))), (20, commit(*cluster(big(), small())))),
    ),
    Scenario(
        "node-lost",
        cluster(wide()),
        ((8, cut_off("b")), (95, back("b"))),
        persons=(("node/b", "C0"),),
    ),
    Scenario(
        "wired-memory",
        cluster(wide()),
        (
            (8, unfit("b", wired_excess_bytes=20 * GIB)),
            (25, crash("wide", 0, 0)),
            (25, kill_controller),
            (40, fit("b", wired_excess_bytes=0)),
            (55, nothing),
        ),
        persons=(("node/b", "C11"),),
        system="Darwin",
    ),
    Scenario(
        "protection-domains",
        cluster(wide()),
        (
            (8, unfit("c", protection_domains=4)),
            (55, crash("wide", 0, 1)),
            (80, fit("c", protection_domains=0)),
            (95, nothing),
        ),
        persons=(("node/c", "C7"),),
        system="Darwin",
    ),
    _cabled(
        "cable",
        cluster(big(), nodes=THREE),
        ((11, cable(False)), (30, cable(True)), (45, nothing)),
        persons=(("link/a/b", "C3"),),
    ),
    _cabled(
        "cable-slow",
        cluster(big(), nodes=THREE),
        ((8, slow_cable(True)), (20, crash("big", 0, 1)), (35, slow_cable(False)), (50, nothing)),
        persons=(("link/a/b", "C1"),),
    ),
    _cabled(
        "cable-swapped",
        cluster(big(), nodes=THREE),
        ((10.5, swap_cable(True)), (30, swap_cable(False)), (45, nothing)),
    ),
    _cabled(
        "fabric",
        declared("b/4"),
        ((10.5, swap_cable(True)), (25, commit(*declared("c/3"))), (40, nothing)),
        persons=(("link/a/b", "C3"),),
        recabled=True,
    ),
    _of_three(
        "panic",
        cluster(big(), nodes=THREE),
        ((8, panic("b")), (32, panic("b")), (62, panics_are_old("b")), (75, nothing)),
    ),
    _cabled(
        "rdma-off",
        cluster(big(), nodes=THREE),
        ((8, rdma(False)), (20, crash("big", 0, 1)), (35, rdma(True)), (50, nothing)),
        persons=(("node/a", "C2"),),
    ),
    _cabled(
        "wrong-results",
        cluster(big(), nodes=THREE),
        (
            (8, garbage("b")),
            (10, crash("big", 0, 1)),
            (30, garbage("b", spoiled=False)),
            (31, crash("big", 0, 0)),
            (45, update(PAIR, (26, 9))),
            (50, crash("big", 0, 1)),
            (65, nothing),
        ),
        persons=(("replica/big/0", "C19"),),
    ),
    Scenario(
        "repair",
        repaired(big()),
        ((10, power_off("a")), (12, lose_ipv4("b")), (14, power_on("a")), (35, nothing)),
        names=PAIR,
        system="Darwin",
        facts=BARE,
    ),
    Scenario(
        "repair-not-allowed",
        repaired(big(), a=False),
        ((10, power_off("b")), (14, power_on("b")), (40, nothing)),
        names=PAIR,
        persons=(("node/a", "C4"),),
        system="Darwin",
        facts=BARE,
    ),
    _of_three(
        "reboot",
        cluster(big(), small(), nodes=THREE),
        ((8, power_off("b")), (30, power_on("b"))),
    ),
    Scenario("store-lost", USUAL, ((8, lose_store),)),
    Scenario("hang", cluster(big(health={"stallAfter": "10s"}), small()), ((8, hang("big", 0, 1)),)),
    _of_three(
        "stop-everything",
        cluster(big(), small(1), nodes=THREE),
        ((8, stop_everything), (20, begin_again)),
    ),
    Scenario(
        "memory",
        competing(4, 2),
        ((8, commit(*competing(2, 2))),),
        memory_bytes=40 * GIB,
        weights={"heavy": HEAVY},
    ),
    Scenario(
        "commits",
        cluster(small(1)),
        (
            (1.4, commit(*cluster(small(2), big()))),
            (2.1, commit(*cluster(small(2), big(serving={"context": 8192})))),
            (2.9, commit(*cluster(small(1)))),
        ),
    ),
    Scenario(
        "stopped-rank",
        USUAL,
        ((8, freeze("big", 0, 1)), (12, freeze("big", 0, 0)), (16, freeze("wide", 0, 0))),
    ),
    _of_three(
        "rolling",
        cluster(small(3), nodes=THREE),
        (
            (8, commit(*cluster(small(3, serving={"context": 8192}), nodes=THREE))),
            (25, commit(*cluster(small(3, serving={"context": 8192, "maxBatch": 4}), nodes=THREE))),
            (26.5, crash("small", 0, 0)),
        ),
    ),
    Scenario(
        "rolling-transport",
        cluster(deployment("pair", nodes=2, replicas=2)),
        (
            (12, commit(*cluster(deployment("pair", nodes=2, replicas=2, transport=["ring-lan"])))),
            (35, nothing),
        ),
        system="Darwin",
        facts=CABLED,
    ),
    _of_three(
        "rolling-weights",
        cluster(small(2), nodes=THREE),
        (
            (8, commit(*_with_other(cluster(small(2), nodes=THREE), path="other"))),
            (22, commit(*_with_other(cluster(small(2, model="second"), nodes=THREE)))),
            (22.8, kill_controller),
        ),
        weights={"other": OTHER},
    ),
    _of_three(
        "rolling-refused",
        cluster(small(2), nodes=THREE),
        (
            (8, commit(*cluster(small(2, serving={"maxBatch": 13}), nodes=THREE))),
            (60, commit(*cluster(small(2, serving={"maxBatch": 12}), nodes=THREE))),
            (80, nothing),
        ),
        refused_batch=13,
    ),
    _of_three(
        "rolling-surge",
        _never_fewer(),
        (
            (8, commit(*_never_fewer(serving={"context": 8192}))),
            (30, commit(*_never_fewer(serving={"context": 8192, "maxBatch": 4}))),
            (31.5, crash("small", 0, 0)),
        ),
    ),
    _of_three(
        "rolling-surge-full",
        _full(1),
        ((8, commit(*_full(1, serving={"maxBatch": 4}))),),
        memory_bytes=30 * GIB,
        weights={"heavy": HEAVY},
    ),
    _of_three(
        "rolling-surge-waits",
        _full(0),
        (
            (8, commit(*_full(0, serving={"maxBatch": 4}))),
            (20, commit(*_full(0, nodes=THREE, serving={"maxBatch": 4}))),
        ),
        memory_bytes=30 * GIB,
        weights={"heavy": HEAVY},
    ),
    _of_three(
        "rolling-surge-refused",
        _never_fewer(),
        (
            (8, commit(*_never_fewer(serving={"maxBatch": 13}))),
            (60, commit(*_never_fewer(serving={"maxBatch": 12}))),
            (80, nothing),
        ),
        refused_batch=13,
    ),
    _of_three(
        "shim-death",
        cluster(big(), small(1), nodes=THREE),
        ((8, kill_shim("big", 0, 1)), (12, kill_shim("small", 0, 0))),
    ),
)

SCENARIOS = {scenario.name: scenario for scenario in _SCENARIOS}
