"""Deployments of models for embeddings: declared or found, always on one node."""

from __future__ import annotations

import pytest

from reconciler.state import Plan, RefusedBecause, StartRank
from reconciler.wire.question import Pooling
from tests.worlds import World, deployment, model, node

ALONE = "a model for embeddings runs on one node"


def poolings(world: World) -> list[Pooling | None]:
    """What each rank was told of how to make vectors."""
    return [step.spec.config.pooling for step in world.done(StartRank)]


def test_a_declaration_is_told_to_the_rank_and_another_one_needs_another_group() -> None:
    world = World([node("node-a"), model(), deployment(nodes=1)])
    assert world.settle() == Plan()
    for declared in ({}, {"pooling": "mean", "normalize": False}):
        world.manifests[-1] = deployment(nodes=1, serving={"embedding": declared})
        assert world.settle() == Plan()
    assert poolings(world) == [None, Pooling("last", True), Pooling("mean", False)]


@pytest.mark.parametrize("strategy", ["auto", "tensor", "pipeline"])
def test_what_a_node_finds_to_be_one_is_refused_on_several_before_anything_is_started(strategy: str) -> None:
    world = World([node("node-a"), node("node-b"), model(), deployment(strategy=strategy)])
    world.says["tiny"] = {"unsplittable": {"tensor": ALONE, "pipeline": ALONE}}
    (refused,) = world.settle().refused
    assert (refused.reason, world.alive()) == (RefusedBecause.NOT_SUPPORTED, [])
    assert refused.text.endswith(f"over 2 nodes: {ALONE}; works: nodes: 1")
