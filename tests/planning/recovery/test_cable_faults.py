"""A faulty cable is listed once, whichever of its ends shows it, and a cable without a fault is not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from reconciler.planning.recovery import cable_faults
from reconciler.planning.transport import link_check
from reconciler.state import FaultClass, NodeName
from tests.planning.macs import A, B, learn, learn_of_port, two_macs
from tests.worlds import World

ELSEWHERE = (NodeName("node-c"), 3)
LINK, PLATFORM = FaultClass.LINK_DOWN, FaultClass.UNSUPPORTED_PLATFORM
FAULTS: list[tuple[dict[str, Any], FaultClass]] = [
    ({"connected": False}, LINK),
    ({"active": False}, LINK),
    ({"verbs_up": False}, LINK),
    ({"gbps": 40}, PLATFORM),
]


def told(world: World) -> list[tuple[str, FaultClass]]:
    """What ``doctor`` says of cables."""
    seen = world.seen()
    return [(str(each.subject), each.fault) for each in cable_faults.troubles(seen, link_check.compare(seen))]


@pytest.mark.parametrize("ends", [(A,), (B,), (A, B)], ids=["one end", "the other end", "both ends"])
@pytest.mark.parametrize(("facts", "fault"), FAULTS, ids=str)
def test_a_faulty_cable_is_listed_once_whichever_end_shows_it(
    ends: tuple[NodeName, ...], facts: dict[str, Any], fault: FaultClass
) -> None:
    world = two_macs()
    for name in ends:
        learn_of_port(world, name, **facts)

    assert told(world) == [("link/node-a/node-b", fault)]


@pytest.mark.parametrize(
    "facts",
    [{"connected": False, "peer": None}, {"peer": None}, {"peer": ELSEWHERE}],
    ids=["unplugged", "leads nowhere", "leads elsewhere"],
)
def test_a_cable_of_which_one_end_alone_tells_is_faulty_only_where_the_other_says_otherwise(
    facts: dict[str, Any],
) -> None:
    world = two_macs()
    learn_of_port(world, B, **facts)

    contradicted = facts.get("connected") is False or facts["peer"] is not None
    assert told(world) == ([("link/node-a/node-b", LINK)] if contradicted else [])


@pytest.mark.parametrize(("facts", "fault"), [({}, None), *FAULTS], ids=str)
def test_a_cable_whose_other_machine_has_told_of_no_ports_is_as_this_end_shows_it(
    facts: dict[str, Any], fault: FaultClass | None
) -> None:
    world = two_macs()
    learn_of_port(world, A, **facts)
    learn(world, B, ports=())

    assert told(world) == ([("link/node-a/node-b", fault)] if fault else [])


def test_a_cable_on_which_both_ends_agree_is_not_faulty() -> None:
    assert told(two_macs()) == []


@pytest.mark.parametrize("facts", [facts for facts, _ in FAULTS], ids=str)
def test_a_faulty_port_that_leads_to_a_machine_that_nobody_has_declared_is_no_fault(
    facts: dict[str, Any],
) -> None:
    world = two_macs()
    (used,) = world.facts[A].ports
    learn(world, A, ports=(used, replace(used, receptacle=5, peer=ELSEWHERE, **facts)))

    assert told(world) == []
