"""Diagnosis always answers, and answers the same; what a person must fix is not retried; a node that comes and goes
costs few formings."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reconciler.planning.diagnosis.evidence import Evidence
from reconciler.planning.diagnosis.rules import TABLE, Remedy, diagnose
from reconciler.state import (
    AllocateEpoch,
    Cause,
    Contact,
    FaultClass,
    MachineFacts,
    NodeName,
    NodeObservation,
    ObservedRank,
    PortFacts,
    RebootNode,
    Symptom,
)
from reconciler.wire.launch import Exit, ExitCode, Phase, RankId
from reconciler.wire.node import RankReport
from tests.examples import examples
from tests.planning.macs import A, B, two_macs
from tests.worlds import World, deployment, settled, two_nodes

CODES = sorted({code for name, code in vars(ExitCode).items() if name.isupper()})
MAYBE = st.sampled_from([None, True, False])
FORMS_PER_HOUR_MAX = 8
"""Two that grow, what the loss after each of them costs, and the deaths of ranks."""


@st.composite
def facts(draw: st.DrawFn, peer: NodeName) -> MachineFacts:
    port = PortFacts(
        3, "en3", "rdma_en3", connected=draw(MAYBE), peer=draw(st.sampled_from([None, (peer, 3)])),
        gbps=draw(st.sampled_from([None, 40, 80])), active=draw(MAYBE), verbs_up=draw(MAYBE), bridged=draw(MAYBE),
        address=draw(st.sampled_from([None, "", "10.77.0.1"])), mapped_gid=draw(MAYBE),
    )  # fmt: skip
    return MachineFacts(
        boot_id="boot", system=draw(st.sampled_from(["", "Linux", "Darwin"])),
        version=draw(st.sampled_from([(), (26, 1), (26, 3)])), jaccl=draw(MAYBE), rdma_enabled=draw(MAYBE),
        ports=draw(st.sampled_from([(), (port,)])), ports_named=draw(MAYBE), verbs_answer=draw(MAYBE),
        protection_domains=draw(st.sampled_from([None, 0, 3])),
        wired_excess_bytes=draw(st.sampled_from([None, 0, 90 << 30])),
        wired_beside_ranks_bytes=draw(st.sampled_from([None, 0, 90 << 30])), launch_context=draw(MAYBE),
        panics=draw(st.sampled_from([None, 0, 2])), rdma_panics_of_day=draw(st.sampled_from([None, 0, 2])),
        filevault=draw(MAYBE),
    )  # fmt: skip


@st.composite
def ends(draw: st.DrawFn) -> Exit:
    code = draw(st.sampled_from([None, *CODES, 134, 137, 139, 255]))
    signal = draw(st.sampled_from([6, 9, 11, 15])) if code is None else None
    return Exit(code, signal, 5.0, metal=draw(st.booleans()))


@st.composite
def scenes(draw: st.DrawFn) -> Evidence:
    cause = draw(
        st.sampled_from(
            [
                Cause.RANK_EXITED,
                Cause.RANK_MISSING,
                Cause.RANK_UNKILLABLE,
                Cause.STALLED,
                Cause.OVERDUE,
                Cause.PROOF_FAILED,
            ]
        )
    )
    first = None
    if cause is Cause.RANK_EXITED:
        report = RankReport(
            RankId("tiny", 0, 1, 1), "wish", "/s", 7, 6, Phase.EXITED, 0, 0, 0, 0, "", 1.0, draw(ends())
        )
        first = ObservedRank(B, report)
    contact = draw(st.sampled_from(list(Contact)))
    nodes = (
        NodeObservation(A, Contact.REACHED, 0.0, facts=draw(facts(B))),
        NodeObservation(B, contact, 0.0, facts=draw(facts(A))),
    )
    verbs = draw(st.booleans())
    return Evidence(
        nodes, Symptom(cause, "it died", 5.0), first, verbs, verbs or draw(st.booleans()), draw(st.booleans()),
        draw(st.sampled_from([0.0, 3000.0])), {B: draw(st.sampled_from(["boot", "another"]))},
        draw(st.sampled_from([(), (B,)])),
    )  # fmt: skip


@settings(max_examples=examples(300), deadline=None)
@given(scenes())
def test_every_death_has_one_class_and_always_the_same(scene: Evidence) -> None:
    found = diagnose(scene)
    assert found is not None
    assert found == diagnose(replace(scene))
    row, recognised = found
    assert recognised.text
    person = row.steps(recognised, "tiny")
    assert "{" not in person
    assert bool(person) == bool(row.person)
    assert recognised.nodes or "{node}" not in row.person, "nobody is told what to do and not where"


@settings(max_examples=examples(200), deadline=None)
@given(scenes())
def test_what_is_not_known_explains_nothing(scene: Evidence) -> None:
    blank = replace(
        scene,
        nodes=tuple(replace(node, contact=Contact.REACHED, facts=MachineFacts()) for node in scene.nodes),
    )
    found = diagnose(blank)
    assert found is not None
    known_from_facts = {FaultClass.RDMA_DISABLED, FaultClass.LINK_DOWN}
    if scene.code != ExitCode.GID:
        known_from_facts.add(FaultClass.PORT_CONFIGURATION)
    assert found[0].fault not in known_from_facts | {FaultClass.WIRED_MEMORY, FaultClass.VERBS_WEDGED}


REFUSED = [ExitCode.CONFIG, ExitCode.WEIGHTS, ExitCode.MEMORY, ExitCode.UNEQUAL]


@settings(max_examples=examples(60), deadline=None)
@given(st.sampled_from(REFUSED), st.lists(st.floats(1, 10_000), max_size=12), st.booleans())
def test_what_only_a_person_can_fix_is_not_tried_again_by_itself(
    code: int, pauses: list[float], proven: bool
) -> None:
    world = settled(two_nodes())
    if not proven or code == ExitCode.MEMORY:  # a group that served was asked for too much
        world.groups[world.replica()] = replace(world.group(), proven_at=None)
    world.end_rank(world.group().rank_ids[0], code=code)
    world.settle()
    refused = world.plan().refused
    assert len(refused) == 1
    for pause in pauses:
        world.pass_time(world.now + pause)
        world.restart_controller()
        assert world.settle().refused == refused
    assert world.group().epoch == 1


CRASHES: list[dict[str, Any]] = [{"signal": 9}, {"signal": 11}, *({"code": code} for code in CODES)]


@settings(max_examples=examples(40), deadline=None)
@given(st.lists(st.tuples(st.sampled_from(CRASHES), st.floats(1, 900)), max_size=12))
def test_no_machine_is_restarted_for_a_class_that_does_not_say_so(
    deaths: list[tuple[dict[str, Any], float]],
) -> None:
    world = two_macs()
    for manifest in list(world.desired().nodes.values()):
        at = world.manifests.index(manifest)
        spec = manifest.spec.model_copy(
            update={"repair": manifest.spec.repair.model_copy(update={"reboot": True, "file_vault": True})}
        )
        world.manifests[at] = manifest.model_copy(update={"spec": spec})
    restarting = {row.fault for row in TABLE if row.reboots}
    for how, pause in deaths:
        record = world.group()
        if record.rank_ids[1] in world.alive():
            world.end_rank(record.rank_ids[1], **how)
        world.pass_time(world.now + pause)
        troubles = {trouble.fault for trouble in world.plan().troubles}
        steps = [step for step in world.plan().steps if isinstance(step, RebootNode)]
        assert not steps or troubles & restarting
        world.settle()


@pytest.mark.second_tier
@settings(max_examples=examples(20), deadline=None)
@given(st.lists(st.tuples(st.floats(1, 1500), st.floats(1, 1500)), min_size=2, max_size=10), st.booleans())
def test_a_node_that_comes_and_goes_costs_few_formings_an_hour(
    times: list[tuple[float, float]], dies: bool
) -> None:
    world = settled(World([*two_nodes().manifests[:-1], deployment(nodes={"min": 1, "max": 2})]))
    for away, back in times:
        world.lose("node-b")
        _live(world, away)
        world.find("node-b")
        world.since["node-b"] = world.now
        for rank in world.alive() if dies else ():
            if world.ranks[rank][0] == B:
                world.end_rank(rank, signal=9)
        _live(world, back)
    formed = [step.group.created_at for step in world.done(AllocateEpoch)]
    assert max(sum(at <= other < at + 3600 for other in formed) for at in formed) <= FORMS_PER_HOUR_MAX


def _live(world: World, seconds: float) -> None:
    """Time passes, with nobody asking for anything."""
    until = world.now + seconds
    while world.now < until:
        for rank in world.alive():
            world.report(rank, idle_seconds=3600.0)
        world.settle()
        world.pass_time(min(until, world.now + 60.0))
    world.settle()


def test_refusing_and_restarting_need_a_person_to_be_told() -> None:
    for row in TABLE:
        if row.remedy is Remedy.REFUSE or row.reboots:
            assert row.person, row.fault
