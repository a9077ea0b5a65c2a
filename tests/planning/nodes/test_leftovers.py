"""What ranks that ended may leave behind: no new rank beside it, and no new group on a node that keeps it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from reconciler.planning.nodes import leftovers, quarantine
from reconciler.state import (
    AllocateEpoch,
    Cause,
    FaultClass,
    MachineFacts,
    NodeName,
    Plan,
    PortFacts,
    RefusedBecause,
    WaitingFor,
)
from reconciler.wire.launch import RankId
from reconciler.wire.node import Gone
from tests.worlds import World, deployment, model, node, settled

A, B, C = (NodeName(f"node-{letter}") for letter in "abc")
MAC = MachineFacts(system="Darwin", ports=(PortFacts(1, device="rdma_en3"),))


def died(gone: str, kept: str = "", seconds: float = 0.0, nodes: int = 3) -> World:
    """A group of node-a and node-b whose rank on node-b was killed, and may have left something."""
    world = settled(World([*(node(name) for name in (A, B, C)[:nodes]), model(), deployment()]))
    world.history.clear()
    world.end_rank(RankId("tiny", 0, 1, 1), signal=9)
    world.report(RankId("tiny", 0, 1, 1), gone=gone, kept=kept, ended_seconds=seconds)
    return world


@pytest.mark.parametrize("gone", [Gone.YES, Gone.UNKNOWN])
def test_what_is_gone_or_cannot_be_told_keeps_no_rank_from_starting(gone: str) -> None:
    world = died(gone)
    assert world.settle() == Plan()
    assert world.group().members == (A, B)


@pytest.mark.parametrize("gone", [Gone.NO, Gone.PENDING])
def test_no_rank_starts_before_what_an_old_one_held_is_gone(gone: str) -> None:
    world = died(gone, "process 77")
    plan = world.settle()
    assert world.did() == ["AllocateEpoch", "StopRank"]
    (waiting,) = plan.waiting
    assert waiting.reason is WaitingFor.LEFTOVERS
    assert waiting.text == "tiny/0: node-b: rank 1 of tiny/0, epoch 1, has ended and left process 77"
    assert (plan.troubles, plan.quarantined) == ((), ())
    world.report(RankId("tiny", 0, 1, 1), ended_seconds=5.0)
    plan = world.settle()
    assert [(str(t.subject), t.fault, t.person) for t in plan.troubles] == [
        ("node/node-b", FaultClass.KERNEL_OBJECTS, "")
    ]
    assert plan.quarantined == ()
    world.report(RankId("tiny", 0, 1, 1), gone=Gone.YES, kept="")
    assert world.settle() == Plan()
    assert world.group().members == (A, B)


def test_a_node_that_keeps_it_for_a_minute_is_quarantined_and_done_without() -> None:
    world = settled(died(Gone.NO, "port 21001", 10.0))
    world.report(RankId("tiny", 0, 1, 1), ended_seconds=60.0)
    plan = world.settle()
    formed = world.done(AllocateEpoch)[-1]
    assert (formed.cause, formed.group.members) == (Cause.NODE_QUARANTINED, (A, C))
    (kept_out,) = plan.quarantined
    assert (kept_out.node, kept_out.fault, kept_out.reason) == (B, FaultClass.KERNEL_OBJECTS, "RankRemains")
    assert "end what it left on node-b (port 21001)" in kept_out.person
    assert plan.troubles[0].person == kept_out.person
    world.report(RankId("tiny", 0, 1, 1), gone=Gone.YES, kept="")
    assert world.settle() == Plan()
    assert world.group().members == (A, C), "nothing moves back"


def test_without_another_node_the_refusal_names_the_one_that_keeps_it() -> None:
    world = died(Gone.NO, "port 21001", 60.0, nodes=2)
    (refusal,) = world.settle().refused
    assert refusal.reason is RefusedBecause.NO_NODES
    assert "node-b is quarantined: rank 1 of tiny/0, epoch 1, has ended and left port 21001" in refusal.text
    world.report(RankId("tiny", 0, 1, 1), gone=Gone.YES, kept="")
    assert world.settle() == Plan()


def test_a_group_that_runs_is_not_disturbed_by_what_its_node_keeps() -> None:
    world = settled(died(Gone.YES))
    world.history.clear()
    world.report(RankId("tiny", 0, 1, 1), gone=Gone.NO, kept="process 77", ended_seconds=60.0)
    plan = world.settle()
    assert (world.history, plan.waiting, plan.refused) == ([], (), ())
    assert [found.node for found in plan.quarantined] == [B]


DOMAINS = replace(MAC, protection_domains=3)
WIRED = replace(MAC, wired_excess_bytes=90 << 30)


@pytest.mark.parametrize(
    ("facts", "fault", "reason", "person"),
    [
        (DOMAINS, FaultClass.KERNEL_OBJECTS, "ProtectionDomainsHeld", "IOUserClientCreator"),
        (WIRED, FaultClass.WIRED_MEMORY, "WiredMemoryHeld", "restart node-b"),
    ],
)
def test_what_the_kernel_keeps_quarantines_a_node(
    facts: MachineFacts, fault: FaultClass, reason: str, person: str
) -> None:
    world = World([node(A), node(B), node(C), model(), deployment()])
    world.facts = {B: facts}
    plan = world.settle()
    assert world.group().members == (A, C)
    (kept_out,) = plan.quarantined
    assert (kept_out.node, kept_out.fault, kept_out.reason) == (B, fault, reason)
    assert person in kept_out.person


def test_protection_domains_get_a_minute_after_the_last_rank_has_ended() -> None:
    world = died(Gone.YES, seconds=10.0)
    world.facts = {B: DOMAINS}
    (waiting,) = world.settle().waiting
    assert waiting.reason is WaitingFor.LEFTOVERS
    assert quarantine.reason(world.seen(), B) == ""
    world.report(RankId("tiny", 0, 1, 1), ended_seconds=60.0)
    assert "3 protection domains" in quarantine.reason(world.seen(), B)


@pytest.mark.parametrize(
    ("facts", "left"),
    [
        (MachineFacts(), False),
        (MachineFacts(system="Linux"), False),
        (MAC, False),
        (replace(MAC, protection_domains=0), False),
        (replace(MAC, protection_domains=0, wired_excess_bytes=1 << 30), False),
        (replace(MAC, ports=(PortFacts(1),), wired_excess_bytes=0), False),
        (replace(MAC, ports=(PortFacts(1),), protection_domains=3), False),
        (replace(DOMAINS, system="Linux"), False),
        (replace(WIRED, system="Linux"), False),
        (DOMAINS, True),
        (WIRED, True),
    ],
)
def test_only_what_is_proven_is_left(facts: MachineFacts, left: bool) -> None:
    world = died(Gone.YES)
    world.facts = {B: facts}
    assert any(leftovers.leftovers(world.seen(), B)) is left


@pytest.mark.parametrize(
    ("gone", "left"),
    [(Gone.YES, False), (Gone.UNKNOWN, False), (Gone.NO, True), (Gone.PENDING, True)],
)
def test_a_rank_that_its_agent_cannot_tell_of_leaves_nothing(gone: str, left: bool) -> None:
    world = died(gone)
    world.facts = {B: MachineFacts(system="Linux")}
    assert any(leftovers.leftovers(world.seen(), B)) is left
