"""Groups are formed of compatible nodes, and of no others."""

from __future__ import annotations

from typing import Any

import pytest

from reconciler.planning.placement.explain import explain
from reconciler.state import Cause, DeploymentName, Plan, RefusedBecause, StartRank
from reconciler.wire.node import ModelReport
from tests.worlds import TINY, World, deployment, hub_model, model, node, settled

NEW = {"mlx": "0.32.5", "mlx-lm": "0.32.2", "llguidance": "1.9.1"}
MAC = {"system": "Darwin", "release": "25.2.0", "machine": "arm64", "build": "25C56"}


def cluster(nodes: int, wanted: Any, **differing: dict[str, Any]) -> World:
    """So many nodes, of which some are reported otherwise."""
    names = [f"node-{letter}" for letter in "abcdefgh"[:nodes]]
    world = World([*(node(name) for name in names), model(), deployment(nodes=wanted)])
    world.reports = {f"node-{letter}": changes for letter, changes in differing.items()}
    return world


def members(world: World) -> tuple[str, ...]:
    return tuple(world.group("tiny", 0).members)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"runtime": NEW}, "node-b has mlx 0.32.5 instead of 0.32.4"),
        (
            {"runtime": {"mlx": "0.32.4", "mlx-lm": "0.33", "llguidance": "1.9.1"}},
            "mlx-lm 0.33 instead of 0.32.2 as on node-a: install",
        ),
        ({"machine": "aarch64"}, "system Linux aarch64 instead of Linux x86_64"),
        (
            {"models": (ModelReport("tiny", "/models/tiny", True, 6_500_001, TINY),)},
            "put the same files on all",
        ),
    ],
)
def test_nodes_that_differ_form_no_group_and_it_says_in_what(changes: dict[str, Any], words: str) -> None:
    world = cluster(2, 2, b=changes)
    decided = world.settle()
    (refused,) = decided.refused
    assert refused.reason is RefusedBecause.NODES_DIFFER
    assert refused.text.startswith("needs 2 compatible nodes, 1 are: node-b has ")
    assert words in refused.text
    assert not world.groups
    world.reports = {}
    assert world.settle() == Plan()


@pytest.mark.parametrize("changes", [{"build": "25D10"}, {"release": "25.3.0", "build": ""}])
def test_macs_of_different_builds_form_no_group(changes: dict[str, str]) -> None:
    (refused,) = cluster(2, 2, a=MAC, b={**MAC, **changes}).settle().refused
    assert refused.reason is RefusedBecause.NODES_DIFFER
    assert "bring all to one version of" in refused.text


def test_a_kernel_of_linux_makes_no_difference() -> None:
    assert cluster(2, 2, b={"release": "6.19"}).settle() == Plan()


def test_code_of_ranks_that_differs_keeps_nodes_apart_and_one_that_is_not_known_does_not() -> None:
    versions = {"mlx": "0.32.4", "mlx-lm": "0.32.2", "llguidance": "1.9.1"}
    mixed = cluster(
        2, 2, a={"runtime": {**versions, "engine": "aa"}}, b={"runtime": {**versions, "engine": "bb"}}
    )
    (refused,) = mixed.settle().refused
    assert "engine bb instead of aa" in refused.text
    assert cluster(2, 2, a={"runtime": {**versions, "engine": "aa"}}).settle() == Plan()


def test_the_largest_set_of_like_nodes_is_chosen() -> None:
    world = settled(cluster(5, {"min": 2, "max": 4}, b={"runtime": NEW}, d={"runtime": NEW}))
    assert set(members(world)) <= {"node-a", "node-c", "node-e"}


def test_one_of_which_little_is_known_joins_those_that_agree_with_each_other() -> None:
    runtime = {"mlx": "0.32.4", "mlx-lm": "0.32.2", "llguidance": "1.9.1"}
    one, two = ({"runtime": {**runtime, "engine": engine}} for engine in ("aa", "bb"))
    world = settled(cluster(3, {"min": 2, "max": 3}, a=one, b={"runtime": runtime}, c=two))
    assert members(world) == ("node-a", "node-b")


def test_a_single_rank_agrees_with_itself() -> None:
    world = cluster(2, 1, b={"runtime": NEW})
    assert world.settle() == Plan()
    assert members(world) == ("node-a",)


def test_where_like_nodes_have_no_room_it_says_who_was_not_used() -> None:
    world = cluster(3, 2, c={"runtime": NEW})
    world.weights["tiny"] = (400 * 2**30, TINY)
    (refused,) = world.settle().refused
    assert refused.reason is RefusedBecause.NO_MEMORY
    assert "; not used: node-c has mlx 0.32.5" in refused.text


def test_what_runs_goes_on_when_its_nodes_differ_and_the_next_group_is_of_like_ones() -> None:
    world = cluster(3, 2)
    assert world.settle() == Plan()
    assert members(world) == ("node-a", "node-b")
    world.reports = {"node-b": {"runtime": NEW}}
    world.now += 100
    assert not world.settle().steps
    assert members(world) == ("node-a", "node-b")
    world.end_rank(world.alive()[0], signal=9)
    world.now += 100
    world.settle()
    assert members(world) == ("node-a", "node-c")


def test_an_epoch_whose_nodes_have_changed_before_their_ranks_start_is_formed_anew() -> None:
    world = cluster(3, 2)
    steps = world.plan().steps
    while not any(isinstance(step, StartRank) for step in steps):
        for step in steps:
            world.obey(step)
        steps = world.plan().steps
    world.reports = {"node-b": {"runtime": NEW}}
    again = world.forming()
    assert again.cause is Cause.FACTS_CHANGED
    assert "node-b has mlx 0.32.5 instead of 0.32.4" in again.detail
    world.settle()
    assert members(world) == ("node-a", "node-c")


def test_fetched_weights_of_one_commit_are_alike_whatever_their_size() -> None:
    world = cluster(2, 2)
    world.manifests[2] = hub_model()
    assert world.settle() == Plan()
    assert len(members(world)) == 2


def test_describe_says_in_what_an_unused_node_differs() -> None:
    world = settled(cluster(3, 2, c={"runtime": NEW}))
    seen = world.seen()
    (places,) = explain(seen, DeploymentName("tiny"))
    (text,) = (seat.text for seat in places.nodes if seat.node == "node-c")
    assert text.startswith("node-c has mlx 0.32.5 instead of")
