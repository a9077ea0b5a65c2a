"""What befalls a world from outside, and what people do in it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from reconciler.planning.diagnosis.detectors import PANICS_MAX
from reconciler.resources import Manifest
from reconciler.state import DeploymentName, NodeName, PortFacts, ReplicaId
from tests.simulation.oracles.pruning import replica_of
from tests.simulation.world.control import Controller
from tests.simulation.world.machines import Machine
from tests.simulation.world.ranks import Rank
from tests.simulation.world.world import World

Act = Callable[[World], None]


def commit(*manifests: Manifest) -> Act:
    return lambda world: world.commit(manifests)


def _to_rank(deployment: str, replica: int, rank: int, do: Callable[[Rank], None], *excused: float) -> Act:
    """Do something that ends the group of a rank, if it is there."""

    def act(world: World) -> None:
        found = world.rank(deployment, replica, rank)
        if found is not None:
            world.oracles.excuse(ReplicaId(DeploymentName(deployment), replica), *excused)
            do(found)

    return act


def crash(deployment: str, replica: int, rank: int, code: int | None = None, signal: int | None = 9) -> Act:
    killed_by = None if code is not None else signal
    return _to_rank(deployment, replica, rank, lambda found: found.end(code, killed_by, ""))


def hang(deployment: str, replica: int, rank: int) -> Act:
    return _to_rank(deployment, replica, rank, lambda found: found.hang())


def deafen(deployment: str, replica: int, _: int = 0) -> Act:
    """Its rank 0 takes no requests any more."""
    return _to_rank(deployment, replica, 0, lambda found: found.deafen())


def kill_shim(deployment: str, replica: int, rank: int) -> Act:
    return _to_rank(deployment, replica, rank, lambda found: found.shim.die(), 5.0)


def freeze(deployment: str, replica: int, rank: int) -> Act:
    """Somebody sends SIGSTOP."""

    def act(world: World) -> None:
        found = world.rank(deployment, replica, rank)
        if found is not None:
            world.note(f"{found} is stopped")
            found.freeze()

    return act


def kill_agent(name: str) -> Act:
    def act(world: World) -> None:
        agent = world.machines[name].agent
        if agent is not None:
            agent.die()

    return act


def hang_agent(name: str) -> Act:
    """It lives, and answers nobody."""

    def act(world: World) -> None:
        agent = world.machines[name].agent
        if agent is not None:
            world.note(f"{agent.process.name} hangs")
            world.oracles.excuse_unproven_on(world.machines[name])
            agent.hang()

    return act


def kill_controller(world: World) -> None:
    if world.controller is not None:
        world.end_controller(world.controller.process)


def lose_store(world: World) -> None:
    kill_controller(world)
    world.new_store()


def lose_tables(*names: str) -> Act:
    """Some tables of the store are empty when the next controller opens it."""

    def act(world: World) -> None:
        kill_controller(world)
        world.lose_tables(names)

    return act


def back_up(world: World) -> None:
    """``reconciler backup``, which stops nothing."""
    world.back_up()


def restore_backup(world: World) -> None:
    """An older copy of the store takes its place."""
    kill_controller(world)
    world.restore_backup()


def cut_off(name: str) -> Act:
    return lambda world: world.cut_off(name)


def stranger(name: str, ports: int) -> Act:
    """Somebody listens on the ports that the next ranks of a machine are given, before they do."""

    def act(world: World) -> None:
        world.note(f"a stranger takes {ports} ports of {name}")
        world.machines[name].taken = ports

    return act


def back(name: str) -> Act:
    return lambda world: world.reconnect(name)


def power_off(name: str) -> Act:
    def act(world: World) -> None:
        world.machines[name].power_off()

    return act


def power_on(name: str) -> Act:
    return lambda world: world.machines[name].power_on()


def panic(name: str) -> Act:
    """Its kernel gives up, as it may have for those that ran there; it is up again in a moment."""

    def act(world: World) -> None:
        machine = world.machines[name]
        world.note(f"{name} panics")
        alive = machine.alive()
        machine.panicked = {
            replica_of(r.id) for r in alive if r.config.job is None and world.oracles.formed_as_things_are(r)
        }
        machine.harmed += any(rank.config.job is not None for rank in alive)  # which counts as the cause
        machine.panics += 1
        machine.power_off()
        world.loop.call_later(4.0, machine.power_on)

    return act


def panics_are_old(name: str) -> Act:
    """An hour later the reports of panics say nothing any more."""

    def act(world: World) -> None:
        machine = world.machines[name]
        world.note(f"the panics of {name} are old")
        if machine.panics - machine.harmed >= PANICS_MAX:
            waiting = machine.panicked - {replica_of(rank.id) for rank in world.ranks()}
            world.persons |= {(f"replica/{replica}", "C12") for replica in waiting}
        machine.panics, machine.harmed, machine.panicked = 0, 0, set()

    return act


def unfit(name: str, **facts: Any) -> Act:
    """Probes tell something of a machine for which nothing new may be started there."""
    return lambda world: _tell(world, name, facts, world.loop.now)


def fit(name: str, **facts: Any) -> Act:
    """And now no more."""
    return lambda world: _tell(world, name, facts, None)


def _tell(world: World, name: str, facts: dict[str, Any], withheld_at: float | None) -> None:
    machine = world.machines[name]
    world.changed(f"{name}: {facts}")
    machine.facts = replace(machine.facts, **facts)
    machine.withheld_at = withheld_at


def cable(plugged: bool) -> Act:
    """Between a and b: whoever uses it when it is pulled does not survive that."""

    def act(world: World) -> None:
        world.changed(f"the cable is {'in' if plugged else 'out'}")
        for name in ("a", "b"):
            machine = world.machines[name]
            plug = replace(_as_cabled(machine), connected=plugged, active=plugged, verbs_up=plugged)
            machine.facts = replace(machine.facts, ports=(plug,))
        if not plugged:
            for rank in world.ranks():
                if rank.config.backend == "jaccl":
                    rank.end(None, 11, "")

    return act


def _as_cabled(machine: Machine) -> PortFacts:
    """Its port with the cable that belongs there; its settings are not the cable's."""
    (sound,), (now,) = machine.sound.ports, machine.facts.ports
    return replace(sound, bridged=now.bridged, address=now.address, mapped_gid=now.mapped_gid)


def slow_cable(slow: bool) -> Act:
    """Between a and b: whoever uses it goes on."""

    def act(world: World) -> None:
        world.changed(f"the cable is {'slow' if slow else 'fast'}")
        for name in ("a", "b"):
            machine = world.machines[name]
            machine.facts = replace(
                machine.facts,
                ports=tuple(replace(port, gbps=40 if slow else 80) for port in machine.facts.ports),
            )

    return act


def swap_cable(swapped: bool) -> Act:
    """The one between a and b leads from a to c instead."""

    def act(world: World) -> None:
        world.changed(f"the cable from a leads to {'c' if swapped else 'b'}")
        a, b, c = (world.machines[name] for name in "abc")
        there, left = _as_cabled(a), _as_cabled(b)
        if swapped:
            there = replace(there, peer=(NodeName("c"), 3))
            left = replace(left, connected=False, active=False, verbs_up=False, peer=None)
        for machine, found in ((a, there), (b, left)):
            machine.facts = replace(machine.facts, ports=(found,))
        other_end = (replace(a.sound.ports[0], peer=(NodeName("a"), 3), address="10.77.0.3"),)
        c.facts = replace(c.facts, ports=other_end if swapped else ())
        users = [rank for rank in world.ranks() if swapped and rank.config.backend == "jaccl"]
        world.persons |= {("link/a/b", "C3") for rank in users}
        for rank in users:
            rank.end(None, 11, "")

    return act


def lose_ipv4(name: str) -> Act:
    """macOS takes the address of its port away; who has connections goes on with them."""

    def act(world: World) -> None:
        world.changed(f"{name} loses its IPv4 addresses")
        machine = world.machines[name]
        bare = tuple(replace(port, address="", mapped_gid=False) for port in machine.facts.ports)
        machine.facts = replace(machine.facts, ports=bare)

    return act


def rdma(enabled: bool) -> Act:
    """On a: as a person may have it after a reinstallation; whoever uses it goes on until it ends."""

    def act(world: World) -> None:
        world.changed(f"RDMA is {'on' if enabled else 'off'}")
        world.machines["a"].facts = replace(world.machines["a"].facts, rdma_enabled=enabled)

    return act


def garbage(name: str, spoiled: bool = True) -> Act:
    """What a machine receives over RDMA is wrong, without an error; the ranks that serve do not notice."""

    def act(world: World) -> None:
        world.changed(f"RDMA gives {'wrong' if spoiled else 'right'} results on {name}")
        world.machines[name].garbage = spoiled

    return act


def update(names: Sequence[str], version: tuple[int, ...]) -> Act:
    """Machines have another version of macOS."""

    def act(world: World) -> None:
        for name in names:
            world.changed(f"{name} has macOS {version}")
            machine = world.machines[name]
            machine.facts = replace(machine.facts, version=version)
            machine.sound = replace(machine.sound, version=version)

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
    """``reconciler up``: which is refused as long as one that was told to stop has not."""
    if world.controller is not None:
        world.loop.call_later(1.0, begin_again, world)
        return
    world.stopping = False
    world.supervised = True
    world.oracles.excuse_all()
    world.start_controller()
