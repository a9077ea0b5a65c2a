"""What is not known yet changes nothing of what is said: a controller that has just started knows little."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from reconciler import status
from reconciler.state import (
    Contact,
    GatewayAnswer,
    GatewayObservation,
    NodeName,
    NodeObservation,
    Observed,
    StepFailure,
)
from reconciler.state.identity import ObjectKey
from reconciler.state.reports.status import Event
from reconciler.status import Snapshots
from reconciler.status.snapshots import Statuses
from reconciler.wire.launch import RankId
from reconciler.wire.node import ModelReport
from tests.planning.macs import A, B, learn, learn_of_port, three_macs
from tests.worlds import World, deployment, gateway, two_nodes

TINY, STUDIOS = ObjectKey("ModelDeployment", "tiny"), ObjectKey("Fabric", "studios")


def unprobed(world: World) -> None:
    """The controller has reached the agents, and its probes still run."""
    for name in (NodeName(each) for each in world.desired().nodes):
        world.stale[name] = replace(world.observed().nodes[name], probed=False)


def without_agent(world: World) -> None:
    """The agents are being replaced."""
    world.down = set(world.desired().nodes)


def unknown(world: World) -> None:
    """Another controller has started, and what the probes told the one before is lost."""
    world.restart_controller()
    world.facts = {}
    unprobed(world)


def statuses(world: World, before: Statuses) -> Statuses:
    desired, observed, memory = world.desired(), world.observed(), world.memory()
    return status.statuses(Snapshots(desired, observed, memory, world.plan(), world.now), before)


def events(world: World, before: Statuses, after: Statuses) -> list[Event]:
    snapshots = world.snapshots()
    return status.transitions(before, after, snapshots)


def of(found: Statuses, key: ObjectKey, kind: str) -> tuple[bool, str]:
    condition = found[key].condition(kind)
    assert condition is not None
    return condition.status, condition.reason


def without_weights() -> World:
    world = two_nodes()
    missing = (ModelReport("tiny", "/models/tiny", present=False),)
    world.reports = {name: {"models": missing} for name in (A, B)}
    world.settle()
    return world


@pytest.mark.parametrize("awaited", [unprobed, without_agent])
def test_a_deployment_stays_stalled_until_its_nodes_have_told_whether_it_still_is(
    awaited: Callable[[World], None],
) -> None:
    world = without_weights()
    before = statuses(world, {})
    assert of(before, TINY, "Stalled")[0]
    awaited(world)
    meanwhile = statuses(world, before)
    assert of(meanwhile, TINY, "Stalled") == of(before, TINY, "Stalled")
    assert of(meanwhile, TINY, "Reconciling") == (True, "AgentNotReached")
    assert [each for each in events(world, before, meanwhile) if each.object == TINY] == []


def test_a_change_of_its_spec_is_not_said_to_stall_before_it_is_known() -> None:
    world = without_weights()
    before = statuses(world, {})
    unprobed(world)
    world.generations[TINY] = 2
    assert of(statuses(world, before), TINY, "Stalled") == (False, "NotStalled")


def test_an_obstacle_that_is_gone_is_said_to_be_once_that_is_known() -> None:
    world = without_weights()
    before = statuses(world, {})
    unprobed(world)
    meanwhile = statuses(world, before)
    world.stale.clear()
    world.reports.clear()
    assert of(statuses(world, meanwhile), TINY, "Stalled") == (False, "NotStalled")


def test_a_node_stays_stalled_until_it_is_probed() -> None:
    world = three_macs()
    learn(world, A, rdma_enabled=False)
    key = ObjectKey("Node", A)
    before = statuses(world, {})
    assert of(before, key, "Stalled")[0]
    unknown(world)
    assert of(statuses(world, before), key, "Stalled") == of(before, key, "Stalled")
    world.stale[A] = replace(world.stale[A], probed=True)
    assert of(statuses(world, before), key, "Stalled") == (False, "NotStalled")


def test_a_fabric_stays_ready_until_its_cables_are_known() -> None:
    world = three_macs()
    before = statuses(world, {})
    assert of(before, STUDIOS, "Ready") == (True, "LinksConnected")
    facts = world.facts
    unknown(world)
    meanwhile = statuses(world, before)
    assert of(meanwhile, STUDIOS, "Ready") == (True, "LinksConnected")
    assert meanwhile[STUDIOS].extra["connected"] == 0, "what is known now is said beside it"
    world.stale.clear()
    world.facts = facts
    learn_of_port(world, A, connected=False, peer=None)
    learn_of_port(world, B, connected=False, peer=None)
    assert of(statuses(world, meanwhile), STUDIOS, "Ready") == (False, "LinksNotAsDeclared")


def test_what_will_not_be_known_soon_is_unknown() -> None:
    world = three_macs()
    before = statuses(world, {})
    unknown(world)
    world.stale.clear()
    assert of(statuses(world, before), STUDIOS, "Ready") == (False, "LinksUnknown"), "its probes told nothing"
    world.down = set(world.desired().nodes)
    world.failures = {f"start-agent/{name}": StepFailure(1, 10**9, "no Python") for name in world.down}
    assert of(statuses(world, before), STUDIOS, "Ready") == (False, "LinksUnknown"), "no agent starts"
    world.restart_controller()
    world.down = set()
    for name in world.desired().nodes:
        world.lose(name)
    assert world.observed().nodes[A].contact is Contact.UNREACHABLE
    assert of(statuses(world, before), STUDIOS, "Ready") == (False, "LinksUnknown"), "none answers"


# --- the first seconds -----------------------------------------------------------------------------


def in_full() -> World:
    """Nodes, weights, a deployment and a gateway that serve."""
    world = two_nodes()
    world.manifests.append(gateway())
    world.settle()
    return world


def seen_through(
    world: World, before: Statuses, seen: GatewayObservation | None
) -> tuple[Statuses, list[Event]]:
    """The statuses and the events of a pass that sees the gateway like that."""
    desired, memory = world.desired(), replace(world.memory(), started_at=STARTED_AT)
    observed = Observed(world.observed().nodes, seen)
    snapshots = Snapshots(desired, observed, memory, world.plan(), world.now)
    after = status.statuses(snapshots, before)
    return after, status.transitions(before, after, snapshots)


STARTED_AT = 1000.0
URL = "http://127.0.0.1:8400/v1"
ANSWERS = GatewayObservation(7, URL, door=GatewayAnswer(True))
COMING_UP = [
    None,
    GatewayObservation(7, None),
    GatewayObservation(7, URL),
    GatewayObservation(7, URL, door=GatewayAnswer(False, ("tiny",))),
]
"""A gateway that was started with the controller, as it looks meanwhile."""


def unstarted(world: World) -> None:
    """Everything was stopped as requested, and another controller starts: no agent runs."""
    world.ranks, world.groups, world.attempts = {}, {}, {}
    world.restart_controller()
    world.agents = set()


def without_news(world: World) -> None:
    """Agents and ranks go on, and another controller has not heard of them yet."""
    world.restart_controller()
    for name in list(world.agents):
        world.stale[name] = NodeObservation(name, Contact.UNKNOWN, world.now)


def killed_with_its_agents(world: World) -> None:
    """Ranks go on without agents and controller; the next controller finds no agent."""
    world.restart_controller()
    for name in list(world.agents):
        world.stale[name] = NodeObservation(name, Contact.AGENT_DOWN, world.now, problem="no agent")


@pytest.mark.parametrize("start", [unstarted, without_news, killed_with_its_agents, unprobed])
@pytest.mark.parametrize("coming_up", COMING_UP)
def test_a_start_at_which_nothing_is_wrong_has_no_warning(
    start: Callable[[World], None], coming_up: GatewayObservation | None
) -> None:
    world = in_full()
    before, _ = seen_through(world, {}, ANSWERS)
    assert all(each.conditions[0].status for each in before.values())
    world.now = STARTED_AT
    start(world)
    told = []
    for seen in (coming_up, *COMING_UP[COMING_UP.index(coming_up) :]):
        before, events = seen_through(world, before, seen)
        told += events
    assert [(str(each.object), each.message) for each in told if each.warning] == []
    world.stale.clear()
    world.settle()
    after, _ = seen_through(world, before, ANSWERS)
    assert all(each.conditions[0].status for each in after.values())


def test_a_gateway_that_does_not_come_up_in_time_is_a_warning() -> None:
    world = in_full()
    before, _ = seen_through(world, {}, ANSWERS)
    for moment, warned in ((STARTED_AT, False), (STARTED_AT + 60, True)):
        world.now = moment
        _, events = seen_through(world, before, None)
        assert any(each.warning for each in events) is warned


@pytest.mark.parametrize(
    ("fault", "objects"),
    [
        (lambda world: world.end_rank(RankId("tiny", 0, 1, 1), signal=9), ["modeldeployment/tiny"]),
        (lambda world: world.lose(NodeName(A)), ["modeldeployment/tiny", "node/node-a"]),
    ],
)
def test_what_fails_after_a_start_is_a_warning(fault: Callable[[World], None], objects: list[str]) -> None:
    world = in_full()
    before, _ = seen_through(world, {}, ANSWERS)
    world.now = STARTED_AT + 1
    fault(world)
    _, events = seen_through(world, before, ANSWERS)
    assert sorted({str(each.object) for each in events if each.warning}) == objects


def test_more_replicas_that_are_asked_for_are_no_warning() -> None:
    world = in_full()
    before, _ = seen_through(world, {}, ANSWERS)
    world.manifests[-2] = deployment(replicas=2)
    _, events = seen_through(world, before, ANSWERS)
    assert [(each.reason, each.warning) for each in events] == [("NotReady", False)]


@pytest.mark.parametrize(
    ("seen", "waits"),
    [
        (None, "gateway/main: the gateway process is not running"),
        (COMING_UP[-1], f"gateway/main: it answers at {URL}, but is connected to no group of tiny"),
        (ANSWERS, ""),
        (GatewayObservation(7, URL, door=GatewayAnswer(False, problem="no answer within 2 s")), ""),
    ],
)
def test_what_the_gateway_is_about_to_do_is_said(seen: GatewayObservation | None, waits: str) -> None:
    world = in_full()
    world.now = STARTED_AT + 1
    statuses, _ = seen_through(world, {}, seen)
    desired, memory = world.desired(), replace(world.memory(), started_at=STARTED_AT)
    found = Snapshots(desired, Observed(world.observed().nodes, seen), memory, world.plan(), world.now)
    assert status.gateway_waits(statuses, found).startswith(waits)
    assert bool(status.gateway_waits(statuses, found)) is bool(waits)
    later = replace(found, now=STARTED_AT + 60)
    assert status.gateway_waits(statuses, later) == "", "nobody waits for it for ever"
