"""Whatever the tools of machines say: the doctor answers, and never calls fine what is not known."""

from __future__ import annotations

import functools
import string
from dataclasses import fields, replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from reconciler.doctor import Examination
from reconciler.doctor.unknowns import QUESTIONS
from reconciler.state import Contact, MachineFacts, NodeName, PortFacts
from tests.examples import examples
from tests.planning.macs import A, B, mac, port, two_macs
from tests.worlds import World

from .test_findings import look

ANSWER = st.sampled_from((None, True, False))
COUNT = st.none() | st.integers(0, 2**50)
WORDS = st.text(string.ascii_letters + string.digits + " {}%:;/\n\x00é", max_size=12)
PORTS = st.builds(
    PortFacts,
    st.integers(0, 9),
    st.sampled_from(("", "en3", "en{4}")),
    st.sampled_from(("", "rdma_en3")),
    connected=ANSWER,
    peer=st.none() | st.tuples(st.sampled_from((A, B, NodeName("stranger"))), st.integers(0, 9)),
    gbps=st.none() | st.integers(0, 240),
    active=ANSWER,
    verbs_up=ANSWER,
    bridged=ANSWER,
    address=st.none() | st.just("") | st.just("10.77.0.1"),
    mapped_gid=ANSWER,
    domain=WORDS,
    peer_domain=WORDS,
    through=st.tuples() | st.tuples(WORDS),
    peer_model=WORDS,
)
FACTS = st.builds(
    MachineFacts,
    boot_id=st.just("boot"),
    system=st.sampled_from(("", "Darwin", "Linux")),
    version=st.tuples() | st.tuples(st.integers(0, 99), st.integers(0, 99)),
    ports=st.lists(PORTS, max_size=3).map(tuple),
    unknown=st.lists(st.tuples(WORDS, WORDS), max_size=3).map(tuple),
    **dict.fromkeys(
        ("jaccl", "rdma_enabled", "verbs_answer", "launch_context", "filevault", "managed", "sleeps",
         "throttled", "bridge_service"), ANSWER,
    ),
    **dict.fromkeys(
        ("protection_domains", "wired_excess_bytes", "panics", "crashes", "memory_kills", "stray_ranks",
         "wired_limit_bytes",
         "swap_used_bytes", "disk_free_bytes"), COUNT,
    ),
)  # fmt: skip


@functools.cache
def _settled() -> World:
    return two_macs(nodes={"min": 3, "max": 3})


def macs() -> World:
    """Two Macs on which nothing runs: beside ranks some facts mean nothing."""
    world = _settled()
    return replace(world, facts=dict(world.facts))


def complete_facts() -> MachineFacts:
    """Of a machine of which everything is known."""
    return replace(
        mac(port(3, (B, 4), "10.77.0.1")), filevault=False, managed=False, sleeps=False, throttled=False,
        stray_ranks=0, swap_used_bytes=0, disk_free_bytes=2**40,
    )  # fmt: skip


def unknown_of(found: Examination, name: NodeName = A) -> set[str]:
    return {each.what for each in found.unknown if each.node == name}


def test_nothing_is_unknown_of_a_machine_that_reported_everything() -> None:
    world = macs()
    world.facts[A] = complete_facts()
    assert unknown_of(look(world)) == {"its clock and the memory in use"}


@settings(max_examples=examples(100), deadline=None)
@given(FACTS, FACTS)
def test_any_facts_are_examined_and_what_is_not_known_is_reported(
    one: MachineFacts, two: MachineFacts
) -> None:
    world = macs()
    world.facts.update({A: one, B: two})
    found = look(world)
    for name, facts in ((A, one), (B, two)):
        missing = {each.what for each in QUESTIONS if each.answer(facts) is None}
        if facts.system:
            assert missing <= unknown_of(found, name)
        else:
            assert "all facts from its probes" in unknown_of(found, name)
    assert all(each.seen and each.steps and each.means for each in found.findings)


@settings(max_examples=examples(100), deadline=None)
@given(st.sets(st.sampled_from([each.name for each in fields(MachineFacts)])))
def test_forgetting_a_fact_never_makes_a_finding_and_never_makes_a_machine_well(forgotten: set[str]) -> None:
    world, empty = macs(), MachineFacts()
    lost: dict[str, Any] = {name: getattr(empty, name) for name in forgotten - {"boot_id", "system"}}
    world.facts[A] = replace(complete_facts(), **lost)
    found = look(world)
    assert [each for each in found.findings if each.nodes] == []
    answered = {"jaccl", "rdma_enabled", "version", "panics", "filevault", "sleeps", "throttled", "managed"}
    assert len(unknown_of(found)) - 1 >= len(forgotten & answered)


def test_nobody_that_was_not_reached_is_well() -> None:
    world = macs()
    for contact in (Contact.UNKNOWN, Contact.AGENT_DOWN, Contact.UNREACHABLE):
        assert "everything" in unknown_of(look(world, contact=contact), B)
