"""Each belief about a Mac, taken both ways: an emulated Mac on which it is true, one on which it is false, and what the product
makes of the two by what their tools print."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import pytest

from reconciler.planning.context.memory_ledger import Placed
from reconciler.planning.transport import fallback, link_check
from reconciler.sandbox.world import changes, macs
from reconciler.sandbox.world.state import End, World
from reconciler.state import DeploymentName, NodeName, ReplicaId
from reconciler.state.machine.links import LinkState
from reconciler.transports import MESH
from tests.documents.newcomer import ROOT
from tests.documents.test_beliefs import BELIEFS
from tests.worlds import World as Cluster
from tests.worlds import deployment, fabric, model, node

from .test_tools import NOW, probed

A, B = "n1", "n2"
HERE, THERE = (A, 1), (B, 1)
LINK = (f"{A}/1", f"{B}/1")


@dataclass(frozen=True)
class Judged:
    """What the product makes of two Macs with a cable."""

    link: LinkState
    """The state of the cable in its Fabric."""
    refused: str
    """Why no group of both uses RDMA; empty if one may."""


OK = Judged(LinkState.CONNECTED, "")


def two_macs(kind: str = "mini") -> World:
    return changes.addressed(macs.world([A, B], kind, macs.MESH, ["boot-a", "boot-b"], NOW - 999))


def judge(world: World, allowed: bool) -> Judged:
    """Probe the emulated Macs, and plan for what was read."""
    cables = [
        (f"{one[0]}/{one[1]}", f"{other[0]}/{other[1]}")
        for one, other in (cable.ends for cable in world.cables)
    ]
    declared = fabric("minis", *cables, untested=tuple(cables) if allowed else ())
    cluster = Cluster([node(A), node(B), declared, model(), deployment(nodes=2)])
    cluster.system = "Darwin"
    cluster.agents = {NodeName(A), NodeName(B)}
    cluster.facts = probed(world)
    seen = cluster.seen()
    members: Placed = (NodeName(A), NodeName(B))
    link = link_check.compare(seen)["minis"][0]
    return Judged(link.state, fallback.obstacle(seen, ReplicaId(DeploymentName("tiny"), 0), MESH, members))


def full_of_slow_cables() -> World:
    """Two Macs without a free receptacle."""
    world = two_macs()
    for receptacle in (2, 3):
        world = changes.plug(world, (A, receptacle), (B, receptacle))
    world = changes.addressed(world)
    for receptacle in (1, 2, 3):
        world = changes.slow_rdma(world, (A, receptacle))
    return world


def other_identity(world: World, end: End) -> World:
    """A Mac whose port has got another domain."""
    return changes.replace_machine(
        world,
        end[0],
        lambda mac: replace(
            mac,
            ports=tuple(
                replace(port, domain="0BADCAFE-0000-4000-8000-000000000001")
                if port.receptacle == end[1]
                else port
                for port in mac.ports
            ),
        ),
    )


Make = Callable[[], World]
Way = tuple[Make, Judged, Judged]
"""A world, and what is made of it by default, and where a Fabric allows what is not tested."""
SLOW = Judged(LinkState.TOO_SLOW, "the link at n1/1 has 40 Gb/s")
SLOW_UNTESTED = Judged(
    LinkState.TOO_SLOW, "the link at n1/1 has 40 Gb/s, not tested: see spec.allowUntested of its Fabric"
)
DOCK, HUB = "ThunderBay Flex 8", "iVANKY Fusiondock Ultra"
UNNAMED = "no Thunderbolt cable is known between n1 and n2"
ALLOWED = Judged(LinkState.UNTESTED, "")
PORT_DOWN = Judged(LinkState.DOWN, "the link from n1/1 to n2 has no RDMA: its port is down")


def minis() -> World:
    return two_macs()


def old_minis() -> World:
    return two_macs("mini-tb4")


def old_minis_with_rdma() -> World:
    """Two Macs with Thunderbolt 4 on which RDMA is on nevertheless."""
    return changes.with_machine(changes.with_machine(old_minis(), A, rdma_enabled=True), B, rdma_enabled=True)


def late_gids() -> World:
    return changes.with_machine(minis(), A, gids_from=NOW + 60)


def old_system() -> World:
    return changes.with_machine(minis(), B, version="26.1")


def same(make: Make, link: LinkState, refused: str) -> Way:
    """A world in which what a Fabric allows makes no difference."""
    return make, Judged(link, refused), Judged(link, refused)


def hub(end: str) -> Judged:
    return Judged(
        LinkState.THROUGH_DOCK,
        f"the link at {end} goes through {HUB}, not tested: see spec.allowUntested of its Fabric",
    )


FINE: Way = (minis, OK, OK)
TAKEN: Mapping[str, tuple[Way, Way]] = {
    # belief: a Mac on which it is true, and one on which it is false
    "dock": (
        same(lambda: changes.dock(minis(), HERE), LinkState.THROUGH_DOCK, UNNAMED),
        (lambda: changes.hub(minis(), HERE), hub("n1/1"), ALLOWED),
    ),
    "dock-ends": (
        (lambda: changes.hub(minis(), THERE), hub("n2/1"), ALLOWED),
        same(lambda: changes.dock(minis(), THERE), LinkState.THROUGH_DOCK, UNNAMED),
    ),
    "slow": (
        (lambda: changes.slow(minis(), HERE), SLOW_UNTESTED, PORT_DOWN),
        (lambda: changes.slow_rdma(minis(), HERE), SLOW_UNTESTED, ALLOWED),
    ),
    "thunderbolt4": (
        same(old_minis, LinkState.TOO_SLOW, "n1 has no Thunderbolt 5, and so no RDMA"),
        same(old_minis_with_rdma, LinkState.TOO_SLOW, SLOW.refused),
    ),
    "ceiling": (
        (lambda: changes.slow_rdma(minis(), HERE), SLOW_UNTESTED, ALLOWED),
        (full_of_slow_cables, SLOW, SLOW),
    ),
    "bridge": (
        same(lambda: changes.bridge(minis(), A, 1), LinkState.CONNECTED, "en2 of n1 is a member of a bridge"),
        FINE,
    ),
    "gid": (
        same(lambda: changes.lose_ipv4(minis(), A, 1), LinkState.CONNECTED, "en2 of n1 has no IPv4 address"),
        same(late_gids, LinkState.CONNECTED, "en2 of n1 has no IPv4-mapped GID"),
    ),
    "gid-index": (
        FINE,
        same(
            lambda: changes.move_gid(minis(), A, 1, 2),
            LinkState.CONNECTED,
            "the IPv4-mapped GID of en2 of n1 has index 2, and MLX connects by index 1",
        ),
    ),
    "identity": (FINE, (lambda: other_identity(minis(), HERE), OK, OK)),
    "rdma-off": (
        same(lambda: changes.rdma(minis(), B, False), LinkState.CONNECTED, "RDMA is disabled on n2"),
        FINE,
    ),
    "builds": (same(old_system, LinkState.CONNECTED, "n2 runs macOS 26.1"), FINE),
}
ELSEWHERE = {
    # beliefs that take a running rank, a restart, or another print of a tool: the tests that take them both ways
    "width": "tests/inventory/probes/test_machine.py::test_the_lower_of_the_speeds_that_macos_and_the_driver_tell_counts",
    "names": "tests/inventory/probes/test_machine.py::test_receptacles_of_which_no_port_has_the_name_are_reported_as_such_and_not_as_no_ports",
    "own-address": "tests/sandbox/test_ports.py::test_what_people_are_told_to_type_ends_the_fault",
    "beside-ethernet": "tests/planning/transport/test_link_check.py::test_what_is_told_of_a_cable",
    "domains": "tests/sandbox/test_verbs.py::test_what_a_process_holds_of_a_device_is_free_when_it_is_gone",
    "killed": "tests/sandbox/test_verbs.py::test_a_process_that_gives_nothing_back_leaks_where_kills_do",
    "unkillable": "tests/e2e/emulated_macs/test_unkillable.py::test_the_other_machine_serves_a_person_gets_the_line_and_all_is_well_after_the_restart",
    "decay": "tests/e2e/emulated_macs/test_classes.py::test_a_class_is_brought_about_named_answered_and_taken_back",
    "pulled": "tests/e2e/emulated_macs/test_classes.py::test_a_class_is_brought_about_named_answered_and_taken_back",
    "network-privacy": "tests/e2e/emulated_macs/test_classes.py::test_a_class_is_brought_about_named_answered_and_taken_back",
    "filevault": "tests/e2e/emulated_macs/test_locked_disk.py::test_the_line_to_type_has_the_last_address_also_after_a_restart_of_the_controller",
}
UNTAKEN = {
    "uc-pingpong": "only a person types it",
    "launchd": "the emulated launchd obeys the definition that the product writes",
    "power-readers": "the emulated GPU is disturbed by no program that reads its power",
    "gpu-memory": "the emulated GPU wires what Metal recommends",
}


@pytest.mark.parametrize("allowed", [False, True], ids=["by default", "allowed"])
@pytest.mark.parametrize("true", [True, False], ids=["true", "false"])
@pytest.mark.parametrize("belief", TAKEN)
def test_a_belief_is_judged_by_what_the_tools_print_whether_it_is_true_or_not(
    belief: str, true: bool, allowed: bool
) -> None:
    make, by_default, if_allowed = TAKEN[belief][0 if true else 1]
    assert judge(make(), allowed) == (if_allowed if allowed else by_default)


@pytest.mark.parametrize("belief", TAKEN)
def test_two_macs_that_differ_in_a_belief_differ_in_what_their_tools_print(belief: str) -> None:
    (one, *_), (other, *_) = TAKEN[belief]
    assert probed(one()) != probed(other())


def test_each_belief_of_the_page_is_taken_both_ways_or_it_is_said_why_not() -> None:
    told = [*TAKEN, *ELSEWHERE, *UNTAKEN]
    assert len(told) == len(set(told))
    assert set(told) == {belief.id.strip("`") for belief in BELIEFS}


@pytest.mark.parametrize("belief", ELSEWHERE)
def test_the_test_of_a_belief_exists(belief: str) -> None:
    path, _, name = ELSEWHERE[belief].partition("::")
    assert f"def {name}(" in (ROOT / path).read_text()
