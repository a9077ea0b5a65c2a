"""At which addresses the ranks of a group find each other where no cable joins them."""

from __future__ import annotations

from typing import Any

import pytest

from reconciler.planning.transport import lan_addresses
from reconciler.resources import Node
from reconciler.state import Ends, NodeName
from reconciler.wire.generation import Jump
from tests.worlds import World, deployment, model, node

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIPbP3JZnBSCsPkM5XQd6EuNmIpQ8p2mFHwqbIqNlNnY7"
NODE_A, NODE_B, NODE_C = ALL = tuple(NodeName(f"node-{letter}") for letter in "abc")


def far(name: str, **spec: Any) -> Node:
    access = {"ssh": {"host": f"{name}.local", "user": "u", "hostKey": KEY}}
    body = {"apiVersion": "reconciler/v1alpha1", "kind": "Node", "metadata": {"name": name}}
    return Node.model_validate({**body, "spec": {**access, **spec}})


def found(nodes: list[Node], **ends: tuple[str, str]) -> tuple[str, ...] | str:
    world = World([*nodes, model(), deployment(nodes=3)])
    world.ends = {NodeName(name.replace("_", "-")): Ends(*both, 22) for name, both in ends.items()}
    world.settle()
    return lan_addresses.lan_addresses(world.seen(), ALL)


def test_nodes_of_one_machine_use_loopback() -> None:
    assert found([node("node-a"), node("node-b"), node("node-c")]) == ("127.0.0.1",) * 3


def test_nodes_elsewhere_are_found_where_the_controller_finds_them() -> None:
    seen = {
        "node_a": ("10.0.0.1", "10.0.0.5"),
        "node_b": ("10.0.0.1", "10.0.0.6"),
        "node_c": ("10.0.0.1", "10.0.0.7"),
    }
    assert found([far("node-a"), far("node-b"), far("node-c")], **seen) == (
        "10.0.0.5",
        "10.0.0.6",
        "10.0.0.7",
    )


def test_a_local_node_among_others_has_the_controllers_end_of_the_connections() -> None:
    seen = {"node_b": ("10.0.0.1", "10.0.0.6"), "node_c": ("127.0.0.1", "127.0.0.1")}
    assert found([node("node-a"), far("node-b"), far("node-c")], **seen) == (
        "10.0.0.1",
        "10.0.0.6",
        "10.0.0.1",
    )


def test_a_node_behind_another_machine_is_found_where_that_one_finds_it() -> None:
    world = World([far("node-a"), far("node-b"), model(), deployment(nodes=2)])
    for name, host in (("node-a", "10.0.0.5"), ("node-b", "10.0.0.6")):
        world.ends[NodeName(name)] = Ends(jumps=(Jump("bastion", 22, "u", KEY),), inner=(host, 22))
    world.settle()
    snapshot = world.seen()
    assert lan_addresses.lan_addresses(snapshot, ALL[:2]) == ("10.0.0.5", "10.0.0.6")


def test_a_rank_without_others_needs_no_address() -> None:
    world = World([far("node-a"), model(), deployment(nodes=1)])
    assert world.settle().waiting == ()
    assert world.group().proven_at is not None


def test_what_the_manifest_says_counts_most() -> None:
    seen = {"node_b": ("10.0.0.1", "10.0.0.6"), "node_c": ("10.0.0.1", "10.0.0.7")}
    nodes = [node("node-a"), far("node-b", address="192.168.9.6"), far("node-c")]
    assert found(nodes, **seen) == ("10.0.0.1", "192.168.9.6", "10.0.0.7")


@pytest.mark.parametrize(
    ("there", "said"),
    [
        ("", "node-c is reached at no known address: set spec.address"),
        ("fe80::1", "node-c is reached at fe80::1, which is no IPv4 address: set spec.address"),
    ],
)
def test_an_address_that_ranks_cannot_use_is_a_refusal_that_says_what_to_do(there: str, said: str) -> None:
    seen = {"node_a": ("10.0.0.1", "10.0.0.5"), "node_b": ("10.0.0.1", "10.0.0.6"), "node_c": ("", there)}
    answer = found([far("node-a"), far("node-b"), far("node-c")], **seen)
    assert isinstance(answer, str)
    assert answer.startswith(said)
    world = World([far("node-a"), far("node-c"), model(), deployment(nodes=2)])
    world.ends = {NodeName(name.replace("_", "-")): Ends(*both, 22) for name, both in seen.items()}
    world.settle()
    assert [said in refusal.text for refusal in world.plan().refused] == [True]


def test_a_local_node_is_found_from_the_first_of_the_others_that_is_connected() -> None:
    nodes = [node("node-a"), far("node-b", address="192.168.9.6"), far("node-c")]
    seen = {"node_c": ("10.0.0.1", "10.0.0.7")}
    assert found(nodes, node_b=("", ""), **seen) == ("10.0.0.1", "192.168.9.6", "10.0.0.7")


def known(nodes: list[Node], name: str, **ends: tuple[str, str]) -> str:
    world = World([*nodes, model(), deployment(nodes=1)])
    world.ends = {NodeName(each.replace("_", "-")): Ends(*both, 22) for each, both in ends.items()}
    world.settle()
    return lan_addresses.known_address(world.seen(), NodeName(name))


@pytest.mark.parametrize(
    ("local", "far_away", "there", "address"),
    [
        ({}, {}, "10.0.0.6", "10.0.0.1"),
        ({"address": "192.168.9.5"}, {}, "10.0.0.6", "192.168.9.5"),
        ({}, {"address": "192.168.9.6"}, "10.0.0.6", "10.0.0.1"),
        ({}, {}, "fe80::1", "10.0.0.1"),
    ],
)
def test_other_machines_reach_a_local_node_at_the_controllers_end_unless_the_manifest_says_more(
    local: dict[str, str], far_away: dict[str, str], there: str, address: str
) -> None:
    nodes = [node("node-a", **local), far("node-b", **far_away)]
    assert known(nodes, "node-a", node_b=("10.0.0.1", there), node_a=("127.0.0.1", "127.0.0.1")) == address


@pytest.mark.parametrize(
    ("spec", "there", "address"),
    [
        ({}, "10.0.0.6", "10.0.0.6"),
        ({"address": "192.168.9.6"}, "10.0.0.6", "192.168.9.6"),
        ({}, "fe80::1", ""),
        ({}, "", ""),
        ({"ssh": {"host": "10.0.0.8", "user": "u", "hostKey": KEY}}, "fe80::1", "10.0.0.8"),
        ({"ssh": {"host": "10.0.0.8", "user": "u", "hostKey": KEY}}, "", "10.0.0.8"),
    ],
)
def test_other_machines_reach_a_far_node_where_the_controller_does(
    spec: dict[str, Any], there: str, address: str
) -> None:
    assert known([node("node-a"), far("node-b", **spec)], "node-b", node_b=("10.0.0.1", there)) == address


@pytest.mark.parametrize(
    ("spec", "address"), [({}, "127.0.0.1"), ({"address": "192.168.9.5"}, "192.168.9.5")]
)
def test_nodes_of_one_machine_are_known_at_loopback_unless_the_manifest_says_more(
    spec: dict[str, str], address: str
) -> None:
    assert known([node("node-a", **spec), node("node-b")], "node-a") == address
