"""Gateways of nodes: each runs where it is wanted, with the routes in force, and ends where it is not."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reconciler.planning import plan
from reconciler.resources import Gateway, Node
from reconciler.state import (
    BuildRuntime,
    Contact,
    ContinueGateway,
    Desired,
    GatewayObservation,
    GatewayProcess,
    Memory,
    NodeGatewayObservation,
    NodeName,
    NodeObservation,
    Observed,
    Plan,
    RefusedBecause,
    ReplaceGateway,
    SendRoutes,
    StartGateway,
    Step,
    StepFailure,
    StopAgent,
    StopGateway,
    WaitingFor,
)
from reconciler.state.identity import ObjectKey
from reconciler.state.machine.gateways import GatewaysInForce
from reconciler.state.machine.runtimes import Runtimes
from reconciler.state.node_steps import GatewayStep
from reconciler.state.plan import GatewayRefusal
from reconciler.wire.node import NodeReport
from tests.status.test_gateway import SSH
from tests.worlds import gateway, manifest, node

A, B = NodeName("a"), NodeName("b")
KEY = ObjectKey("Gateway", "main")
OURS, OLDER = "gateway-2.pyz", "gateway-1.pyz"
NEW, OLD = "digest-new", "digest-old"
REPORT = NodeReport(
    sequence=1, boot_id="boot", agent_id="agent", system="Darwin", release="25", machine="arm64", hostname="a",
    memory_bytes=2**36, cpus=8, host_id="host", python="/p", runtime={}, run_directory="/run", token=1,
)  # fmt: skip
GONE, RUNNING, STOPPED = GatewayProcess.GONE, GatewayProcess.RUNNING, GatewayProcess.STOPPED


@dataclass
class Machine:
    """The home of a gateway on a machine."""

    process: GatewayProcess = GONE
    program: str = ""
    files: str = ""
    reached: bool = True
    """Whether it answers."""
    seen: NodeGatewayObservation | None = None
    failing_seconds: float = 0.0
    cannot_listen: bool = False
    ends_in_a_row: int = 0

    def look(self, name: NodeName) -> NodeGatewayObservation | None:
        if self.reached:
            listens = self.process is RUNNING
            self.seen = NodeGatewayObservation(
                name,
                "0.0.0.0:8400" if listens else None,
                7 if self.process is not GONE else None,
                problem="" if listens else "it does not run: no last words",
                process=self.process,
                program=self.program if self.process is not GONE else "",
                files=self.files,
                cannot_listen=self.cannot_listen,
                failing_seconds=self.failing_seconds,
                ends_in_a_row=self.ends_in_a_row,
                last_end="it does not run: no such key" if self.ends_in_a_row else "",
            )
        elif self.seen is not None:
            self.seen = replace(self.seen, reached=False, problem="no route to host")
        return self.seen


@dataclass
class Cluster:
    """The gateways of some nodes. ``named``: those of the manifests; ``routed``: of the routes in force; None before
    there are any."""

    named: tuple[str, ...] = ("a",)
    routed: tuple[str, ...] | None = ("a",)
    machines: dict[NodeName, Machine] = field(default_factory=lambda: {A: Machine(), B: Machine()})
    nodes: dict[NodeName, Node] = field(
        default_factory=lambda: {name: manifest(Node, name, ssh=SSH, python="/p") for name in (A, B)}
    )
    remembered: set[NodeName] = field(default_factory=set)
    digest: str = NEW
    more: dict[str, Any] = field(default_factory=dict)
    """Further parts of the memory."""
    gateway: Gateway | None = None
    deleted: bool = False
    stopping: bool = False
    python: str = "/p"
    """The interpreter that the agents report."""

    def plan(self) -> Plan:
        wanted = None if self.deleted else gateway(auth={"mode": "keys"}, nodes=list(self.named))
        desired = Desired("r1", nodes=self.nodes, gateway=wanted, stopping=self.stopping)
        seen = {name: found for name, each in self.machines.items() if (found := each.look(name)) is not None}
        report = replace(REPORT, python=self.python)
        nodes = {name: NodeObservation(name, Contact.REACHED, 0.0, report=report) for name in (A, B)}
        files = None if self.routed is None else {NodeName(name): self.digest for name in self.routed}
        known = GatewaysInForce(files, OURS, frozenset(self.remembered))
        agents = {name: each.spec.access for name, each in self.nodes.items()}
        memory = Memory(**{"token": 1, "agents": agents, "gateways": known, **self.more})
        return plan(desired, Observed(nodes, GatewayObservation(1, "http://g/v1"), seen), memory, 100.0, "")

    def steps(self) -> list[Step]:
        return [step for step in self.plan().steps if isinstance(step, GatewayStep)]

    def waits(self) -> list[tuple[ObjectKey, WaitingFor]]:
        return [(each.object, each.reason) for each in self.plan().waiting if "gateway on" in each.text]

    def obey(self, steps: Iterable[Step]) -> None:
        for step in steps:
            assert isinstance(step, GatewayStep)
            machine = self.machines[step.node]
            assert machine.reached
            if isinstance(step, SendRoutes):
                self.remembered.add(step.node)
                machine.files = step.digest
            elif isinstance(step, StartGateway):
                assert machine.process is GONE
                self.remembered.add(step.node)
                machine.process, machine.program, machine.failing_seconds = RUNNING, OURS, 0.0
            elif isinstance(step, ContinueGateway):
                machine.process = RUNNING
            elif isinstance(step, ReplaceGateway):
                machine.process = GONE
            else:
                machine.process, machine.files = GONE, ""
                self.remembered.discard(step.node)

    def settle(self) -> list[str]:
        """Obey until there is nothing to do; the kinds of the steps."""
        done: list[str] = []
        for _ in range(6):
            steps = self.steps()
            if not steps:
                return done
            self.obey(steps)
            done += [type(step).__name__ for step in steps]
        raise AssertionError(f"still acting: {done}")


def serving(**changes: Any) -> Machine:
    return replace(Machine(RUNNING, OURS, NEW), **changes)


@pytest.mark.parametrize(
    ("machine", "expected"),
    [
        (Machine(), ["SendRoutes", "StartGateway"]),
        (Machine(files=NEW), ["StartGateway"]),
        (serving(), []),
        (serving(files=OLD), ["SendRoutes"]),
        (serving(files=""), ["SendRoutes"]),
        (serving(program=OLDER), ["ReplaceGateway", "StartGateway"]),
        (serving(program=OLDER, files=OLD), ["SendRoutes", "ReplaceGateway", "StartGateway"]),
        (serving(process=STOPPED), ["ContinueGateway"]),
        (serving(process=STOPPED, program=OLDER), ["ContinueGateway", "ReplaceGateway", "StartGateway"]),
    ],
)
def test_each_state_leads_to_a_gateway_with_the_routes_in_force(
    machine: Machine, expected: list[str]
) -> None:
    cluster = Cluster()
    cluster.machines[A] = machine
    assert cluster.settle() == expected
    assert (machine.process, machine.program, machine.files) == (RUNNING, OURS, NEW)
    assert cluster.waits() == []


@pytest.mark.parametrize("machine", [Machine(), Machine(files=OLD), serving(), serving(process=STOPPED)])
def test_one_that_is_not_wanted_any_more_ends_and_nothing_of_it_stays(machine: Machine) -> None:
    cluster = Cluster(named=(), routed=(), remembered={A})
    cluster.machines[A] = machine
    assert cluster.settle() == ["StopGateway"]
    assert (machine.process, machine.files, cluster.remembered) == (GONE, "", set())


def test_nothing_is_sent_and_nothing_ends_before_this_controller_has_routes() -> None:
    cluster = Cluster(named=("a",), routed=None, remembered={A, B})
    cluster.machines = {A: Machine(), B: serving()}
    assert cluster.steps() == []
    assert cluster.waits() == []
    cluster.routed = ()
    assert cluster.settle() == ["StopGateway"]
    assert cluster.waits() == [(KEY, WaitingFor.ROUTES)]


def test_one_that_cannot_be_seen_is_waited_for_and_left_as_it_is() -> None:
    cluster = Cluster(remembered={A, B})
    cluster.machines = {A: serving(files=OLD), B: serving()}
    cluster.plan()
    for machine in cluster.machines.values():
        machine.reached = False
    assert cluster.steps() == []
    assert cluster.waits() == [(KEY, WaitingFor.AGENT)] * 2
    assert cluster.plan().refused == ()


def test_one_that_was_never_looked_at_is_waited_for() -> None:
    cluster = Cluster()
    cluster.machines[A].reached = False
    assert cluster.steps() == []
    assert cluster.waits() == [(KEY, WaitingFor.AGENT)]


def test_a_step_in_flight_is_waited_for_and_one_that_failed_waits_its_turn() -> None:
    cluster = Cluster(more={"in_flight": frozenset({"gateway-on/a"})})
    assert cluster.steps() == []
    assert cluster.waits() == [(KEY, WaitingFor.STEP)]
    cluster = Cluster(more={"failures": {"start-gateway/a": StepFailure(3, 104.0, "no")}})
    cluster.machines[A] = Machine(files=NEW)
    assert cluster.steps() == []
    assert [(each.reason, each.until) for each in cluster.plan().waiting] == [(WaitingFor.BACK_OFF, 104.0)]


def test_a_dead_one_starts_with_old_routes_if_new_ones_cannot_be_written_there() -> None:
    cluster = Cluster(more={"failures": {"send-routes/a": StepFailure(1, 104.0, "no room")}})
    cluster.machines[A] = Machine(files=OLD)
    assert cluster.steps() == [StartGateway(A, KEY)]
    cluster.machines[A] = Machine()
    assert cluster.steps() == []


def test_a_name_without_a_node_and_one_on_the_controllers_machine_get_none() -> None:
    cluster = Cluster(named=("a", "c"), routed=("a", "c"), remembered={A})
    cluster.nodes = {A: node("a")}
    assert cluster.steps() == [StopGateway(A, KEY)], "it is only forgotten"
    cluster.obey(cluster.steps())
    assert cluster.steps() == []


def test_a_node_that_leaves_loses_its_gateway_before_its_agent() -> None:
    cluster = Cluster(named=(), routed=(), remembered={A})
    cluster.machines[A] = serving()
    access = cluster.nodes.pop(A).spec.access
    cluster.more = {"agents": {A: access}}
    assert cluster.plan().steps == (StopGateway(A, KEY),)
    cluster.obey(cluster.steps())
    assert cluster.plan().steps == (StopAgent(A),)


def test_without_a_gateway_those_of_the_last_one_listen_on_and_steps_are_about_nodes() -> None:
    cluster = Cluster(deleted=True, remembered={A})
    cluster.machines[A] = serving(files=OLD)
    assert cluster.steps() == [SendRoutes(A, ObjectKey("Node", "a"), NEW)]
    cluster.machines[A] = serving(failing_seconds=1e6)
    assert cluster.plan().refused == ()


def test_while_everything_stops_routes_are_sent_and_no_gateway_starts_or_ends() -> None:
    cluster = Cluster(stopping=True, remembered={A})
    cluster.machines[A] = serving(files=OLD)
    assert cluster.settle() == ["SendRoutes"]
    cluster.machines[A] = Machine(files=NEW)
    assert cluster.settle() == []


def test_a_runtime_that_is_being_built_is_waited_for() -> None:
    cluster = Cluster(more={"in_flight": frozenset({BuildRuntime(A).subject})})
    cluster.nodes[A] = manifest(Node, "a", ssh=SSH)
    cluster.machines[A] = Machine(files=NEW, failing_seconds=600.0)
    cluster.more["runtimes"] = Runtimes({"Darwin/arm64": "0123456789ab"})
    cluster.python = "/usr/bin/python3"
    assert cluster.steps() == []
    assert (KEY, WaitingFor.RUNTIME) in cluster.waits()
    assert cluster.plan().refused == ()


@pytest.mark.parametrize(
    ("machine", "reason"),
    [
        (Machine(files=NEW, failing_seconds=21.0), RefusedBecause.NO_GATEWAY),
        (Machine(files=NEW, failing_seconds=21.0, cannot_listen=True), RefusedBecause.CANNOT_LISTEN),
        (serving(failing_seconds=21.0, cannot_listen=True), RefusedBecause.CANNOT_LISTEN),
        (Machine(files=NEW, failing_seconds=19.0), None),
    ],
)
def test_one_that_does_not_serve_for_longer_than_a_start_is_refused_with_its_node(
    machine: Machine, reason: RefusedBecause | None
) -> None:
    cluster = Cluster(remembered={A})
    cluster.machines[A] = machine
    found = cluster.plan().refused
    assert [each.reason for each in found] == ([reason] if reason else [])
    assert [each.node for each in found if isinstance(each, GatewayRefusal)] == ([A] if reason else [])
    machine.reached = False
    assert [each.reason for each in cluster.plan().refused] == ([reason] if reason else []), "as seen last"


@pytest.mark.parametrize(
    ("ends", "failing", "until"),
    [(1, 0.0, None), (2, 0.0, 110.0), (2, 4.0, 106.0), (2, 10.0, None), (4, 0.0, 140.0), (30, 0.0, 400.0)],
)
def test_one_that_ends_again_and_again_is_started_later_each_time(
    ends: int, failing: float, until: float | None
) -> None:
    cluster = Cluster(remembered={A})
    cluster.machines[A] = Machine(files=NEW, ends_in_a_row=ends, failing_seconds=failing)
    assert cluster.steps() == ([StartGateway(A, KEY)] if until is None else [])
    assert [(each.reason, each.until) for each in cluster.plan().waiting if "gateway on" in each.text] == (
        [] if until is None else [(WaitingFor.BACK_OFF, until)]
    )


@pytest.mark.parametrize("machine", [Machine(files=NEW), serving()])
def test_a_person_is_told_of_one_that_ends_again_and_again_whether_it_runs_just_now_or_not(
    machine: Machine,
) -> None:
    cluster = Cluster(remembered={A})
    cluster.machines[A] = replace(machine, ends_in_a_row=2)
    assert cluster.plan().refused == ()
    cluster.machines[A] = replace(machine, ends_in_a_row=3)
    (refused,) = cluster.plan().refused
    assert refused.reason is RefusedBecause.NO_GATEWAY
    assert (
        refused.text
        == "the gateway on a: it has ended 3 times in a row, the last time: it does not run: no such key"
    )


# --- whatever happens --------------------------------------------------------------------------------

HAPPENINGS = (
    "dies", "is stopped", "loses its files", "is cut off", "answers again", "gets older", "is wanted", "is not wanted",
    "routes change", "nothing",
)  # fmt: skip


def happens(cluster: Cluster, name: NodeName, what: str) -> None:
    machine, named = cluster.machines[name], set(cluster.named)
    match what:
        case "dies":
            machine.process = GONE
        case "is stopped":
            machine.process = STOPPED if machine.process is RUNNING else machine.process
        case "loses its files":
            machine.files = ""
        case "is cut off" | "answers again":
            machine.reached = what == "answers again"
        case "gets older":
            machine.program = OLDER
        case "is wanted":
            cluster.named = tuple(sorted(named | {name}))
        case "is not wanted":
            cluster.named = tuple(sorted(named - {name}))
        case "routes change":
            cluster.digest += "+"
        case _:
            pass


@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(st.sampled_from((A, B)), st.sampled_from(HAPPENINGS), st.booleans()), max_size=14))
def test_none_starts_where_it_is_not_wanted_none_ends_where_it_is_and_all_settle(
    history: list[tuple[NodeName, str, bool]],
) -> None:
    cluster = Cluster(routed=None)

    def passed() -> int:
        steps = cluster.steps()
        for step in steps:
            assert (step.node in cluster.named) != isinstance(step, StopGateway)  # type: ignore[union-attr]
        assert len({step.subject for step in steps}) == len(steps)
        cluster.obey(steps)
        cluster.routed = cluster.named  # the pass ends with the routes that follow
        return len(steps)

    for name, what, passes in history:
        happens(cluster, name, what)
        if passes:
            passed()
    for machine in cluster.machines.values():
        machine.reached = True
    for _ in range(6):
        passed()
    assert passed() == 0
    assert cluster.waits() == []
    assert sorted(cluster.remembered) == list(cluster.named)
    for name, machine in cluster.machines.items():
        wanted = name in cluster.named
        assert machine.files == (cluster.digest if wanted else "")
        assert (machine.process is RUNNING and machine.program == OURS) == wanted
