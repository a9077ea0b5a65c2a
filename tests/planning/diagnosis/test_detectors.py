"""Each fact that a fault needs decides alone: without any one of them, the fault is not seen."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, replace
from functools import cache
from typing import Any

import pytest

from reconciler.planning.diagnosis import detectors
from reconciler.planning.diagnosis.detectors import (
    MACOS_MIN,
    PANICS_MAX,
    RDMA_PANICS_MAX,
    SIGABRT,
    WIRED_EXCESS_BYTES,
    Detector,
)
from reconciler.planning.diagnosis.evidence import IDLE_DECAY_SECONDS, Evidence
from reconciler.state import (
    Cause,
    Contact,
    MachineFacts,
    NodeName,
    NodeObservation,
    ObservedRank,
    PortFacts,
    Symptom,
)
from reconciler.state.machine.facts import THUNDERBOLT5_GBPS
from reconciler.transports import GID_INDEX
from reconciler.wire.launch import ExitCode, RankId
from reconciler.wire.node import RankReport
from reconciler.wire.repair import RepairReport, RepairState
from tests.planning.macs import A, B, mac, port, two_macs
from tests.worlds import settled, two_nodes

C = NodeName("node-c")
NOTHING = Symptom(Cause.RANK_EXITED, "rank 0 ended", 1000.0)
PORT_FIELDS = {each.name for each in fields(PortFacts)}
FACTS_FIELDS = {each.name for each in fields(MachineFacts)}
Changes = Mapping[str, Any]


@cache
def two_well() -> Mapping[NodeName, NodeObservation]:
    return two_macs().observed().nodes


@cache
def rank_0() -> RankReport:
    """As a node tells of rank 0 that has ended."""
    world = settled(two_nodes())
    rank = RankId("tiny", 0, 1, 0)
    world.end_rank(rank, signal=9)
    return world.ranks[rank][1]


def evidence(changes: Changes) -> Evidence:
    """Of two Macs that are well and joined by a cable, but for changes.

    These are facts of node-a and of its port, facts of node-b and of its port with ``other_`` before them, and the rest of
    the evidence.
    """
    left = dict(changes)
    seen = dict(two_well())
    for name, prefix in ((A, ""), (B, "other_")):
        sound = port(3, (B, 4), "10.77.0.1") if name == A else port(4, (A, 3), "10.77.0.2")
        own = {field: left.pop(prefix + field) for field in PORT_FIELDS if prefix + field in left}
        facts = {field: left.pop(prefix + field) for field in FACTS_FIELDS if prefix + field in left}
        seen[name] = replace(seen[name], facts=replace(mac(replace(sound, **own)), **facts))
        if prefix + "contact" in left:
            seen[name] = replace(seen[name], contact=left.pop(prefix + "contact"))
        if prefix + "repair" in left:
            report = seen[name].report
            assert report is not None
            seen[name] = replace(seen[name], report=replace(report, repair=left.pop(prefix + "repair")))
    rest = {"symptom": None, "verbs": True, "cables": True, **left}
    return Evidence((seen[A], seen[B]), **rest)


def ended(code: int | None = None, signal: int | None = None, metal: bool = False) -> dict[str, Any]:
    """Rank 0 on node-a ended like this."""
    report = rank_0()
    assert report.exit is not None
    exit = replace(report.exit, code=code, signal=signal, metal=metal)
    first = ObservedRank(A, replace(report, exit=exit))
    return {"first": first, "symptom": NOTHING}


def caused(cause: Cause) -> dict[str, Any]:
    return {"symptom": Symptom(cause, "it is over", 1000.0)}


def addressed_twice(boot: str = "boot", interface: str = "en3") -> RepairReport:
    return RepairReport("r", boot, RepairState.CONFIRMED, readdressed=(interface,))


@dataclass(frozen=True)
class Case:
    """Changes that a detector sees, and further changes, each of which alone keeps it from that."""

    seen: Detector
    facts: Changes
    unless: tuple[Changes, ...]
    nodes: tuple[NodeName, ...] = ()
    """Whom it blames."""


IDLE = {"proven": True, "idle_seconds": IDLE_DECAY_SECONDS}
NO_VERBS, NO_CABLES = {"verbs": False}, {"cables": False}
NO_CODE = ended(code=ExitCode.UNEXPECTED)
TO_A_STRANGER = {"peer": None}
CASES = {
    "a machine that gives no answer": Case(
        detectors.unreachable,
        {"contact": Contact.UNREACHABLE},
        ({"contact": Contact.REACHED}, {"contact": Contact.UNKNOWN}, {"contact": Contact.AGENT_DOWN}),
        (A,),
    ),
    "an agent that cannot be started": Case(
        detectors.unreachable,
        {"contact": Contact.AGENT_DOWN, "unstarted": frozenset({A})},
        ({"contact": Contact.REACHED}, {"unstarted": frozenset({B})}),
        (A,),
    ),
    "a rank that nothing ends": Case(
        detectors.unkillable,
        {**caused(Cause.RANK_UNKILLABLE), "unkillable": (B,)},
        ({"unkillable": ()}, caused(Cause.RANK_EXITED), {"symptom": None}),
        (B,),
    ),
    "a rank that ended late": Case(
        detectors.ended_late, caused(Cause.RANK_UNKILLABLE), (caused(Cause.STALLED), {"symptom": None})
    ),
    "a macOS without RDMA": Case(
        detectors.old_system,
        {"version": (26, 1), "other_version": (26, 1)},
        (NO_VERBS, {"version": MACOS_MIN, "other_version": MACOS_MIN}, {"version": (), "other_version": ()}),
        (A,),
    ),
    "two versions of macOS": Case(
        detectors.old_system,
        {"version": (26, 4)},
        (NO_VERBS, {"other_version": (26, 4)}, {"version": ()}, {"other_version": ()}),
        (B, A),
    ),
    "an MLX without JACCL": Case(
        detectors.old_runtime, {"other_jaccl": False}, (NO_VERBS, {"other_jaccl": None}), (B,)
    ),
    "a rank without its backend": Case(detectors.old_runtime, ended(ExitCode.NO_BACKEND), (NO_CODE,), (A,)),
    "ranks that differ": Case(detectors.unequal, ended(ExitCode.UNEQUAL), (NO_CODE,), (A,)),
    "a slow link": Case(
        detectors.slow_link,
        {"gbps": THUNDERBOLT5_GBPS - 1},
        (
            NO_VERBS,
            {"gbps": THUNDERBOLT5_GBPS},
            {"gbps": None},
            {"connected": False},
            {"connected": None},
            TO_A_STRANGER,
            {"peer": (C, 3)},
        ),
        (A,),
    ),
    "RDMA that is off for ever": Case(
        detectors.no_thunderbolt5,
        {"rdma_enabled": False, "ceiling_gbps": 40, "gbps": 40},
        (NO_VERBS, {"rdma_enabled": None}, {"ceiling_gbps": None}, {"ceiling_gbps": THUNDERBOLT5_GBPS}),
        (A,),
    ),
    "RDMA that is off": Case(
        detectors.rdma_disabled,
        {"rdma_enabled": False},
        (NO_VERBS, {"rdma_enabled": None}, {"ceiling_gbps": 40, "gbps": 40}),
        (A,),
    ),
    "a cable that is out": Case(
        detectors.port_down,
        {"connected": False},
        (
            NO_CABLES,
            {"connected": None},
            {"returning": frozenset({A})},
            {"returning": frozenset({B})},
            {**TO_A_STRANGER, "other_peer": None},
        ),
    ),
    "a link that is down": Case(detectors.port_down, {"other_active": False}, ({"other_active": None},)),
    "a cable whose other end is out": Case(
        detectors.port_down,
        {"other_connected": False, "other_peer": None},
        ({"other_connected": None}, {"other_receptacle": 5}),
    ),
    "a cable whose other end leads elsewhere": Case(
        detectors.port_down,
        {"other_peer": (A, 9)},
        ({"other_peer": (A, 3)}, {"other_peer": None}),
    ),
    "an RDMA port that is down": Case(
        detectors.rdma_port_down,
        {"verbs_up": False},
        (
            NO_VERBS,
            NO_CABLES,
            {"verbs_up": None},
            {"rdma_enabled": False},
            {"other_rdma_enabled": False},
            {"gbps": 40},
            {"through": ("a dock",)},
            {"connected": False},
            {"other_active": False},
        ),
    ),
    "two Macs without the cable that joined them": Case(
        detectors.unjoined,
        {"peer": (C, 3), "other_connected": False, "other_peer": None},
        (
            NO_CABLES,
            {"peer": (B, 4)},
            {"peer": None},
            {"ports": ()},
            {"other_ports": ()},
            {"other_connected": None},
            {"other_peer": (A, 3)},
        ),
    ),
    "a port over which internet is shared": Case(
        detectors.shared_port,
        {"bridged": True, "other_bridge": "bridge100"},
        (NO_VERBS, {"other_bridge": ""}, {"connected": False}, {"interface": ""}, TO_A_STRANGER),
        (A,),
    ),
    "a port in a bridge": Case(
        detectors.port_configuration,
        {"bridged": True},
        (
            NO_VERBS,
            {"bridged": None},
            {"other_bridge": "bridge100"},
            {"connected": False},
            {"interface": ""},
            TO_A_STRANGER,
        ),
        (A,),
    ),
    "a port without an address": Case(
        detectors.port_configuration,
        {"other_address": ""},
        ({"other_address": None}, {"other_connected": None}, {"other_interface": ""}),
        (B,),
    ),
    "a port without a GID": Case(
        detectors.no_gid,
        {"mapped_gid": False},
        (
            NO_VERBS,
            {"mapped_gid": None},
            {"connected": False},
            {"interface": ""},
            {"bridged": True},
            {"address": ""},
        ),
        (A,),
    ),
    "a GID elsewhere": Case(
        detectors.gid_index,
        {"gid_index": GID_INDEX + 1},
        (NO_VERBS, {"gid_index": GID_INDEX}, {"gid_index": None}, {"connected": None}),
        (A,),
    ),
    "a GID that is refused": Case(
        detectors.gid_refused,
        ended(ExitCode.GID),
        (NO_CODE, {"proven": True}, {"other_protection_domains": 1}),
        (A,),
    ),
    "a firewall": Case(
        detectors.firewalled,
        {**ended(ExitCode.RENDEZVOUS), "other_firewall": True},
        ({"other_firewall": None}, {"other_firewall": False}, NO_CODE),
        (B,),
    ),
    "ranks apart": Case(
        detectors.rendezvous, caused(Cause.RANKS_APART), (caused(Cause.STALLED), {"symptom": None})
    ),
    "ranks that did not meet": Case(detectors.rendezvous, ended(ExitCode.RENDEZVOUS), (NO_CODE,), (A,)),
    "a port in use": Case(detectors.rendezvous, ended(ExitCode.PORT_IN_USE), (NO_CODE,), (A,)),
    "queue pairs": Case(detectors.queue_pairs, ended(ExitCode.VERBS), (NO_CODE, {"proven": True}), (A,)),
    "a GID that is not reached": Case(
        detectors.queue_pairs, ended(ExitCode.GID_UNREACHED), (NO_CODE, {"proven": True}), (A,)
    ),
    "kernel objects where a port is in doubt": Case(
        detectors.queue_pairs,
        {**ended(ExitCode.KERNEL_OBJECTS), "verbs_up": None},
        (NO_CODE, {"proven": True}, {"verbs_up": True}, {"protection_domains": 1}),
        (A,),
    ),
    "kernel objects where a bridge is in doubt": Case(
        detectors.queue_pairs,
        {**ended(ExitCode.KERNEL_OBJECTS), "other_bridged": None},
        ({"other_bridged": False},),
        (A,),
    ),
    "kernel objects where a GID is in doubt": Case(
        detectors.queue_pairs,
        {**ended(ExitCode.KERNEL_OBJECTS), "mapped_gid": None},
        ({"mapped_gid": True},),
        (A,),
    ),
    "kernel objects where no port is known": Case(
        detectors.queue_pairs,
        {**ended(ExitCode.KERNEL_OBJECTS), "other_ports": ()},
        ({"other_ports": (port(4, (A, 3), "10.77.0.2"),)},),
        (A,),
    ),
    "a port that got an address twice": Case(
        detectors.readdressed,
        {**ended(ExitCode.GID_UNREACHED), "repair": addressed_twice()},
        (
            NO_CODE,
            {"proven": True},
            {"repair": None},
            {"repair": addressed_twice(boot="earlier")},
            {"repair": addressed_twice(interface="en9")},
        ),
        (A,),
    ),
    "protection domains of others": Case(
        detectors.kernel_objects,
        {"other_protection_domains": 1},
        (NO_VERBS, {"other_protection_domains": None}, NO_CODE),
        (B,),
    ),
    "protection domains of others, and a rank that could not set up RDMA": Case(
        detectors.kernel_objects,
        {**ended(ExitCode.VERBS), "other_protection_domains": 1},
        ({"other_protection_domains": 0}, NO_CODE),
        (B,),
    ),
    "no kernel objects left": Case(
        detectors.kernel_objects, ended(ExitCode.KERNEL_OBJECTS), (NO_CODE,), (A,)
    ),
    "a crash": Case(
        detectors.crash,
        ended(signal=9),
        (
            caused(Cause.STALLED),
            ended(ExitCode.CONFIG),
            ended(ExitCode.MEMORY),
            ended(ExitCode.GPU),
            ended(ExitCode.NO_ROUTE),
            ended(ExitCode.WRONG_GROUP),
            {"boots": {A: "earlier"}},
            {"verbs_answer": False},
            {**ended(ExitCode.PEER_LOST), **IDLE},
        ),
        (A,),
    ),
    "a rank that is gone": Case(
        detectors.crash, caused(Cause.RANK_MISSING), (caused(Cause.OVERDUE), {"boots": {B: "earlier"}})
    ),
    "an input that cannot work": Case(detectors.refused, ended(ExitCode.CONFIG), (NO_CODE,), (A,)),
    "weights that cannot work": Case(detectors.refused, ended(ExitCode.WEIGHTS), (NO_CODE,), (A,)),
    "a hang": Case(
        detectors.hang,
        caused(Cause.STALLED),
        (caused(Cause.RANK_EXITED), {"symptom": None}, {"verbs_answer": False}, IDLE),
    ),
    "a deadline": Case(
        detectors.hang, caused(Cause.OVERDUE), (caused(Cause.RANKS_APART), {"other_verbs_answer": False})
    ),
    "memory while serving": Case(
        detectors.out_of_memory_while_serving,
        {**ended(ExitCode.MEMORY), "proven": True},
        ({"proven": False}, NO_CODE),
        (A,),
    ),
    "memory": Case(detectors.out_of_memory, ended(ExitCode.MEMORY), (NO_CODE,), (A,)),
    "an abort in Metal": Case(
        detectors.gpu_fault,
        ended(signal=SIGABRT, metal=True),
        (ended(signal=SIGABRT), ended(signal=9, metal=True), ended(code=SIGABRT, metal=True)),
        (A,),
    ),
    "an abort in Metal as a shell tells it": Case(
        detectors.gpu_fault,
        ended(code=128 + SIGABRT, metal=True),
        (ended(code=128 + SIGABRT), ended(code=127 + SIGABRT, metal=True)),
        (A,),
    ),
    "a GPU fault that a restart did not mend": Case(
        detectors.gpu_fault_after_restart,
        {**ended(ExitCode.GPU), "refreshed": frozenset({A})},
        (NO_CODE, {"refreshed": frozenset({B})}),
        (A,),
    ),
    "a GPU fault": Case(detectors.gpu_fault, ended(ExitCode.GPU), (NO_CODE,), (A,)),
    "wired memory": Case(
        detectors.wired_memory,
        {"other_wired_excess_bytes": WIRED_EXCESS_BYTES + 1},
        (
            {"other_wired_excess_bytes": WIRED_EXCESS_BYTES},
            {"other_wired_excess_bytes": None},
            caused(Cause.RANK_EXITED),
        ),
        (B,),
    ),
    "panics of RDMA": Case(
        detectors.rdma_panicking,
        {"rdma_panics_of_day": RDMA_PANICS_MAX},
        (NO_VERBS, {"rdma_panics_of_day": RDMA_PANICS_MAX - 1}, {"rdma_panics_of_day": None}),
        (A,),
    ),
    "panics": Case(
        detectors.panicking,
        {"panics": PANICS_MAX, "boots": {A: "earlier"}},
        (
            {"panics": PANICS_MAX - 1},
            {"panics": None},
            {"boots": {B: "earlier"}},
            {"rdma_panics": 1},
            {"harmed": {A: 1}},
        ),
        (A,),
    ),
    "panics over memory": Case(
        detectors.panicking_over_memory,
        {"panics": PANICS_MAX, "memory_panics": 1, "boots": {A: "earlier"}},
        (
            {"memory_panics": 0},
            {"memory_panics": None},
            {"memory_panics": 0, "other_memory_panics": 1},
            {"boots": {}},
        ),
        (A,),
    ),
    "a restart": Case(
        detectors.rebooted,
        {**caused(Cause.RANK_MISSING), "boots": {A: "boot", B: "earlier"}},
        ({"symptom": None}, {"boots": {A: "boot", B: "boot"}}, {"boots": {}}),
        (B,),
    ),
    "wedged tools": Case(
        detectors.wedged, {"other_verbs_answer": False}, (NO_VERBS, {"other_verbs_answer": None}), (B,)
    ),
    "no right to the network": Case(
        detectors.no_route,
        {"launch_context": False},
        ({"launch_context": None}, caused(Cause.RANK_EXITED)),
        (A,),
    ),
    "no route": Case(detectors.no_route, ended(ExitCode.NO_ROUTE), (NO_CODE,), (A,)),
    "no route from here": Case(
        detectors.no_route_from_here,
        {**ended(ExitCode.NO_ROUTE), "local": frozenset({A})},
        ({"local": frozenset({B})}, {"local": frozenset()}, NO_CODE),
        (A,),
    ),
    "no route elsewhere": Case(
        detectors.no_route_elsewhere,
        {**ended(ExitCode.NO_ROUTE), "local": frozenset({B})},
        ({"local": frozenset({A})}, NO_CODE),
        (A,),
    ),
    "a wrong group": Case(detectors.wrong_group, ended(ExitCode.WRONG_GROUP), (NO_CODE,), (A,)),
    "no completion": Case(
        detectors.no_completion, caused(Cause.PROOF_FAILED), (caused(Cause.STALLED), {"symptom": None})
    ),
}
DECAYED = [
    *(
        ended(code)
        for code in (
            ExitCode.PEER_LOST,
            ExitCode.VERBS,
            ExitCode.KERNEL_OBJECTS,
            ExitCode.GID,
            ExitCode.GID_UNREACHED,
        )
    ),
    caused(Cause.STALLED),
]
"""Ends that a long rest may explain."""


def changed_alone() -> Iterator[tuple[str, Changes]]:
    for name, case in CASES.items():
        for further in case.unless:
            yield name, further


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_fault_is_seen_by_its_facts_and_blames_its_machines(case: Case) -> None:
    found = case.seen(evidence(case.facts))
    assert found is not None
    assert found.nodes == case.nodes


@pytest.mark.parametrize(("name", "further"), [pytest.param(*each, id=each[0]) for each in changed_alone()])
def test_each_fact_of_a_fault_decides_alone(name: str, further: Changes) -> None:
    assert CASES[name].seen(evidence({**CASES[name].facts, **further})) is None


@pytest.mark.parametrize(
    "seen", dict.fromkeys(case.seen for case in CASES.values()), ids=lambda s: s.__name__
)
def test_nothing_is_seen_of_two_macs_that_are_well_nor_of_two_that_no_probe_has_told_of(
    seen: Detector,
) -> None:
    well = evidence({})
    untold = replace(well, nodes=tuple(replace(node, facts=MachineFacts()) for node in well.nodes))
    assert (seen(well), seen(untold)) == (None, None)


@pytest.mark.parametrize("end", DECAYED, ids=range(len(DECAYED)))
def test_a_long_rest_explains_the_first_use_after_it_over_rdma_alone(end: Changes) -> None:
    assert detectors.idle_decay(evidence({**end, **IDLE})) is not None
    for further in (
        NO_VERBS,
        {"proven": False},
        {"idle_seconds": IDLE_DECAY_SECONDS - 1},
        ended(ExitCode.MEMORY),
        caused(Cause.OVERDUE) | {"first": None},
        {"symptom": None},
    ):
        assert detectors.idle_decay(evidence({**end, **IDLE, **further})) is None, further


def test_a_machine_that_lost_another_is_not_blamed() -> None:
    found = detectors.crash(evidence(ended(ExitCode.PEER_LOST)))
    assert found is not None
    assert found.nodes == ()


def test_a_rank_never_started_only_where_it_never_had_a_process() -> None:
    changes = ended(signal=9)
    assert detectors.never_started(evidence(changes)) is None
    first = changes["first"]
    without = replace(first, report=replace(first.report, pid=None))
    assert detectors.never_started(evidence({**changes, "first": without})) is not None
    assert detectors.never_started(evidence(caused(Cause.RANK_MISSING))) is None


def test_of_one_machine_alone_every_port_that_leads_to_another_counts() -> None:
    seen = evidence({"peer": (C, 3), "bridged": True})
    assert detectors.port_configuration(seen) is None
    assert detectors.port_configuration(replace(seen, nodes=seen.nodes[:1])) is not None


def test_of_a_cable_whose_both_ends_are_down_the_first_end_is_told() -> None:
    for seen, changes in (
        (detectors.rdma_port_down, {"verbs_up": False, "other_verbs_up": False}),
        (detectors.port_down, {"active": False, "other_active": False}),
    ):
        found = seen(evidence(changes))
        assert found is not None
        assert (found.port, found.peer) == ("node-a/3", B)
