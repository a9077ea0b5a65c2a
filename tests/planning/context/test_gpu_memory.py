"""Ranks of a Mac are given what its GPU may wire, and no more; a refusal says so."""

from __future__ import annotations

from typing import Any

import pytest

from reconciler.planning.context.memory_ledger import Ledger
from reconciler.state import DeploymentName, MachineFacts, NodeName, ReplicaId
from tests.planning.macs import mac
from tests.worlds import TINY, World, deployment, model, node

GIB = 2**30
A = NodeName("node-a")
NOBODY = ReplicaId(DeploymentName("nobody"), 0)


def one_mac(facts: MachineFacts | None = None, **spec: Any) -> World:
    """A Mac of 64 GiB whose GPU may wire 48 GiB by itself."""
    world = World([node("node-a", **spec), model(), deployment(nodes=1)])
    world.system, world.facts = "Darwin", {A: facts or mac()}
    return world


def free(world: World) -> int:
    world.settle()
    return Ledger.of(world.seen()).free(A, ReplicaId(DeploymentName("tiny"), 0)) // GIB


@pytest.mark.parametrize(
    ("limit", "working_set", "spec", "expected"),
    [
        pytest.param(0, 48, {}, 48, id="what Metal recommends, where the limit is the system's own"),
        pytest.param(60, 60, {}, 60, id="the limit, where one is set"),
        pytest.param(60, 48, {}, 60, id="the limit, also where Metal was asked before it was set"),
        pytest.param(None, None, {}, 42, id="two thirds, where nothing is known"),
        pytest.param(
            0, 48, {"memory": {"limit": "56GiB"}}, 48, id="a manifest does not make a GPU wire more"
        ),
        pytest.param(0, 48, {"memory": {"limit": "20GiB"}}, 20, id="but it may leave less"),
        pytest.param(0, 48, {"memory": {"reserve": "8GiB"}}, 48, id="what is reserved is outside of it"),
        pytest.param(0, 48, {"memory": {"reserve": "24GiB"}}, 40, id="or takes of it"),
        pytest.param(99, 48, {}, 64, id="a limit beyond its memory gives it no more"),
    ],
)
def test_a_mac_has_as_much_room_as_its_gpu_may_wire(
    limit: int | None, working_set: int | None, spec: dict[str, Any], expected: int
) -> None:
    def known(gib: int | None) -> int | None:
        return None if gib is None else gib * GIB

    facts = MachineFacts(
        boot_id="boot",
        system="Darwin",
        wired_limit_bytes=known(limit),
        working_set_bytes=known(working_set),
    )
    assert free(one_mac(facts, **spec)) == expected


def test_a_machine_that_is_no_mac_has_all_of_its_memory() -> None:
    world = one_mac(MachineFacts(boot_id="boot", working_set_bytes=GIB))
    world.system = "Linux"
    assert free(world) == 64


def test_a_rank_that_its_gpu_could_not_hold_is_refused_with_what_to_do() -> None:
    world = one_mac()
    world.weights["tiny"] = (50 * GIB, TINY)
    world.settle()
    (refusal,) = world.plan().refused
    assert refusal.text.startswith(
        "needs 50.8 GiB on a node, node-a has the most free: 48.0 GiB (its GPU may wire 48.0 GiB of 64.0 GiB); "
    )
    assert refusal.text.endswith(
        "or let the GPU of node-a wire more: spec.memory.limit and spec.repair.wiredLimit of its Node, or there:"
        " sudo sysctl iogpu.wired_limit_mb=MIB, again after each restart"
    )
    assert world.groups == {}


def test_where_the_manifest_leaves_less_than_the_gpu_nothing_is_said_of_the_gpu() -> None:
    world = one_mac(memory={"limit": "16GiB"})
    world.weights["tiny"] = (50 * GIB, TINY)
    world.settle()
    assert "GPU" not in world.plan().refused[0].text


def test_a_node_that_allows_it_is_given_the_limit_and_then_the_rank() -> None:
    world = one_mac(memory={"limit": "60GiB"}, repair={"wiredLimit": True})
    world.weights["tiny"] = (50 * GIB, TINY)
    world.settle()
    assert world.facts[A].wired_limit_bytes == 60 * GIB
    assert [group.members for group in world.groups.values()] == [(A,)]
