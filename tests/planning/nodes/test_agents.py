"""Agents of another version are replaced, and nothing else is."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import pytest

from reconciler.planning.context.world import World as Snapshots
from reconciler.planning.nodes import agents
from reconciler.resources import LOCAL
from reconciler.state import (
    Contact,
    ForgetAgent,
    NodeName,
    Observed,
    StartAgent,
    StopAgent,
    WaitingFor,
    Write,
)
from reconciler.wire.node import HeldBy
from tests.worlds import World, deployment, model, node

NODE_A, NODE_B = NodeName("node-a"), NodeName("node-b")


def world() -> World:
    made = World([node("node-a"), node("node-b"), model(), deployment()], agent_file="agent-2.pyz")
    made.agent_files = {NODE_A: "agent-2.pyz", NODE_B: "agent-2.pyz"}
    made.settle()
    return made


def test_an_agent_of_another_version_is_replaced_and_no_rank_is_touched() -> None:
    found = world()
    found.agent_files[NODE_B] = "agent-1.pyz"
    assert found.plan().steps == (StartAgent(NODE_B, LOCAL, "agent-1.pyz by agent-2.pyz"),)
    found.settle()
    assert found.plan().steps == ()


def test_an_agent_that_does_not_say_what_it_is_is_replaced() -> None:
    found = world()
    found.agent_files[NODE_B] = ""
    (step,) = found.plan().steps
    assert str(step) == "replace the agent of node-b (an older one by agent-2.pyz)"


def test_no_agent_is_replaced_that_was_not_seen_since_it_was_changed() -> None:
    found = world()
    found.agent_files[NODE_B] = "agent-1.pyz"
    found.writes[NODE_B] = Write(link=1, sequence=found.sequence + 1)
    assert found.plan().steps == ()


def test_an_agent_of_a_node_that_is_not_wanted_is_ended_and_not_replaced() -> None:
    found = world()
    found.stopping = True
    found.agent_files = dict.fromkeys([NODE_A, NODE_B], "agent-1.pyz")
    found.settle()
    assert not any(isinstance(step, StartAgent) and step.replaces for step in found.history)
    assert {step.node for step in found.history if isinstance(step, StopAgent)} == {NODE_A, NODE_B}


@pytest.mark.parametrize(("known", "tied"), [(None, True), (1, False), (2, False)])
def test_the_agent_of_a_node_that_leaves_stays_only_for_epochs_that_the_store_does_not_know(
    known: int | None, tied: bool
) -> None:
    found = world()
    for rank in found.alive():
        found.end_rank(rank, signal=9)
    found.groups.clear()
    found.last_epochs = {} if known is None else {found.replica(): known}
    found.manifests.pop(1)
    ends = [step.node for step in found.plan().steps if isinstance(step, StopAgent)]
    assert ends == ([] if tied else [NODE_B])


def test_the_agent_of_a_node_that_leaves_stays_until_its_ranks_have_ended() -> None:
    found = world()
    (of_b,) = (rank for rank in found.alive() if found.ranks[rank][0] == NODE_B)
    found.groups.clear()
    found.manifests.pop(1)
    assert NODE_B not in {step.node for step in found.plan().steps if isinstance(step, StopAgent)}
    found.end_rank(of_b, code=0)
    assert [step.node for step in found.plan().steps if isinstance(step, StopAgent)] == [NODE_B]


def test_where_any_agent_will_do_none_is_replaced() -> None:
    found = world()
    found.agent_file = ""
    assert found.plan().steps == ()
    assert NodeName("node-a") in found.agents


def test_an_agent_that_its_session_has_left_is_replaced_by_one_that_a_session_holds() -> None:
    found = world()
    found.reports[NODE_B] = {"held_by": HeldBy.LEFT}
    (step,) = found.plan().steps
    assert str(step) == "replace the agent of node-b (its SSH session is over)"
    found.reports[NODE_B] = {"held_by": HeldBy.SESSION}
    assert found.plan().steps == ()


def test_an_agent_that_runs_with_another_python_than_its_manifest_asks_for_is_replaced() -> None:
    found = world()
    found.manifests = [node("node-a"), node("node-b", python="/opt/python3"), model(), deployment()]
    (step,) = found.plan().steps
    assert str(step) == "replace the agent of node-b (python /usr/bin/python3 by /opt/python3)"
    found.reports[NODE_B] = {"python": "/opt/python3"}
    assert found.plan().steps == ()


def expected(wanted: bool, started: bool, contact: Contact, seen: bool, busy: bool) -> object:
    """The model: what is done about the agent of a node without ranks."""
    if busy:
        return WaitingFor.STEP
    if contact is Contact.UNKNOWN:
        return WaitingFor.AGENT if wanted or started else None
    if contact is Contact.UNREACHABLE:
        return WaitingFor.AGENT if wanted or started else None
    if contact is Contact.AGENT_DOWN:
        if wanted or (started and not seen):
            return StartAgent
        return ForgetAgent if started else None
    return None if wanted else StopAgent


@pytest.mark.parametrize("contact", Contact)
@pytest.mark.parametrize("wanted", [True, False])
def test_what_is_done_about_an_agent_follows_from_whether_it_is_wanted_started_seen_and_answers(
    wanted: bool, contact: Contact
) -> None:
    made = World([node("node-a")] if wanted else [])
    made.agents = {NODE_A}
    observed, memory = made._node(NODE_A), made.memory()
    for started, seen, busy in product((True, False), repeat=3):
        if contact is Contact.REACHED and not seen:
            continue  # it has reported then
        report = observed.report if seen and contact is not Contact.UNKNOWN else None
        found = replace(observed, contact=contact, report=report, since=made.now)
        world = Snapshots(
            made.desired(),
            Observed({NODE_A: found}),
            replace(
                memory,
                agents={NODE_A: LOCAL} if started else {},
                in_flight=frozenset({"node/node-a"} if busy else ()),
            ),
            made.now,
            "entropy",
        )
        decided = agents.decide(world, NODE_A)
        acts = [type(step) for step in decided.steps] + [each.reason for each in decided.waiting]
        wish = expected(wanted, started, contact, report is not None, busy)
        assert acts == ([] if wish is None else [wish]), (started, seen, busy)
