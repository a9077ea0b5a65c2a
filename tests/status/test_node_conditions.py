"""What is said of a machine, for each thing that can be wrong with it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from reconciler.resources import NodeSpec, SshAccess
from reconciler.state import Contact, FaultClass, NodeName, Observed, Plan, Trouble, subjects
from reconciler.state.identity import ObjectKey
from reconciler.status import node
from reconciler.status.by_object import ByObject
from reconciler.status.node_comparison import NodeComparison
from reconciler.wire.node import HeldBy, Load
from tests.worlds import World, two_nodes
from tests.worlds import node as node_of

A, B = NodeName("node-a"), NodeName("node-b")
GIB = 2**30


def conditions_of(world: World, **changes: Any) -> dict[str, tuple[bool, str, str]]:
    """The conditions of node-a, of which some things are seen otherwise."""
    world.settle()
    seen = world.observed()
    about = {
        name: changes.pop(name)
        for name in ("contact", "problem", "barred", "skew_seconds")
        if name in changes
    }
    mine = seen.nodes[A]
    assert mine.report is not None
    nodes = {**seen.nodes, A: replace(mine, report=replace(mine.report, **changes), **about)}
    observed, desired = Observed(nodes, seen.gateway), world.desired()
    planned, parity = ByObject.of(desired, world.plan()), NodeComparison.of(desired, observed).condition(A)
    found = node.conditions(A, desired, nodes[A], planned, parity)
    return {each.type: (each.status, each.reason, each.message) for each in found}


def test_a_node_that_is_well() -> None:
    world = two_nodes()
    found = conditions_of(
        world,
        load=Load(1000.0, 32 * GIB, "normal"),
        models_free_bytes=500 * GIB,
        models_total_bytes=1000 * GIB,
    )
    assert {kind: (status, reason) for kind, (status, reason, _) in found.items()} == {
        "Reachable": (True, "Answers"),
        "AgentReady": (True, "Serving"),
        "RuntimeReady": (True, "RuntimeFound"),
        "NetworkReady": (True, "NothingDeclared"),
        "MemoryPressure": (False, "MemorySufficient"),
        "DiskPressure": (False, "DiskHasRoom"),
        "ClockSkew": (False, "ClocksAgree"),
        "ParityOk": (True, "SameAsMost"),
        "Quarantined": (False, "NotQuarantined"),
    }


@pytest.mark.parametrize(
    ("kind", "expected", "words", "changes"),
    [
        ("Reachable", (False, "NoAnswer"), "no route", {"contact": Contact.UNREACHABLE, "problem": "no route"}),
        ("Reachable", (False, "HostKeyChanged"), "", {"contact": Contact.UNREACHABLE, "barred": "HostKeyChanged"}),
        ("Reachable", (False, "NotTriedYet"), "", {"contact": Contact.UNKNOWN}),
        ("Reachable", (True, "Answers"), "", {"contact": Contact.AGENT_DOWN}),
        ("AgentReady", (False, "NotServing"), "", {"contact": Contact.AGENT_DOWN}),
        ("AgentReady", (False, "NotSeen"), "", {"contact": Contact.UNREACHABLE}),
        ("RuntimeReady", (False, "NotLookedFor"), "", {"runtime": None}),
        ("RuntimeReady", (False, "RuntimeIncomplete"), "has no mlx and no mlx-lm and no llguidance: install", {"runtime": {}}),
        ("RuntimeReady", (False, "RuntimeIncomplete"), "has no mlx-lm: install", {"runtime": {"mlx": "1", "llguidance": "1"}}),
        ("MemoryPressure", (False, "NotMeasured"), "", {}),
        ("MemoryPressure", (True, "MemoryLow"), "3.0 of 64.0 GiB", {"load": Load(0.0, 3 * GIB)}),
        ("MemoryPressure", (False, "MemorySufficient"), "4.0 of", {"load": Load(0.0, 4 * GIB)}),
        ("MemoryPressure", (True, "SystemWarns"), "pressure warn", {"load": Load(0.0, 9 * GIB, "warn")}),
        ("MemoryPressure", (True, "SystemWarns"), "critical", {"load": Load(0.0, 9 * GIB, "critical")}),
        ("ClockSkew", (True, "ClockAhead"), "12.5 s ahead", {"load": Load(0.0), "skew_seconds": 12.5}),
        ("ClockSkew", (True, "ClockBehind"), "timedatectl", {"load": Load(0.0), "skew_seconds": -3.0}),
        ("ClockSkew", (True, "ClockBehind"), "sntp", {"load": Load(0.0), "skew_seconds": -3.0, "system": "Darwin"}),
        ("ClockSkew", (False, "ClocksAgree"), "", {"load": Load(0.0), "skew_seconds": 2.0}),
        ("ParityOk", (False, "RuntimeDiffers"), "mlx 0.1 here, mlx 0.32.4 on node-b",
         {"runtime": {"mlx": "0.1", "mlx-lm": "0.32.2"}}),
        ("ParityOk", (False, "NotCompared"), "", {"runtime": None}),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_with_its_reason(
    kind: str, expected: tuple[bool, str], words: str, changes: dict[str, Any]
) -> None:
    status, reason, text = conditions_of(two_nodes(), **changes)[kind]
    assert (status, reason) == expected
    assert words in text


def test_a_mac_of_another_release_is_told_from_the_others() -> None:
    world = two_nodes()
    world.system = "Darwin"
    status, reason, text = conditions_of(world, release="1.0")["ParityOk"]
    assert (status, reason) == (False, "SystemDiffers")
    assert "on node-b" in text


def test_of_the_many_that_are_alike_some_are_named() -> None:
    world = World([node_of(f"node-{letter}") for letter in "abcdefg"])
    _, _, text = conditions_of(world, runtime={"mlx": "0.1"})["ParityOk"]
    assert "on node-b, node-c, node-d and 3 more:" in text


@pytest.mark.parametrize(
    ("system", "held_by", "words"),
    [
        (
            "Darwin",
            HeldBy.SESSION,
            ["local network", "background", "after a restart", "node bootstrap node-a"],
        ),
        ("Darwin", HeldBy.LEFT, ["local network"]),
        ("Darwin", HeldBy.PROCESS, ["local network"]),
        ("Linux", HeldBy.PROCESS, ["after a restart of the machine", "node bootstrap node-a"]),
        ("Darwin", HeldBy.LAUNCHD, []),
        ("Linux", HeldBy.SYSTEMD, []),
        ("Linux", "", []),
    ],
)
def test_what_it_costs_is_said_where_nothing_keeps_an_agent_running(
    system: str, held_by: str, words: list[str]
) -> None:
    world = two_nodes()
    assert conditions_of(world, system=system, held_by=held_by)["AgentReady"] == (True, "Serving", ""), (
        "on the controller's own machine it is the controller that keeps it running"
    )
    key = f"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIA{'a' * 42}"
    far = SshAccess.model_validate({"host": "a", "user": "ada", "hostKey": key})
    world.manifests[0] = world.manifests[0].model_copy(update={"spec": NodeSpec(ssh=far)})
    status, reason, text = conditions_of(world, system=system, held_by=held_by)["AgentReady"]
    assert (status, reason) == (True, "NotKeptRunning" if words else "Serving")
    assert all(word in text for word in words)
    assert ("local network" in text) == ("local network" in words)


def test_a_cable_is_the_matter_of_the_machines_at_both_of_its_ends() -> None:
    cable = Trouble(
        ObjectKey("Node", A),
        subjects.read(f"link/{A}/{B}"),
        FaultClass.LINK_DOWN,
        "no cable joins them",
        "",
        "plug one in",
    )
    own = Trouble(
        ObjectKey("Node", B),
        subjects.read(f"node/{B}"),
        FaultClass.HOST_UNREACHABLE,
        "it hangs",
        "",
        "restart it",
    )
    world = two_nodes()
    found = ByObject.of(world.desired(), Plan(troubles=(cable,))).troubles
    assert found == {ObjectKey("Node", A): cable, ObjectKey("Node", B): cable}
    found = ByObject.of(world.desired(), Plan(troubles=(cable, own))).troubles
    assert found[ObjectKey("Node", B)] == own, "its own trouble is told first"
