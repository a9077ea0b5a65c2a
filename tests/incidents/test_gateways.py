"""The gateway of a node that does not serve is one incident, until it serves again or is not wanted any more."""

from __future__ import annotations

from dataclasses import replace

from reconciler.resources import Node
from reconciler.state import (
    GatewayProcess,
    NodeGatewayObservation,
    NodeName,
    Outcome,
    RefusedBecause,
    StartGateway,
)
from reconciler.state.identity import ObjectKey
from reconciler.state.machine.gateways import GatewaysInForce
from reconciler.state.reports.incident import EntryKind, Occasion
from reconciler.state.subjects import GatewaySubject, read
from reconciler.status.unserved import UNSERVED_SECONDS
from tests.incidents.log import Log
from tests.status.test_gateway import SSH
from tests.worlds import World, gateway, manifest

B, C = NodeName("b"), NodeName("c")
KEY = ObjectKey("Gateway", "main")
GOOD = NodeGatewayObservation(
    B, "0.0.0.0:8400", 7, process=GatewayProcess.RUNNING, program="gateway-1.pyz", files="digest"
)
DEAD = NodeGatewayObservation(B, problem="it does not run: oh", process=GatewayProcess.GONE, files="digest")


def of(*names: NodeName) -> Log:
    nodes = [manifest(Node, name, ssh=SSH, python="/usr/bin/python3") for name in (B, C)]
    world = World([*nodes, gateway(auth={"mode": "keys"}, nodes=list(names))])
    world.gateways = GatewaysInForce(dict.fromkeys(names, "digest"), "gateway-1.pyz", frozenset(names))
    log = Log(world)
    see(log, 0.0, *(replace(GOOD, node=name) for name in names))
    return log


def see(log: Log, seconds: float, *seen: NodeGatewayObservation) -> None:
    """Passes for so many seconds, in which the gateways that fail do so for longer and longer."""
    began = log.world.now
    while True:
        ahead = log.world.now - began
        log.world.gateways_on_nodes = {
            each.node: each if each.serves else replace(each, failing_seconds=each.failing_seconds + ahead)
            for each in seen
        }
        decided = log.world.plan()
        log.follow(decided)
        for step in decided.steps:
            if not isinstance(step, StartGateway):
                log.world.obey(step)
            elif ahead % 20 == 0:
                log.outcomes.append((log.world.now, Outcome(step, 10.0, "it does not listen")))
        if ahead >= seconds:
            return
        log.world.now += 5.0


def open_(log: Log) -> list[tuple[str, str]]:
    return [(str(each.subject), each.fault.value) for each in log.known.values() if each.open]


def test_it_is_one_incident_after_a_minute_with_its_steps_and_ends_when_it_serves() -> None:
    log = of(B)
    see(log, UNSERVED_SECONDS - 5, DEAD)
    assert open_(log) == []
    began = log.world.now - (UNSERVED_SECONDS - 5)
    see(log, 300, replace(DEAD, failing_seconds=UNSERVED_SECONDS - 5))
    assert open_(log) == [("gateway-on/b", RefusedBecause.NO_GATEWAY.value)]
    incident = log.the()
    assert (incident.object, incident.subject, incident.opened_at) == (KEY, GatewaySubject(B), began)
    assert read(str(incident.subject)) == incident.subject
    assert log.texts(EntryKind.SEEN) == ["the gateway on b: it does not run: oh"]
    assert any("start the gateway on b: failed" in text for text in log.texts(EntryKind.TRIED))
    assert log.occasions == [(1, Occasion.OPENED), (1, Occasion.PERSON_NEEDED)]
    see(log, 0, GOOD)
    assert open_(log) == []
    assert log.texts(EntryKind.OUTCOME) == ["the gateway on b serves again"]


def test_it_stays_open_while_it_cannot_be_seen_and_over_a_restart_of_the_controller() -> None:
    log = of(B)
    see(log, 100, DEAD)
    see(log, 50, replace(DEAD, reached=False, problem="no route to host", failing_seconds=100.0))
    log.world.gateways_on_nodes = {}
    log.follow(log.world.plan())
    see(log, 30, DEAD)
    assert open_(log) == [("gateway-on/b", "GatewayNotRunning")]
    assert len(log.occasions) == 2


def test_one_that_ends_again_and_again_is_one_incident_although_it_runs_at_times() -> None:
    log = of(B)
    again = replace(GOOD, ends_in_a_row=3, last_end="it does not run: oh", ending_seconds=50.0)
    see(log, 0, again)
    assert open_(log) == []
    see(log, 0, replace(again, ending_seconds=60.0))
    see(log, 30, replace(DEAD, ends_in_a_row=4, last_end="it does not run: oh", ending_seconds=70.0))
    see(log, 25, replace(again, ends_in_a_row=4, ending_seconds=100.0))
    assert open_(log) == [("gateway-on/b", "GatewayNotRunning")]
    assert log.occasions == [(1, Occasion.OPENED), (1, Occasion.PERSON_NEEDED)]
    see(log, 0, GOOD)
    assert open_(log) == []
    assert log.texts(EntryKind.OUTCOME) == ["the gateway on b serves again"]


def test_one_that_is_only_out_of_sight_is_none() -> None:
    log = of(B)
    see(log, 600, replace(GOOD, reached=False, problem="no route to host"))
    assert log.known == {}


def test_each_node_has_its_own_and_one_that_is_not_wanted_any_more_is_over() -> None:
    log = of(B, C)
    see(log, 100, DEAD, replace(GOOD, node=C))
    see(log, 100, replace(DEAD, failing_seconds=100.0), replace(DEAD, node=C))
    assert open_(log) == [("gateway-on/b", "GatewayNotRunning"), ("gateway-on/c", "GatewayNotRunning")]
    log.world.manifests[-1] = gateway(auth={"mode": "keys"}, nodes=["c"])
    see(log, 0, replace(DEAD, node=C, failing_seconds=200.0))
    assert open_(log) == [("gateway-on/c", "GatewayNotRunning")]
