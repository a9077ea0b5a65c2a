"""Faults of ports on emulated Macs, through all that meets them: what the tools print, what the probes read, what the plan
does, what people are told, and what is left when the fault is taken back.

A repair is run by the emulated tools. What is undone by something on the machine is undone after the repair was confirmed, or
before.
"""

from __future__ import annotations

import functools
import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from reconciler import status
from reconciler.doctor import examine
from reconciler.planning.nodes.repair import ATTEMPTS_MAX, REPAIRS_MAX
from reconciler.planning.transport.link_addresses import all_addresses
from reconciler.resources import End
from reconciler.sandbox.acts.act import Moment
from reconciler.sandbox.acts.ports import FOREIGN
from reconciler.sandbox.commands import happen
from reconciler.sandbox.world import changes, macs, preconditions
from reconciler.sandbox.world.state import Port
from reconciler.sandbox.world.state import World as Emulated
from reconciler.state import ConfirmRepair, MachineFacts, NodeName, RepairNode
from reconciler.status import Snapshots
from reconciler.wire.repair import CONFIRM_SECONDS, RepairState
from tests.examples import examples
from tests.worlds import World, deployment, fabric, model, node

from .test_tools import NOW, probed, run_tool

NAMES = ("n1", "n2", "n3")
UNCABLED = 3
"""The receptacle of each Mac that has no cable."""
ROUNDS = 8
"""More than it takes until repairs are given up."""
EARLY, LATE = "before it is confirmed", "after it was confirmed"


@functools.lru_cache(maxsize=1000)
def read(emulated: Emulated) -> Mapping[NodeName, MachineFacts]:
    """What the probes read of all machines."""
    return probed(emulated)


@dataclass
class Bench(World):
    """A controller's view of three emulated Macs that are joined each with each."""

    emulated: Emulated = field(default_factory=lambda: Emulated(()))
    undone: str = LATE
    """When something undoes a repair."""
    checked: int = 0
    """The epoch whose preconditions were last compared with the machines."""

    def happens(self, line: str, undo: bool = False) -> None:
        """Somebody types a command of ``reconciler sandbox``."""
        name, *words = line.split()
        self.emulated = happen(self.emulated, name, words, Moment(NOW, f"boot-{self.now}"), undo).world
        self.look()

    def types(self, name: str, *argv: str) -> int:
        """Root types a command on a machine; its exit status."""
        came = run_tool(self.emulated, name, *argv)
        self.emulated = came.world or self.emulated
        return came.code

    def look(self) -> None:
        """The probes run on every machine."""
        self.facts = dict(read(self.emulated))
        self.boots = {NodeName(machine.name): machine.boot_id for machine in self.emulated.machines}

    def something_undoes(self) -> None:
        """What undoes settings has had the time for it."""
        for machine in self.emulated.machines:
            for port in machine.ports:
                self.emulated = changes.restore(self.emulated, machine.name, port.receptacle)
        self.look()

    def _repair(self, step: RepairNode | ConfirmRepair) -> None:
        super()._repair(step)
        if isinstance(step, ConfirmRepair):
            return
        report = self.repairs[step.node]
        for at, change in enumerate(step.changes):
            if self.types(step.node, *change.argv):
                self._take_back(step.node, at)
                break
        if self.undone == EARLY:
            self.something_undoes()
        self.look()
        assert report.changes == step.changes

    def _take_back(self, name: NodeName, made: int) -> None:
        """The agent undoes the changes of a repair that were made, the last first."""
        report = self.repairs[name]
        for change in reversed(report.changes[:made]):
            self.types(name, *change.undo)
        self.repairs[name] = replace(report, state=RepairState.UNDONE, problem="nobody has confirmed it")

    def a_while(self) -> None:
        """The controller works for a minute, and something undoes what it did."""
        self.settle()
        self._compare()
        self.pass_time(self.now + CONFIRM_SECONDS + 10)
        for name, report in list(self.repairs.items()):
            if report.state == RepairState.WAITING:
                self._take_back(name, len(report.changes))
        self.something_undoes()

    def _compare(self) -> None:
        """A group that was just formed over RDMA finds each device and GID, at addresses that are there."""
        group = next(iter(self.groups.values()), None)
        if group is None or group.epoch == self.checked or group.transport not in ("jaccl", "jaccl-ring"):
            return
        self.checked = group.epoch
        for cable in self.emulated.cables:
            for here, there in (cable.ends, cable.ends[::-1]):
                if {here[0], there[0]} <= set(group.members):
                    device = self.emulated.port(here).device
                    assert not preconditions.opening(self.emulated, NOW, here[0], [device], {})
                    assert not preconditions.joining(self.emulated, here, there)
                    assert self.emulated.port(here).ip

    def told(self) -> str:
        """All that people read of the machines."""
        plan = self.plan()
        now = Snapshots(self.desired(), self.observed(), self.memory(), plan, self.now)
        texts = [each.told for each in plan.refused] + [
            f"{each.seen} {each.person}" for each in plan.troubles
        ]
        found = examine(now)
        texts += [f"{each.seen}: {each.steps}" for each in found.findings]
        texts += [f"{name}: {what}" for name, what in _unknown(self)]
        texts += [c.told for state in status.statuses(now, {}).values() for c in state.conditions if c.told]
        return "\n".join(texts)

    def repairs_of(self, name: str) -> list[RepairNode]:
        return [step for step in self.done(RepairNode) if step.node == name]

    def as_declared(self, end: End) -> bool:
        port = self.emulated.port((end.node, end.receptacle))
        return not port.bridged and str(all_addresses(self.desired())[end].ip) in port.ips


def _unknown(bench: Bench) -> Iterator[tuple[str, str]]:
    for name, facts in sorted(bench.facts.items()):
        yield from ((name, f"{probe}: {why}") for probe, why in facts.unknown)


def bench(undone: str = LATE, **repair: bool) -> Bench:
    """Three Macs whose ports are as their Fabric declares them, and a group over RDMA."""
    emulated = macs.world(NAMES, "mini", macs.MESH, [f"boot of {name}" for name in NAMES], NOW - 999)
    links = [tuple(f"{name}/{number}" for name, number in cable.ends) for cable in emulated.cables]
    cables = fabric("minis", *((one, other) for one, other in links), pool="10.77.0.0/16")
    allowed = repair or {"network": True}
    nodes = [node(name, repair=allowed) for name in NAMES]
    world = Bench(
        [
            *nodes,
            model(),
            deployment(nodes=3, strategy="pipeline", transport=["jaccl", "ring", "ring-lan"]),
            cables,
        ]
    )
    world.system, world.agents = "Darwin", {NodeName(name) for name in NAMES}
    world.stubborn, world.undone = set(NAMES), undone
    declared = {
        (end.node, end.receptacle): f"{at.ip}/30" for end, at in all_addresses(world.desired()).items()
    }
    world.emulated = changes.addressed(emulated, declared)
    world.look()
    world.a_while()
    assert next(iter(world.groups.values())).transport == "jaccl"
    world.history.clear()
    return world


def ends(world: Bench) -> list[End]:
    return sorted(End(name, number) for cable in world.emulated.cables for name, number in cable.ends)


def loses_a_rank(world: Bench, name: str) -> None:
    """The group of a machine ends, so that it is formed again, and ports may be repaired before."""
    for rank, (place, _) in list(world.ranks.items()):
        if place == name and rank in world.alive():
            world.end_rank(rank, signal=9)


@dataclass(frozen=True)
class Fault:
    """A fault of a port. ``{end}`` is the port, ``{interface}`` that of it, ``{node}`` its machine, ``{peer}`` the machine
    at its other end."""

    lines: tuple[str, ...]
    """Commands of ``reconciler sandbox``."""
    told: str = ""
    """What a person reads when nothing more is repaired, as a regular expression; empty where nobody has to do anything."""
    repaired: bool = False
    """Whether the ports of the cable are as declared in the end."""


SHARED = (
    "member of bridge100, as if it shared its internet(.|\n)*(of {peer} goes over a cable: {node} shares its internet"
    "|switch off Internet Sharing on {node})"
)
FAULTS: Mapping[str, Fault] = {
    "in the bridge": Fault(("bridge {end}",), repaired=True),
    "no address": Fault(("lose-ipv4 {end}",), repaired=True),
    "an automatic address": Fault(("change-address {end}",), repaired=True),
    "a second address": Fault(("second-address {end}",), repaired=True),
    "an automatic address before its own": Fault(("second-address {end} first",), repaired=True),
    "no service": Fault(("no-service {end}", "bridge {end}"), repaired=True),
    "an automatic address that comes back": Fault(
        ("keep-address {end} 5",),
        r"macOS gives en\d of {node} 169[.]254[.]\d+[.]\d+ by itself, .*: sudo networksetup -setmanual 'Thunderbolt \d' 10[.]",
    ),
    "no service that could bring one back": Fault(
        ("keep-address {end} 5", "no-service {end}"), repaired=True
    ),
    "a bridge that takes it back": Fault(
        ("retake {end} 5",),
        "3 times since {node} booted(.|\n)*ifconfig bridge0 deletem {interface}(.|\n)*end what sets the network there",
    ),
    "the internet of this machine": Fault(("share-internet {end} 5",), SHARED),
    "a name in another language": Fault(("port-name {end}",), r"is called Thunderbolt \d"),
    "the name of another port": Fault(("port-name {end} Thunderbolt 3",), "is called Thunderbolt [1-3]"),
    "in a bridge with an adapter": Fault(
        ("adapter {node}", "bridge {end}"), "bridge0 of {node} also has en20, with an Ethernet cable"
    ),
}


ASKED = "in a bridge with an adapter"
"""A person is asked before any port of this machine leaves the bridge."""


def met(drawn: Mapping[End, str], end: End) -> Fault:
    """What is expected of a port, beside the faults of the others."""
    mine = FAULTS[drawn[end]]
    bridged = any(line.startswith(("bridge", "retake")) for line in mine.lines)
    asked = any(name == ASKED for other, name in drawn.items() if other.node == end.node)
    return FAULTS[ASKED] if bridged and asked else mine


def taken_back(world: Bench, lines: list[str]) -> None:
    """Each fault is taken back, and every machine restarts, after which nothing counts as tried."""
    for line in reversed(lines):
        world.happens(line, undo=True)
    for name in NAMES:
        world.happens(f"reboot {name} 0")
        for rank in world.alive():
            if world.ranks[rank][0] == name:
                world.end_rank(rank, signal=9)
    world.pass_time(world.now + 7200)
    for _ in range(3):
        world.a_while()


def filled(text: str, world: Bench, end: End, escaped: bool = False) -> str:
    peer = world.emulated.peer_of((end.node, end.receptacle))
    assert peer is not None
    interface = world.emulated.port((end.node, end.receptacle)).interface
    words = {"end": str(end), "node": end.node, "peer": peer[0], "interface": interface}
    for word, value in words.items():
        text = text.replace("{" + word + "}", re.escape(value) if escaped else value)
    return text


def touched(world: Bench) -> Iterator[tuple[str, Port]]:
    """The machine and the port that each change of a repair is about."""
    for step in world.done(RepairNode):
        for change in step.changes:
            interface = change.argv[3] if change.argv[1] == "bridge0" else change.argv[1]
            port = world.emulated.machine(step.node).port_of(interface)
            assert port is not None
            yield step.node, port


@pytest.mark.parametrize("undone", [EARLY, LATE])
@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_of_a_port_is_repaired_or_told_and_nothing_is_left_of_it(name: str, undone: str) -> None:
    play({End("n1", 1): name}, undone)


@settings(max_examples=examples(20))
@given(
    st.dictionaries(
        st.sampled_from([End("n1", 1), End("n1", 2), End("n2", 2)]),
        st.sampled_from(sorted(FAULTS)),
        min_size=2,
    ),
    st.sampled_from([EARLY, LATE]),
)
@example(dict.fromkeys((End("n1", 2), End("n2", 2)), "the internet of this machine"), LATE)
@example({End("n1", 1): "a bridge that takes it back", End("n1", 2): "an automatic address"}, EARLY)
def test_faults_of_several_ports_do_no_harm_to_other_ports(faults: dict[End, str], undone: str) -> None:
    play(faults, undone)


def play(drawn: dict[End, str], undone: str) -> None:
    """Break the ports, each of another cable; look for a time at what follows; take the faults back."""
    world = bench(undone)
    lines = [filled(line, world, end) for end, name in drawn.items() for line in FAULTS[name].lines]
    free = {name: world.emulated.port((name, UNCABLED)) for name in NAMES}
    for line in lines:
        world.happens(line)
    for _ in range(ROUNDS):
        for name in NAMES:
            loses_a_rank(world, name)
        world.pass_time(world.now + 7200)
        world.a_while()
    told = world.told()
    for name in NAMES:
        tried = [step.id for step in world.repairs_of(name)]
        assert len(tried) <= REPAIRS_MAX
        assert all(tried.count(id) <= ATTEMPTS_MAX for id in tried)
        assert world.emulated.port((name, UNCABLED)) == free[name]
    assert all(port.receptacle != UNCABLED for _, port in touched(world))
    for cable in world.emulated.cables:
        both = [End(*each) for each in cable.ends]
        if all(met(drawn, end).repaired for end in both if end in drawn):
            assert all(map(world.as_declared, both)), (drawn, told)
    for end in drawn:
        assert re.search(filled(met(drawn, end).told, world, end, escaped=True), told), (drawn, told)
    taken_back(world, lines)
    assert (world.plan().steps, world.plan().refused) == ((), ())
    assert all(world.as_declared(end) for end in ends(world)), world.told()
    assert FOREIGN not in str(world.emulated)


def typed(world: Bench, pattern: str) -> None:
    """A person types a command that people read, on the first machine."""
    found = re.search(f"sudo ({pattern})", world.told())
    assert found, world.told()
    assert world.types("n1", *shlex.split(found[1])) == 0
    world.look()


@pytest.mark.parametrize(
    ("name", "pattern"),
    [
        ("an automatic address that comes back", r"networksetup -setmanual '[^']+' [0-9.]+ [0-9.]+"),
        ("in a bridge with an adapter", r"ifconfig bridge0 deletem en20"),
    ],
)
def test_what_people_are_told_to_type_ends_the_fault(name: str, pattern: str) -> None:
    world = bench()
    for line in FAULTS[name].lines:
        world.happens(filled(line, world, End("n1", 1)))
    for _ in range(ROUNDS):
        loses_a_rank(world, "n1")
        world.pass_time(world.now + 7200)
        world.a_while()
    typed(world, pattern)
    for _ in range(ROUNDS):
        loses_a_rank(world, "n1")
        world.pass_time(world.now + 7200)
        world.a_while()
    assert (world.plan().steps, world.plan().refused) == ((), ())
    assert all(map(world.as_declared, ends(world)))
    assert next(iter(world.groups.values())).transport == "jaccl"
