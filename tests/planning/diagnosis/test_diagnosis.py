"""What explains the death of a group: the first class that sees something, and never the silence of a probe."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from reconciler.planning import plan
from reconciler.planning.context import attempt_facts
from reconciler.planning.context.memory_ledger import Ledger
from reconciler.planning.context.target import Target
from reconciler.planning.context.view import Wanted, look
from reconciler.planning.context.world import World as Snapshots
from reconciler.planning.diagnosis import detectors
from reconciler.planning.diagnosis.evidence import IDLE_DECAY_SECONDS, Evidence
from reconciler.planning.diagnosis.rules import (
    TABLE,
    TRANSPORT_FORMS_MAX,
    History,
    Remedy,
    Row,
    diagnose,
    every,
    explain,
)
from reconciler.planning.recovery.diagnose import attempts
from reconciler.state import (
    AllocateEpoch,
    Attempt,
    Cause,
    Contact,
    FaultClass,
    MachineFacts,
    NodeName,
    NodeObservation,
    Observed,
    ObservedRank,
    PortFacts,
    RefusedBecause,
    StartRank,
    Symptom,
)
from reconciler.state.formed_under import NO_FACTS, Fact, Facts
from reconciler.wire.launch import ExitCode, RankId
from reconciler.wire.repair import RepairReport, RepairState
from tests.planning.macs import B, learn, two_macs
from tests.worlds import settled, two_nodes

NODE_A, NODE_B = NodeName("node-a"), NodeName("node-b")


def ended(code: int | None = None, signal: int | None = None, metal: bool = False) -> ObservedRank:
    """Rank 0, as its node reports it."""
    world = settled(two_nodes())
    rank = RankId("tiny", 0, 1, 0)
    world.end_rank(rank, code=code, signal=signal)
    report = world.ranks[rank][1]
    assert report.exit is not None
    return ObservedRank(NODE_A, replace(report, exit=replace(report.exit, metal=metal)))


def evidence(facts: MachineFacts | None = None, **more: Any) -> Evidence:
    """Of two nodes joined by a cable, whose group used RDMA over it and died."""
    seen = two_nodes()
    seen.settle()
    nodes = tuple(
        replace(node, facts=facts or MachineFacts()) for _, node in sorted(seen.observed().nodes.items())
    )
    symptom = Symptom(Cause.RANK_EXITED, "rank 0 ended", 1000.0)
    return Evidence(**{"nodes": nodes, "symptom": symptom, "verbs": True, "cables": True, **more})


def test_a_port_without_an_interface_lacks_no_gid() -> None:
    def seen(interface: str) -> Any:
        port = PortFacts(
            3, interface, peer=(B, 4), connected=True, mapped_gid=False, address="10.77.0.1", bridged=False
        )
        return detectors.no_gid(evidence(MachineFacts(ports=(port,))))

    assert seen("en3") is not None
    assert seen("") is None


def found(of: Evidence) -> Row:
    answer = diagnose(of)
    assert answer is not None
    return answer[0]


def test_facts_that_no_probe_has_told_explain_nothing() -> None:
    hung = Symptom(Cause.STALLED, "rank 0 makes no progress", 1000.0)
    assert found(evidence(MachineFacts(), symptom=hung)).fault is FaultClass.SILENT_HANG
    assert found(evidence(MachineFacts(verbs_answer=False), symptom=hung)).fault is FaultClass.VERBS_WEDGED


def test_a_group_with_which_nothing_is_wrong_is_not_explained() -> None:
    well = evidence(symptom=None)
    assert diagnose(well) is None
    assert explain(well, lambda row, detection: History()) is None


@pytest.mark.parametrize(
    ("gibibytes", "text"), [(4, ""), (90, "90 GiB of wired memory on node-a belong to no process")]
)
def test_wired_memory_of_no_process_is_told_from_some_gibibytes_on(gibibytes: int, text: str) -> None:
    found = detectors.wired_memory(evidence(MachineFacts(wired_excess_bytes=gibibytes * 2**30), symptom=None))
    assert (found.text if found else "") == text


@pytest.mark.parametrize(
    ("seconds", "fault"),
    [(IDLE_DECAY_SECONDS - 1, FaultClass.RANK_CRASH), (IDLE_DECAY_SECONDS, FaultClass.IDLE_DECAY)],
)
def test_connections_decay_when_nobody_has_asked_for_so_long(seconds: float, fault: FaultClass) -> None:
    lost = ended(code=ExitCode.PEER_LOST)
    assert found(evidence(first=lost, proven=True, idle_seconds=seconds)).fault is fault


WEDGED = MachineFacts(verbs_answer=False)


@pytest.mark.parametrize(
    ("facts", "rested", "cause", "fault"),
    [
        (None, 0.0, Cause.STALLED, FaultClass.SILENT_HANG),
        (None, 0.0, Cause.OVERDUE, FaultClass.SILENT_HANG),
        (None, IDLE_DECAY_SECONDS, Cause.STALLED, FaultClass.IDLE_DECAY),
        (None, IDLE_DECAY_SECONDS, Cause.OVERDUE, FaultClass.SILENT_HANG),
        (WEDGED, 0.0, Cause.STALLED, FaultClass.VERBS_WEDGED),
        (WEDGED, IDLE_DECAY_SECONDS, Cause.OVERDUE, FaultClass.VERBS_WEDGED),
    ],
)
def test_a_group_that_hangs_is_explained_by_its_rest_or_by_its_tools_before_it_is_a_silent_hang(
    facts: MachineFacts | None, rested: float, cause: Cause, fault: FaultClass
) -> None:
    symptom = Symptom(cause, "no token for 60 s", 1000.0)
    assert found(evidence(facts, symptom=symptom, proven=True, idle_seconds=rested)).fault is fault


def test_what_is_wrong_with_a_machine_explains_what_its_ranks_say() -> None:
    disabled = MachineFacts(rdma_enabled=False)
    assert found(evidence(disabled, first=ended(code=ExitCode.VERBS))).fault is FaultClass.RDMA_DISABLED
    assert found(evidence(first=ended(code=ExitCode.VERBS))).fault is FaultClass.QUEUE_PAIRS


def test_a_refused_gid_is_a_fault_of_the_port_whatever_its_facts_say_unless_others_hold_protection_domains() -> (
    None
):
    refused = ended(code=ExitCode.GID)
    for facts in (MachineFacts(), MachineFacts(protection_domains=0)):
        assert found(evidence(facts, first=refused)).seen is detectors.gid_refused
    held = found(evidence(MachineFacts(protection_domains=3), first=refused))
    assert held.fault is FaultClass.KERNEL_OBJECTS


@pytest.mark.parametrize(
    ("boot", "interface", "told"), [("boot", "en4", True), ("b0", "en4", False), ("boot", "en9", False)]
)
def test_a_restart_is_asked_for_only_of_who_set_the_address_of_a_used_port_twice_in_this_boot(
    boot: str, interface: str, told: bool
) -> None:
    world = two_macs()
    world.repairs[B] = RepairReport("r", boot, RepairState.CONFIRMED, readdressed=(interface,))
    nodes = tuple(node for _, node in sorted(world.observed().nodes.items()))
    seen = evidence(nodes=nodes, first=ended(code=ExitCode.GID_UNREACHED))
    assert found(seen).fault is FaultClass.QUEUE_PAIRS
    assert found(seen).reboots is told
    detection = detectors.readdressed(seen)
    assert (detection.nodes if detection else ()) == ((B,) if told else ())


def test_who_may_not_use_the_network_is_told_whom_to_allow_that_on_its_own_machine() -> None:
    first = ended(code=ExitCode.NO_ROUTE)
    for local, words in (({NODE_A}, "application that runs the controller"), (set(), "as a system daemon")):
        seen = evidence(local=frozenset(local), first=first)
        row, detection = diagnose(seen)  # type: ignore[misc]
        assert (row.fault, words in row.steps(detection, "tiny")) == (FaultClass.LAUNCH_CONTEXT, True)
        private = evidence(MachineFacts(launch_context=False), local=frozenset(local), symptom=None)
        assert [row.fault for row, _ in every(private, TABLE)] == [FaultClass.LAUNCH_CONTEXT]


@pytest.mark.parametrize(("code", "signal"), [(None, 6), (134, None)], ids=["of its own", "as a shell says"])
def test_a_runtime_that_aborts_over_metal_has_a_gpu_fault_and_another_abort_is_a_crash(
    code: int | None, signal: int | None
) -> None:
    assert found(evidence(first=ended(code, signal, metal=True))).fault is FaultClass.GPU_FAULT
    assert found(evidence(first=ended(code, signal))).fault is not FaultClass.GPU_FAULT
    assert found(evidence(first=ended(1, None, metal=True))).fault is not FaultClass.GPU_FAULT


def test_what_does_not_fit_is_not_tried_again_unchanged() -> None:
    assert found(evidence(first=ended(code=ExitCode.MEMORY))).remedy is Remedy.REFUSE


def test_a_machine_that_has_booted_since_explains_the_end_of_its_rank() -> None:
    before = {NODE_A: "another boot", NODE_B: "boot"}
    assert found(evidence(first=ended(signal=9), boots=before)).fault is FaultClass.REBOOT
    assert found(evidence(first=ended(signal=9), boots={NODE_A: "boot"})).fault is FaultClass.RANK_CRASH


def test_machines_that_are_joined_in_a_ring_are_not_missing_the_cables_across_it() -> None:
    names = [NodeName(f"node-{letter}") for letter in "abcd"]

    def joined(at: int) -> MachineFacts:
        before, behind = names[at - 1], names[(at + 1) % 4]
        ports = (
            PortFacts(3, connected=True, peer=(behind, 4)),
            PortFacts(4, connected=True, peer=(before, 3)),
        )
        return MachineFacts(ports=ports)

    nodes = tuple(
        NodeObservation(name, Contact.REACHED, 0.0, facts=joined(at)) for at, name in enumerate(names)
    )
    assert found(evidence(nodes=nodes, ring=True)).fault is FaultClass.RANK_CRASH
    assert found(evidence(nodes=nodes)).fault is FaultClass.LINK_DOWN
    assert found(evidence(nodes=nodes[:3], ring=True)).fault is FaultClass.LINK_DOWN


def test_a_crash_whose_machine_or_cable_explains_it_is_no_crash() -> None:
    unplugged = MachineFacts(ports=(PortFacts(3, connected=False, peer=(NODE_B, 3)),))
    assert found(evidence(first=ended(signal=9))).fault is FaultClass.RANK_CRASH
    assert found(evidence(first=ended(signal=9), boots={NODE_A: "another boot"})).fault is FaultClass.REBOOT
    assert found(evidence(unplugged, first=ended(signal=9))).fault is FaultClass.LINK_DOWN


def test_a_remedy_that_did_not_help_gives_way_to_the_next() -> None:
    row = found(evidence(first=ended(code=ExitCode.VERBS)))
    assert [row.remedy_now(History(attempts=tried)) for tried in (0, 1, 2)] == [
        Remedy.FORM,
        Remedy.NEXT_TRANSPORT,
        Remedy.NEXT_TRANSPORT,
    ]


def test_a_transport_is_left_for_the_next_one_where_there_is_one_and_nothing_has_changed() -> None:
    row = found(evidence(first=ended(code=ExitCode.RENDEZVOUS)))
    assert row.remedy_now(History(transport_forms=TRANSPORT_FORMS_MAX)) is Remedy.NEXT_TRANSPORT
    assert row.remedy_now(History(attempts=3, has_fallback=False)) is Remedy.FORM
    assert row.remedy_now(History(attempts=3, facts_changed=True)) is Remedy.FORM


@pytest.mark.parametrize(
    ("faults", "expected"),
    [
        ([], 0),
        ([FaultClass.QUEUE_PAIRS, FaultClass.QUEUE_PAIRS], 2),
        ([FaultClass.QUEUE_PAIRS, FaultClass.LINK_DOWN, FaultClass.QUEUE_PAIRS], 1),
        ([FaultClass.QUEUE_PAIRS, FaultClass.LINK_DOWN], 0),
    ],
)
def test_only_attempts_for_the_same_class_count(faults: list[FaultClass], expected: int) -> None:
    assert attempts(view([attempt(n, fault, "1/1") for n, fault in enumerate(faults)]), QUEUES) == expected


def test_tries_for_another_wish_or_of_long_ago_do_not_count() -> None:
    assert attempts(view([attempt(1, QUEUES, "1/1"), attempt(2, QUEUES, "2/1")]), QUEUES) == 0
    assert attempts(view([replace(attempt(1, QUEUES, "1/1"), at=-10_000.0)]), QUEUES) == 0


QUEUES = FaultClass.QUEUE_PAIRS


def attempt(number: int, fault: FaultClass, generations: str) -> Attempt:
    return Attempt(number, 900.0, "RankExited", fault, "it ended", generations)


def view(attempts: list[Attempt]) -> Wanted:
    """Look at a replica that was formed so often before."""
    world = two_nodes()
    memory = replace(world.memory(), attempts={world.replica(): tuple(attempts)})
    snapshots = Snapshots(world.desired(), world.observed(), memory, world.now, "entropy")
    target = Target(world.desired().replicas()[world.replica()], None)
    found = look(snapshots, Ledger.of(snapshots), world.replica(), target)
    assert isinstance(found, Wanted)
    return found


def test_a_fact_has_changed_only_where_it_was_known_and_is() -> None:
    rdma, boot, gid = (Fact(name, NodeName("node-a")) for name in ("RDMA", "boot", "GID"))
    before = Facts.of({rdma: "no", boot: "1234"})
    assert attempt_facts.changes(before, {rdma: "no"}) == []
    assert attempt_facts.changes(before, {rdma: "no", boot: "1234", gid: "yes"}) == []
    (change,) = attempt_facts.changes(before, {rdma: "yes"})
    assert (str(change), change.fact) == ("node-a RDMA: no → yes", rdma)
    assert attempt_facts.changes(NO_FACTS, {rdma: "yes"}) == []


def test_a_machine_that_panics_is_no_news_to_the_group_that_makes_it_panic() -> None:
    world = settled(two_nodes())
    record = world.group()
    before = Facts(
        (fact, "earlier" if fact.name == attempt_facts.BOOT else value) for fact, value in record.facts
    )
    world.groups[world.replica()] = replace(record, boots=("earlier", "earlier"), facts=before)
    world.end_rank(RankId("tiny", 0, 1, 0), signal=9)
    assert (Fact("boot", NodeName("node-a")), "earlier") in before
    nodes = {
        name: replace(node, facts=MachineFacts(panics=2)) for name, node in world.observed().nodes.items()
    }
    decided = plan(world.desired(), Observed(nodes), world.memory(), world.now, "entropy")
    assert [refusal.reason for refusal in decided.refused] == [RefusedBecause.RANK_REFUSES]
    assert [trouble.fault for trouble in decided.troubles] == [FaultClass.REBOOT]


def test_a_machine_that_has_panicked_again_gets_no_rank_of_an_epoch_drawn_before() -> None:
    world = two_macs()
    rank = world.group().rank_ids[1]
    world.end_rank(rank, signal=9)
    (drawn,) = (step for step in world.plan().steps if isinstance(step, AllocateEpoch))
    world.obey(drawn)
    learn(world, B, panics=2)
    world.boots[B] = "another"
    decided = world.plan()
    assert not [step for step in decided.steps if isinstance(step, StartRank)]
    assert [refusal.reason for refusal in decided.refused] == [RefusedBecause.RANK_REFUSES]


def test_a_lost_node_is_no_reason_to_go_on_with_one_that_has_panicked_twice() -> None:
    """Whatever explains that a group is dead: what forbids to form it anew comes first."""
    world = two_macs(parallelism={"nodes": {"min": 1, "max": 2}})
    learn(world, B, panics=2)
    world.boots[B] = "another"
    world.end_rank(world.group().rank_ids[1], signal=9)
    world.lose("node-a")
    world.pass_time(world.now + 60)
    decided = world.plan()
    assert not [step for step in decided.steps if isinstance(step, AllocateEpoch)]
    assert [refusal.reason for refusal in decided.refused] == [RefusedBecause.RANK_REFUSES]
    (refusal,) = decided.refused
    assert "node-b has panicked 2 times" in refusal.text


@pytest.mark.parametrize("peer", [None, (NodeName("node-c"), 3)], ids=["nothing known", "another node"])
def test_a_port_that_leads_to_no_member_is_nothing_to_its_group(peer: tuple[NodeName, int] | None) -> None:
    slow = MachineFacts(ports=(PortFacts(3, connected=True, peer=peer, gbps=40),))
    of_group = evidence(slow)
    assert detectors.slow_link(of_group) is None
    of_machine = replace(of_group, nodes=of_group.nodes[:1])
    assert (detectors.slow_link(of_machine) is not None) is (peer is not None)


@pytest.mark.parametrize(
    ("port", "row"),
    [
        ({"verbs_up": False}, "rdma_port_down"),
        ({"verbs_up": False, "active": True}, "rdma_port_down"),
        ({"verbs_up": False, "active": False}, "link_down"),
        ({"verbs_up": False, "connected": False}, "link_down"),
        ({"verbs_up": True}, ""),
    ],
    ids=str,
)
def test_a_cable_that_carries_no_rdma_is_told_from_one_that_carries_nothing(
    port: dict[str, Any], row: str
) -> None:
    """In the receptacle of a Mac Studio beside Ethernet there is a link, and no RDMA: nothing is to be reseated."""
    here = PortFacts(3, "en3", "rdma_en3", **{"connected": True, "peer": (NODE_B, 4), **port})
    there = PortFacts(4, "en4", "rdma_en4", connected=True, peer=(NODE_A, 3), verbs_up=True)
    one, other = evidence().nodes
    ends = (
        replace(one, facts=MachineFacts(ports=(here,))),
        replace(other, facts=MachineFacts(ports=(there,))),
    )
    pair = evidence(nodes=ends)
    found = [each for each in (detectors.link_down, detectors.rdma_port_down) if each(pair) is not None]
    assert [each.__name__ for each in found] == ([row] if row else [])
    assert detectors.rdma_port_down(replace(pair, verbs=False)) is None


@pytest.mark.parametrize(
    ("here", "there", "port", "down"),
    [
        ({}, {}, {}, True),
        ({}, {}, {"verbs_up": True}, False),
        ({}, {}, {"verbs_up": None}, False),
        ({"rdma_enabled": True}, {"rdma_enabled": True}, {}, True),
        ({"rdma_enabled": False}, {}, {}, False),
        ({}, {"rdma_enabled": False}, {}, False),
    ],
    ids=str,
)
def test_the_device_of_a_port_is_down_for_no_other_reason_that_is_known(
    here: dict[str, Any], there: dict[str, Any], port: dict[str, Any], down: bool
) -> None:
    ends = [
        NodeObservation(name, Contact.REACHED, 0.0, 1, None, facts=MachineFacts(**facts))
        for name, facts in ((NODE_A, here), (NODE_B, there))
    ]
    facts = PortFacts(3, "en3", "rdma_en3", **{"connected": True, "verbs_up": False, **port})
    assert detectors.verbs_down(ends[0], ends[1], facts) is down
