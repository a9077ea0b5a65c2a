"""Declared cables against those that are there: each difference once, with both ends and what to do about it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.cli.commands.write.fabric import cabling
from reconciler.planning.transport import link_check as planning
from reconciler.resources import End, link_between
from reconciler.state import FaultClass, MachineFacts, NodeName, PortFacts
from reconciler.state.machine.links import HARMLESS, LinkState, LinkStatus
from reconciler.status import machine
from reconciler.status.fabric import readiness
from tests.machines import joined
from tests.planning.macs import A, B, learn, learn_of_port, three_macs, two_macs
from tests.worlds import World, deployment, fabric, model, node

STUDIOS = ("studio-1", "studio-2", "studio-3", "studio-4")
MESH = (
    ("studio-1/1", "studio-2/1"), ("studio-1/2", "studio-3/1"), ("studio-1/3", "studio-4/1"),
    ("studio-2/2", "studio-3/2"), ("studio-2/3", "studio-4/2"), ("studio-3/3", "studio-4/3"),
)  # fmt: skip
Cables = tuple[tuple[str, str], ...]


def facts_of(cables: Cables, **of_ends: Mapping[str, Any]) -> dict[NodeName, MachineFacts]:
    """What the probes of four Macs with these cables tell; ``of_ends``: what else is so at an end."""
    there = {end: other for pair in cables for end, other in (pair, pair[::-1])}
    told = of_ends.get("also", {})
    found = {}
    for name in STUDIOS:
        ports = []
        for number in (1, 2, 3, 4):
            end = f"{name}/{number}"
            port = PortFacts(number, f"en{number}", f"rdma_en{number}", connected=False, domain=end)
            if end in there:
                port = replace(
                    port, connected=True, gbps=80, active=True, verbs_up=True, bridged=False,
                    address="10.0.0.1", mapped_gid=True, peer_domain=there[end],
                )  # fmt: skip
            ports.append(replace(port, **told.get(end, {})))
        found[NodeName(name)] = MachineFacts(
            boot_id="boot",
            system="Darwin",
            version=(26, 3),
            jaccl=True,
            rdma_enabled=True,
            ports=tuple(ports),
        )
    return joined(found)


def cluster(declared: Cables, cables: Cables, also: Mapping[str, Any] | None = None) -> World:
    world = World([*map(node, STUDIOS), fabric("studios", *declared), model(), deployment(nodes=4)])
    world.system = "Darwin"
    world.agents = {NodeName(name) for name in STUDIOS}
    world.facts = facts_of(cables, also=also or {})
    return world


def compared(world: World) -> tuple[LinkStatus, ...]:
    seen = world.seen()
    return planning.compare(seen)["studios"]


def faults(world: World) -> list[LinkStatus]:
    return [sight for sight in compared(world) if sight.state is not LinkState.CONNECTED]


def without(cables: Cables, *gone: int) -> Cables:
    return tuple(pair for number, pair in enumerate(cables) if number not in gone)


def test_a_mesh_as_it_is_declared_has_nothing_to_tell() -> None:
    sights = compared(cluster(MESH, MESH))
    assert [str(sight.link) for sight in sights] == [" - ".join(pair) for pair in MESH]
    assert {(sight.state, sight.gbps, sight.text) for sight in sights} == {(LinkState.CONNECTED, 80, "")}
    assert sights[0].interfaces == ("en1", "en1")


ONE = (("studio-1/1", "studio-2/1"),)
SLOW = {"studio-1/1": {"gbps": 40}, "studio-2/1": {"gbps": 40}}
FIVE = {"studio-1/2": {"ceiling_gbps": 120}, "studio-2/2": {"ceiling_gbps": 120}}
"""A port without a cable of each of two Macs with Thunderbolt 5."""
CASES: dict[str, tuple[Cables, Cables, dict[str, Any], LinkState, str, str]] = {
    # name: declared, there, what else is so at an end, state, what is told, what to do
    "nothing is plugged in": (
        ONE, (), {}, LinkState.MISSING,
        "no cable joins studio-1/1 and studio-2/1: nothing is plugged in at studio-1/1; nothing is plugged in at"
        " studio-2/1",
        "plug a Thunderbolt 5 cable into studio-1/1 and studio-2/1, or reseat the one that is there",
    ),
    "one end is out, and the other was asked before": (
        ONE, (), {"studio-1/1": {"connected": True, "peer_domain": "studio-2/1"}}, LinkState.MISSING,
        "no cable joins studio-1/1 and studio-2/1: nothing is plugged in at studio-2/1",
        "plug a Thunderbolt 5 cable into studio-1/1 and studio-2/1, or reseat the one that is there",
    ),
    "one end has moved, and the other was asked before": (
        ONE, (),
        {"studio-1/1": {"connected": True, "peer_domain": "studio-3/1"}, "studio-3/1": {"connected": True}},
        LinkState.MISSING,
        "no cable joins studio-1/1 and studio-2/1: studio-1/1 leads to studio-3/1, which reports otherwise;"
        " nothing is plugged in at studio-2/1",
        "plug a Thunderbolt 5 cable into studio-1/1 and studio-2/1, or reseat the one that is there",
    ),
    "at the other end is no machine of ours": (
        ONE, (), {"studio-1/1": {"connected": True, "peer_domain": "elsewhere"}}, LinkState.MISSING,
        "no cable joins studio-1/1 and studio-2/1: studio-1/1 leads to something other than these machines;"
        " nothing is plugged in at studio-2/1",
        "plug a Thunderbolt 5 cable into studio-1/1 and studio-2/1, or reseat the one that is there",
    ),
    "a receptacle that is none": (
        (("studio-1/1", "studio-2/9"),), (), {}, LinkState.MISSING,
        "no cable joins studio-1/1 and studio-2/9: nothing is plugged in at studio-1/1; studio-2 has no receptacle"
        " 9, only 1, 2, 3, 4",
        "plug a Thunderbolt 5 cable into studio-1/1 and studio-2/9, or reseat the one that is there",
    ),
    "in the wrong port at one end": (
        ONE, (("studio-1/1", "studio-2/4"),), {}, LinkState.WRONG_PORT,
        "studio-1/1 leads to studio-2/4 instead of studio-2/1",
        "move the plug at studio-2/4 to studio-2/1",
    ),
    "in the wrong port at the other end": (
        ONE, (("studio-1/2", "studio-2/1"),), {}, LinkState.WRONG_PORT,
        "studio-2/1 leads to studio-1/2 instead of studio-1/1",
        "move the plug at studio-1/2 to studio-1/1",
    ),
    "in the wrong port at both ends": (
        ONE, (("studio-1/2", "studio-2/3"),), {}, LinkState.WRONG_PORT,
        "the cable from studio-1/1 to studio-2/1 is in studio-1/2 and studio-2/3 instead",
        "move its plugs to studio-1/1 and studio-2/1",
    ),
    "in the wrong machine": (
        ONE, (("studio-1/1", "studio-3/2"),), {}, LinkState.WRONG_PORT,
        "studio-1/1 leads to studio-3/2 instead of studio-2/1",
        "move the plug at studio-3/2 to studio-2/1",
    ),
    "Thunderbolt 4": (
        ONE, ONE, {**SLOW, "studio-2/2": {"ceiling_gbps": 40}}, LinkState.TOO_SLOW,
        "the link from studio-1/1 to studio-2/1 has 40 Gb/s, and RDMA needs 80",
        "join studio-1/1 and studio-2/1 by a Thunderbolt 5 cable; a machine with Thunderbolt 4 has no RDMA",
    ),
    "a dock between": (
        ONE, (),
        {"studio-1/1": {"connected": True, "through": ("ThunderBay Flex 8",)}, "studio-2/1": {"connected": True}},
        LinkState.THROUGH_DOCK,
        "studio-1/1 and studio-2/1 are joined through ThunderBay Flex 8, if at all: they do not name each other",
        "join studio-1/1 and studio-2/1 by one Thunderbolt 5 cable, without ThunderBay Flex 8 between",
    ),
    "a dock at the other end alone": (
        ONE, (),
        {"studio-2/1": {"connected": True, "through": ("ThunderBay Flex 8",)}, "studio-1/1": {"connected": True}},
        LinkState.THROUGH_DOCK,
        "studio-1/1 and studio-2/1 are joined through ThunderBay Flex 8, if at all: they do not name each other",
        "join studio-1/1 and studio-2/1 by one Thunderbolt 5 cable, without ThunderBay Flex 8 between",
    ),
    "a dock through which each end names the other": (
        ONE, ONE, {"studio-1/1": {"through": ("a hub",)}, "studio-2/1": {"through": ("a hub",)}},
        LinkState.THROUGH_DOCK,
        "studio-1/1 and studio-2/1 are joined through a hub: not tested",
        "join studio-1/1 and studio-2/1 by one Thunderbolt 5 cable, without a hub between; or, to try RDMA as it is, add"
        " the link to spec.allowUntested of its Fabric",
    ),
    "a slow dock that the other end alone reports": (
        ONE, ONE, {"studio-2/1": {"through": ("a hub",), "gbps": 40}}, LinkState.THROUGH_DOCK,
        "studio-1/1 and studio-2/1 are joined through a hub, and RDMA needs 80 Gb/s at both ends",
        "join studio-1/1 and studio-2/1 by one Thunderbolt 5 cable, without a hub between",
    ),
    "40 Gb/s between Macs with Thunderbolt 5": (
        ONE, ONE, {**SLOW, **FIVE}, LinkState.TOO_SLOW,
        "the link from studio-1/1 to studio-2/1 has 40 Gb/s: slow, not tested",
        "join studio-1/1 and studio-2/1 by a Thunderbolt 5 cable; or, to try RDMA as it is, add the link to"
        " spec.allowUntested of its Fabric",
    ),
    "an interface that is not active": (
        ONE, ONE, {"studio-2/1": {"active": False}}, LinkState.DOWN,
        "the link from studio-1/1 to studio-2/1 is down: the interface of studio-2/1 is not active",
        "reseat the cable from studio-1/1 to studio-2/1, or replace it",
    ),
    "an RDMA port that is down": (
        ONE, ONE, {"studio-1/1": {"verbs_up": False}}, LinkState.DOWN,
        "the link from studio-1/1 to studio-2/1 has no RDMA: its port at studio-1/1 is down",
        "move the cable at studio-1/1 to another Thunderbolt port, because the one beside Ethernet of a Mac Studio has no"
        " RDMA; on another Mac, or where that does not help: reseat or replace the cable to studio-2/1; after a move,"
        " correct the link in its Fabric",
    ),
    "a speed that is not known": (
        ONE, ONE, {"studio-1/1": {"gbps": None}, "studio-2/1": {"gbps": None}}, LinkState.UNKNOWN,
        "the speed of the cable from studio-1/1 to studio-2/1 is not known", "",
    ),
    "a port of which nothing is told": (
        ONE, (), {"studio-2/1": {"connected": None}}, LinkState.UNKNOWN,
        "it is not known whether anything is plugged in at studio-2/1", "",
    ),
    "a cable that no Fabric has": (
        (), ONE, {}, LinkState.UNDECLARED,
        "a cable joins studio-1/1 and studio-2/1, and is in no Fabric", "declare it, or take it out",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_what_is_told_of_a_cable(name: str) -> None:
    declared, cables, also, state, text, person = CASES[name]
    base: Cables = () if declared else (("studio-1/4", "studio-2/4"),)
    (sight,) = faults(cluster((*declared, *base), (*cables, *base), also))
    assert (sight.state, sight.text, sight.person) == (state, text, person)


@pytest.mark.parametrize(
    ("also", "state", "text"),
    [
        ({**SLOW, **FIVE}, LinkState.UNTESTED, "slow, not tested: 40 Gb/s between studio-1/1 and studio-2/1"),
        (
            {"studio-2/1": {"through": ("a hub",)}},
            LinkState.UNTESTED,
            "through a dock, not tested: a hub between studio-1/1 and studio-2/1",
        ),
        ({}, LinkState.CONNECTED, ""),
        (SLOW, LinkState.TOO_SLOW, "the link from studio-1/1 to studio-2/1 has 40 Gb/s, and RDMA needs 80"),
        (
            {**SLOW, **FIVE, "studio-1/1": {"gbps": 20}},
            LinkState.TOO_SLOW,
            "the link from studio-1/1 to studio-2/1 has 20 Gb/s, and RDMA needs 80",
        ),
        (
            {**FIVE, "studio-2/1": {"through": ("a hub",), "gbps": 40}},
            LinkState.THROUGH_DOCK,
            "studio-1/1 and studio-2/1 are joined through a hub, and RDMA needs 80 Gb/s at both ends",
        ),
        (
            {**SLOW, **FIVE, "studio-1/1": {"gbps": 40, "verbs_up": False}},
            LinkState.DOWN,
            "the link from studio-1/1 to studio-2/1 has no RDMA: its port at studio-1/1 is down",
        ),
    ],
    ids=["slow", "docked", "tested", "Thunderbolt 4", "slower", "docked slowly", "down"],
)
def test_a_fabric_allows_what_is_not_tested_and_nothing_else(
    also: dict[str, Any], state: LinkState, text: str
) -> None:
    world = cluster(ONE, ONE, also)
    world.manifests[4] = fabric("studios", *ONE, untested=ONE)
    (sight,) = compared(world)
    assert (sight.state, sight.text) == (state, text)
    assert ready(world)[0] is (state in HARMLESS)


def test_crossed_cables_are_told_as_a_swap_with_the_two_plugs_to_exchange() -> None:
    crossed = (("studio-1/2", "studio-2/1"), ("studio-1/1", "studio-3/1"), *MESH[2:])
    first, second = faults(cluster(MESH, crossed))
    assert {first.state, second.state} == {LinkState.SWAPPED}
    assert first.text == second.text == (
        "two cables are swapped: studio-1/1 leads to studio-3/1 instead of studio-2/1, and studio-1/2 to studio-2/1"
        " instead of studio-3/1"
    )  # fmt: skip
    assert first.person == "exchange the plugs at studio-1/1 and studio-1/2"


def test_plugs_that_two_machines_have_exchanged_are_a_swap_too() -> None:
    declared = (("studio-1/1", "studio-2/1"), ("studio-3/1", "studio-4/1"))
    crossed = (("studio-1/1", "studio-4/1"), ("studio-2/1", "studio-3/1"))
    first, _ = faults(cluster(declared, crossed))
    assert first.state is LinkState.SWAPPED
    assert first.person == "exchange the plugs at studio-2/1 and studio-4/1"


def test_two_cables_between_one_pair_that_are_crossed_are_swapped() -> None:
    declared = (("studio-1/1", "studio-2/1"), ("studio-1/2", "studio-2/2"))
    crossed = (("studio-1/1", "studio-2/2"), ("studio-1/2", "studio-2/1"))
    assert [sight.state for sight in faults(cluster(declared, crossed))] == [LinkState.SWAPPED] * 2


def test_of_a_machine_that_does_not_answer_nothing_is_known() -> None:
    world = cluster(MESH, MESH)
    world.lose("studio-2")
    assert {(sight.state, sight.link.one.node == "studio-2" or sight.link.other.node == "studio-2")
            for sight in compared(world)} == {(LinkState.UNKNOWN, True), (LinkState.CONNECTED, False)}  # fmt: skip
    assert faults(world)[0].text == "studio-2 does not answer"


def test_where_rdma_is_off_its_ports_are_down_for_that_and_the_cables_are_well() -> None:
    down = {end: {"verbs_up": False} for pair in MESH for end in pair if "studio-2" in "".join(pair)}
    world = cluster(MESH, MESH, down)
    world.facts[NodeName("studio-2")] = replace(world.facts[NodeName("studio-2")], rdma_enabled=False)
    assert faults(world) == []


def test_ends_have_the_addresses_of_the_pool() -> None:
    world = cluster(ONE, ONE)
    world.manifests[4] = fabric("studios", *ONE, pool="10.77.0.0/16")
    (sight,) = compared(world)
    assert [each.partition("/")[2] for each in sight.addresses] == ["30", "30"]


def test_an_undeclared_cable_of_two_fabrics_is_told_by_the_first_alone() -> None:
    left, right = (("studio-1/1", "studio-2/1"),), (("studio-2/2", "studio-3/2"),)
    world = cluster(left, (*left, *right, ("studio-2/4", "studio-4/4")))
    world.manifests[4:5] = [fabric("left", *left), fabric("right", *right)]
    found = planning.compare(world.seen())
    assert [[row.state for row in found[name]] for name in ("left", "right")] == [
        [LinkState.CONNECTED, LinkState.UNDECLARED],
        [LinkState.CONNECTED],
    ]


# --- what follows from it ----------------------------------------------------------------------------


def test_a_declared_cable_that_is_missing_is_a_trouble_although_no_group_had_it() -> None:
    plan = cluster(MESH, without(MESH, 3)).plan()
    (trouble,) = plan.troubles
    assert (str(trouble.subject), trouble.fault) == ("link/studio-2/studio-3", FaultClass.LINK_DOWN)
    assert trouble.person.startswith("plug a Thunderbolt 5 cable into studio-2/2 and studio-3/2")


def test_a_cable_that_a_group_had_is_no_trouble_where_a_fabric_has_others() -> None:
    world = two_macs(transport=["jaccl", "ring-lan"])
    for name in (A, B):
        learn_of_port(world, name, connected=False, active=False, verbs_up=False, peer=None)
    assert [trouble.fault for trouble in world.plan().troubles] == [FaultClass.LINK_DOWN]
    world.bring(fabric("others", ("node-a/5", "node-c/5")))
    assert world.plan().troubles == ()


def test_a_cable_to_a_machine_that_leaves_is_no_trouble_although_a_group_has_it() -> None:
    world = two_macs(transport=["jaccl", "ring-lan"])
    for name in (A, B):
        learn_of_port(world, name, connected=False, active=False, verbs_up=False, peer=None)
    world.remove(next(each for each in world.manifests if each.metadata.name == B))
    assert [trouble for trouble in world.plan().troubles if str(trouble.subject).startswith("link/")] == []


def test_a_declared_cable_that_is_pulled_under_a_group_is_asked_for_once_by_its_place() -> None:
    world = three_macs()
    pulled = [(A, 3), (B, 4)]
    for name, receptacle in pulled:
        ports = tuple(
            replace(port, connected=False, active=False, verbs_up=False, peer=None)
            if port.receptacle == receptacle
            else port
            for port in world.facts[name].ports
        )
        learn(world, name, ports=ports)
    world.end_rank(world.group().rank_ids[1], signal=11)

    told = {str(trouble.subject): trouble for trouble in world.plan().troubles}
    assert told.keys() == {"link/node-a/node-b", "replica/tiny/0"}
    assert {trouble.fault for trouble in told.values()} == {FaultClass.LINK_DOWN}
    assert told["link/node-a/node-b"].person.startswith(
        "plug a Thunderbolt 5 cable into node-a/3 and node-b/4"
    )
    assert told["replica/tiny/0"].person == ""

    world.since[B] = world.now - 10  # nobody is to reseat a cable for a restart, whoever suffers from it
    (told_of_group,) = world.plan().troubles
    assert (str(told_of_group.subject), told_of_group.person) == ("replica/tiny/0", "")


def test_a_swap_is_one_trouble() -> None:
    crossed = (("studio-1/2", "studio-2/1"), ("studio-1/1", "studio-3/1"), *MESH[2:])
    (trouble,) = cluster(MESH, crossed).plan().troubles
    assert trouble.person == "exchange the plugs at studio-1/1 and studio-1/2"


def test_a_slow_cable_is_told_once_though_both_of_its_ends_and_its_fabric_show_it() -> None:
    slow = {end: {"gbps": 40, "verbs_up": False} for end in MESH[0]}
    world = cluster(MESH, MESH, slow)
    (trouble,) = world.plan().troubles
    assert [each.state for each in faults(world)] == [LinkState.TOO_SLOW]
    assert (str(trouble.subject), trouble.fault) == (
        "link/studio-1/studio-2",
        FaultClass.UNSUPPORTED_PLATFORM,
    )


def test_an_undeclared_cable_and_a_lost_machine_are_no_trouble_of_a_cable() -> None:
    world = cluster(MESH[:5], MESH)
    assert [each for each in world.plan().troubles if str(each.subject).startswith("link/")] == []
    world.lose("studio-4")
    assert [each for each in world.plan().troubles if str(each.subject).startswith("link/")] == []


# --- for any cabling -----------------------------------------------------------------------------------

ENDS = [f"{name}/{number}" for name in STUDIOS for number in (1, 2, 3, 4)]


@st.composite
def cablings(draw: st.DrawFn) -> Cables:
    """Receptacles joined at random, none with itself, no machine with itself."""
    order = draw(st.permutations(ENDS))
    pairs = zip(order[::2], order[1::2], strict=True)
    found = [pair for pair in pairs if pair[0].split("/")[0] != pair[1].split("/")[0]]
    return tuple(found[: draw(st.integers(1, 8))])


def imported(cables: Cables) -> Cables:
    """What an import declares of the cabling that is there, by what the machines' nodes show."""
    nodes: list[Any] = [
        {
            "kind": "Node",
            "metadata": {"name": str(name)},
            "status": {
                "conditions": [{"type": "Ready", "status": "True", "message": ""}],
                "mac": machine.as_json(facts),
            },
        }
        for name, facts in facts_of(cables).items()
    ]
    return tuple((str(link.one), str(link.other)) for link in cabling(nodes))


@given(cablings())
def test_what_was_imported_compares_without_a_finding(cables: Cables) -> None:
    assert len(imported(cables)) == len(cables)
    assert faults(cluster(imported(cables), cables)) == []


@given(cablings().filter(bool), st.data())
def test_a_cable_that_is_pulled_is_one_finding_of_that_cable(cables: Cables, data: st.DataObject) -> None:
    gone = data.draw(st.integers(0, len(cables) - 1))
    (sight,) = faults(cluster(imported(cables), without(cables, gone)))
    one, other = (End(end[:8], int(end[9:])) for end in cables[gone])
    assert (sight.state, sight.link) == (LinkState.MISSING, link_between(one, other))


@given(cablings(), cablings())
def test_every_declared_link_is_told_once_whatever_is_there(declared: Cables, there: Cables) -> None:
    sights = compared(cluster(declared, there))
    named = [sight.link for sight in sights]
    assert len(named) == len(set(named))
    links = [sight for sight in sights if sight.state is not LinkState.UNDECLARED]
    assert len(links) == len(declared)
    wrong = [sight for sight in links if sight.state is not LinkState.CONNECTED]
    assert all(sight.text and sight.person for sight in wrong)
    assert len(wrong) == len(declared) - len(
        {frozenset(pair) for pair in declared} & {frozenset(p) for p in there}
    )


def test_nobody_is_to_reseat_the_cables_of_a_machine_that_has_just_come_back() -> None:
    world = cluster(MESH, MESH, {"studio-1/1": {"verbs_up": False}})
    world.since["studio-2"] = world.now - 10
    assert world.plan().troubles == ()
    world.since["studio-2"] = world.now - 60
    assert [str(trouble.subject) for trouble in world.plan().troubles] == ["link/studio-1/studio-2"]


def test_who_answers_anew_without_having_been_restarted_had_its_cables_all_the_time() -> None:
    world = cluster(MESH, MESH, {"studio-1/1": {"verbs_up": False}})
    world.since["studio-2"] = world.now - 10
    for up_for, told in ((60, []), (3600, ["link/studio-1/studio-2"])):
        world.facts[NodeName("studio-2")] = replace(
            world.facts[NodeName("studio-2")], booted_at=world.now - up_for
        )
        assert [str(trouble.subject) for trouble in world.plan().troubles] == told


def test_a_fabric_is_ready_while_all_of_it_is_known_to_be_as_declared() -> None:
    world = cluster(MESH, MESH)
    assert ready(world) == (True, "LinksConnected", "6 of 6 links are connected")
    world.lose("studio-2")
    assert ready(world) == (
        False, "LinksUnknown", "3 of 6 links are connected: studio-2 does not answer"
    )  # fmt: skip
    fault = ready(cluster(MESH, without(MESH, 3)))
    assert fault[:2] == (False, "LinksNotAsDeclared")
    assert fault[2] == "5 of 6 links are connected: studio-2/2 - studio-3/2 is missing"
    several = ready(cluster(MESH, without(MESH, 0, 3)))
    assert several[2] == "4 of 6 links are connected: studio-1/1 - studio-2/1 is missing, and 1 more"


def ready(world: World) -> tuple[bool, str, str]:
    """Of the Fabric: status, reason and message."""
    return readiness(compared(world))[:3]
