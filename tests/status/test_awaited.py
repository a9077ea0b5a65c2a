"""What is not known yet changes nothing of what is said: a controller that has just started knows little."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from reconciler import status
from reconciler.state import Contact, NodeName, StepFailure
from reconciler.state.identity import ObjectKey
from reconciler.status import Snapshots
from reconciler.status.snapshots import Statuses
from reconciler.wire.node import ModelReport
from tests.planning.macs import A, B, learn, learn_of_port, three_macs
from tests.worlds import World, two_nodes

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
    assert [each for each in status.transitions(before, meanwhile, 0.0) if each.object == TINY] == []


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
