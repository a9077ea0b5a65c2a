"""What happens in a world, beside what the product does and what befalls it: each scenario is a short story."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from reconciler.resources import Manifest
from reconciler.state import DeploymentName, MachineFacts, NodeName, ReplicaId
from reconciler.wire.node import ModelReport
from tests.planning.macs import mac, port
from tests.worlds import TINY, deployment, gateway, model, node

from .control import Controller
from .points import Points
from .world import World

GIB = 2**30
NAMES = ("a", "b", "c", "d")

Act = Callable[[World], None]


@dataclass(frozen=True)
class Scenario:
    """``acts``: seconds after the beginning, and what happens then."""

    name: str
    manifests: tuple[Manifest, ...]
    acts: tuple[tuple[float, Act], ...] = ()
    memory_bytes: int = 64 * GIB
    names: tuple[str, ...] = NAMES
    weights: dict[str, ModelReport] = field(default_factory=dict)
    unservable: tuple[tuple[str, int], ...] = ()
    """Replicas for which there is no room in the end."""
    persons: tuple[tuple[str, str], ...] = ()
    """What only a person can mend: subject and class, of each of which somebody is told exactly once."""
    system: str = "Linux"
    facts: dict[str, MachineFacts] = field(default_factory=dict)
    """What probes tell of some machines."""

    @property
    def length(self) -> float:
        """Seconds until the last act."""
        return max((at for at, _ in self.acts), default=0.0)

    def world(self, points: Points, seed: int = 0) -> World:
        """A world in which it is about to begin."""
        world = World(self.names, points, seed, self.memory_bytes)
        world.weights.update(self.weights)
        world.unservable = {ReplicaId(DeploymentName(name), index) for name, index in self.unservable}
        for name, machine in world.machines.items():
            found = self.facts.get(name, MachineFacts(system=self.system))
            machine.sound = machine.facts = found
        world.start_controller()
        world.commit(self.manifests)
        for at, act in self.acts:
            world.loop.call_later(at, act, world)
        return world


def cluster(*deployments: Manifest, nodes: Sequence[str] = NAMES, **drained: bool) -> tuple[Manifest, ...]:
    """Manifests of a cluster with these deployments."""
    machines = [node(name, drain=drained.get(name, False)) for name in nodes]
    return (*machines, model(), *deployments, gateway())


def big(**spec: Any) -> Manifest:
    return deployment("big", nodes=2, **spec)


def small(replicas: int = 2, **spec: Any) -> Manifest:
    return deployment("small", nodes=1, replicas=replicas, **spec)


def wide(**spec: Any) -> Manifest:
    return deployment("wide", nodes={"min": 2, "max": 4}, **spec)


USUAL = cluster(big(), small(), wide())


# --- acts ------------------------------------------------------------------------------------------


def commit(*manifests: Manifest) -> Act:
    return lambda world: world.commit(manifests)


def crash(deployment: str, replica: int, rank: int, code: int | None = None, signal: int | None = 9) -> Act:
    def act(world: World) -> None:
        found = world.rank(deployment, replica, rank)
        if found is not None:
            world.oracles.excuse(ReplicaId(DeploymentName(deployment), replica))
            found.end(code, None if code is not None else signal, "")

    return act


def hang(deployment: str, replica: int, rank: int) -> Act:
    def act(world: World) -> None:
        found = world.rank(deployment, replica, rank)
        if found is not None:
            world.oracles.excuse(ReplicaId(DeploymentName(deployment), replica))
            found.hang()

    return act


def freeze(deployment: str, replica: int, rank: int) -> Act:
    """Somebody sends SIGSTOP."""

    def act(world: World) -> None:
        found = world.rank(deployment, replica, rank)
        if found is not None:
            world.note(f"{found} is stopped")
            found.freeze()

    return act


def kill_shim(deployment: str, replica: int, rank: int) -> Act:
    def act(world: World) -> None:
        found = world.rank(deployment, replica, rank)
        if found is not None:
            world.oracles.excuse(ReplicaId(DeploymentName(deployment), replica), 5.0)
            found.shim.die()

    return act


def kill_agent(name: str) -> Act:
    def act(world: World) -> None:
        agent = world.machines[name].agent
        if agent is not None:
            agent.die()

    return act


def kill_controller(world: World) -> None:
    if world.controller is not None:
        world.end_controller(world.controller.process)


def lose_store(world: World) -> None:
    kill_controller(world)
    world.note("the store is lost")
    world.new_store()


def cut_off(name: str) -> Act:
    return lambda world: world.cut_off(name)


def back(name: str) -> Act:
    return lambda world: world.reconnect(name)


def power_off(name: str) -> Act:
    def act(world: World) -> None:
        world.machines[name].power_off()

    return act


def power_on(name: str) -> Act:
    return lambda world: world.machines[name].power_on()


def unfit(name: str, **facts: Any) -> Act:
    """Probes tell something of a machine for which nothing new may be started there."""

    def act(world: World) -> None:
        machine = world.machines[name]
        world.note(f"{name}: {facts}")
        machine.facts = replace(machine.facts, **facts)
        machine.withheld_at = world.loop.now

    return act


def fit(name: str, **facts: Any) -> Act:
    """And now no more."""

    def act(world: World) -> None:
        machine = world.machines[name]
        world.note(f"{name}: {facts}")
        machine.facts = replace(machine.facts, **facts)
        machine.withheld_at = None

    return act


def cable(plugged: bool) -> Act:
    """Between a and b: whoever uses it when it is pulled does not survive that."""

    def act(world: World) -> None:
        world.note(f"the cable is {'in' if plugged else 'out'}")
        for name in ("a", "b"):
            machine = world.machines[name]
            (port,) = machine.sound.ports
            out = replace(port, connected=plugged, active=plugged, verbs_up=plugged)
            machine.facts = replace(machine.facts, ports=(out,))
        if not plugged:
            for rank in world.ranks():
                if rank.config.backend == "jaccl":
                    rank.end(None, 11, "")

    return act


def rdma(enabled: bool) -> Act:
    """On a: as a person may have it after a reinstallation; whoever uses it goes on until it ends."""

    def act(world: World) -> None:
        world.note(f"RDMA is {'on' if enabled else 'off'}")
        world.machines["a"].facts = replace(world.machines["a"].facts, rdma_enabled=enabled)

    return act


def nothing(world: World) -> None:
    """Until then it takes to be known."""


def stop_everything(world: World) -> None:
    """``reconciler down``: and nobody starts it again until ``begin_again``."""
    world.stopping = True
    world.supervised = False
    world.oracles.excuse_all()
    controller: Controller | None = world.controller
    if controller is None:
        controller = world.start_controller()
    world.loop.call_later(0.1, _stop, world)


def _stop(world: World) -> None:
    controller = world.controller
    if controller is None:  # it died: down says so, and the person tries again
        controller = world.start_controller()
    if controller.loop is None:
        world.loop.call_later(0.1, _stop, world)
        return
    world.loop.call_soon(controller.loop.stop_everything, context=controller.process.context)


def begin_again(world: World) -> None:
    """``reconciler up``."""
    world.stopping = False
    world.supervised = True
    world.oracles.excuse_all()
    if world.controller is None:
        world.start_controller()


A, B = NodeName("a"), NodeName("b")
CABLED = {
    "a": mac(port(3, (B, 4), "10.77.0.1")),
    "b": mac(port(4, (A, 3), "10.77.0.2")),
}

HEAVY = ModelReport("heavy", "/models/heavy", True, 20 * GIB, TINY)


def heavy(name: str, replicas: int) -> Manifest:
    return deployment(name, nodes=1, replicas=replicas, model="heavy")


def competing(first: int, second: int) -> tuple[Manifest, ...]:
    base = [node(name) for name in NAMES]
    return (*base, model("heavy", "heavy"), heavy("first", first), heavy("second", second), gateway())


_SCENARIOS = (
    Scenario("bring-up", cluster(big(), small(), wide(), deployment("other", nodes=2))),
    Scenario("rank-crash", USUAL, ((8, crash("big", 0, 1)), (14, crash("wide", 0, 0, code=1)))),
    Scenario("agent-death", USUAL, ((8, kill_agent("a")), (8.5, kill_agent("b")), (12, kill_agent("a")))),
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
    Scenario("node-lost", USUAL, ((8, cut_off("b")), (90, back("b"))), persons=(("node/b", "C0"),)),
    Scenario(
        "wired-memory",
        USUAL,
        (
            (8, unfit("b", wired_excess_bytes=20 * GIB)),
            (25, crash("wide", 0, 0)),
            (25, kill_controller),
            (60, fit("b", wired_excess_bytes=0)),
            (75, nothing),
        ),
        persons=(("node/b", "C11"),),
        system="Darwin",
    ),
    Scenario(
        "protection-domains",
        USUAL,
        (
            (8, unfit("c", protection_domains=4)),
            (12, crash("wide", 0, 1)),
            (100, crash("wide", 0, 1)),
            (140, fit("c", protection_domains=0)),
            (155, nothing),
        ),
        persons=(("node/c", "C7"),),
        system="Darwin",
    ),
    Scenario(
        "cable",
        USUAL,
        ((8, cable(False)), (60, cable(True)), (75, nothing)),
        persons=(("link/a/b", "C3"),),
        system="Darwin",
        facts=CABLED,
    ),
    Scenario(
        "rdma-off",
        USUAL,
        ((8, rdma(False)), (25, crash("big", 0, 1)), (60, rdma(True)), (75, nothing)),
        persons=(("node/a", "C2"),),
        system="Darwin",
        facts=CABLED,
    ),
    Scenario("reboot", USUAL, ((8, power_off("b")), (30, power_on("b")))),
    Scenario("store-lost", USUAL, ((8, lose_store),)),
    Scenario("hang", cluster(big(health={"stallAfter": "20s"}), small(), wide()), ((8, hang("big", 0, 1)),)),
    Scenario("stop-everything", cluster(big(), small()), ((8, stop_everything), (30, begin_again))),
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
            (0.9, commit(*cluster(small(2)))),
            (1.4, commit(*cluster(small(2), big()))),
            (2.1, commit(*cluster(small(2), big(serving={"context": 8192})))),
            (2.7, commit(*cluster(small(2), big(), wide()))),
            (3.4, commit(*cluster(small(2), wide()))),
            (4.0, commit(*cluster(small(1), big(), wide()))),
        ),
    ),
    Scenario("stopped-rank", USUAL, ((8, freeze("big", 0, 1)), (12, freeze("big", 0, 0)))),
    Scenario("shim-death", USUAL, ((8, kill_shim("big", 0, 1)), (14, kill_shim("wide", 0, 0)))),
)

SCENARIOS = {scenario.name: scenario for scenario in _SCENARIOS}
