"""A store that has lost anything: whatever a controller has forgotten, it takes no more out of service than it may."""

from __future__ import annotations

from collections.abc import Collection
from copy import copy
from dataclasses import replace
from itertools import chain, combinations
from typing import Any

import pytest

from reconciler.planning.rollout import specs
from reconciler.state import StopRank, WorkloadId
from reconciler.wire.launch import ExitCode, Phase
from tests.worlds import World, deployment, model, node, settled

TABLES = ("groups", "attempts", "last_epochs", "rollbacks", "agents", "verbs", "reboots")
PROOFS = "proofs"
"""Missing in a copy of the store from before the groups were proven."""
PARTS = (*TABLES, PROOFS)
LOST = [*chain.from_iterable(combinations(PARTS, count) for count in range(1, len(PARTS) + 1))]
REPLICAS = 3
REFUSED = {"maxBatch": 13}
ROLLING: dict[str, tuple[dict[str, Any], int]] = {
    "one may be out of service": ({}, 2),
    "an extra one serves first": ({"maxSurge": 1, "maxUnavailable": 0}, 3),
}
"""With how many are to serve at least."""
Group = tuple[WorkloadId, int]


def rolled_back(rolling: dict[str, Any]) -> World:
    """All replicas serve what they served before, because a newer spec was refused by its first rank."""
    names = [node(f"node-{at}") for at in range(REPLICAS + 1)]
    world = settled(World([*names, model(), deployment(nodes=1, replicas=REPLICAS, rolling=rolling)]))
    world.now += 3600.0
    world.manifests[-1] = deployment(nodes=1, replicas=REPLICAS, rolling=rolling, serving=REFUSED)
    obey(world)
    assert world.rollbacks
    return world


def obey(world: World, least: int = 0) -> None:
    """Obey until nothing is left to do; a rank of the refused spec ends at once.

    Never fewer than ``least`` groups serve: those with a living rank that has answered, whatever the store says.
    """
    proven = answering(world)
    for _ in range(200):
        decided = world.plan()
        if not decided.steps and all(each.until is None for each in decided.waiting):
            return
        for step in decided.steps:
            world.obey(step)
            assert not isinstance(step, StopRank) or len(proven & answering(world)) >= least, step
            proven |= {(replica, each.epoch) for replica, each in world.groups.items() if each.proven_at}
        for rank in world.alive():
            if world.ranks[rank][1].group in refused(world):
                world.end_rank(rank, code=ExitCode.CONFIG)
        world.now += 1.0
    raise AssertionError([str(step) for step in world.plan().steps])


def refused(world: World) -> list[str]:
    """The hash of the refused spec."""
    found = [specs.of_manifests(world.desired(), name) for name in world.desired().deployments]
    return [specs.hashed(spec) for spec in found if spec and spec.deployment.serving.max_batch == 13]


def answering(world: World) -> set[Group]:
    """The groups with a rank that is ready."""
    ready = (rank for rank in world.alive() if world.ranks[rank][1].phase == Phase.READY)
    return {(world.replica(index=rank.replica), rank.epoch) for rank in ready}


def served(world: World) -> set[str]:
    """The hashes of all specs that are served."""
    return {world.ranks[rank][1].group for rank in world.alive()}


def again(world: World) -> World:
    """The same world once more."""
    made = copy(world)
    vars(made).update({name: copy(each) for name, each in vars(world).items() if not callable(each)})
    return made


def forget(world: World, lost: Collection[str]) -> None:
    """A controller begins with a store in which these are missing."""
    for table in set(TABLES).intersection(lost):
        setattr(world, table, type(getattr(world, table))())
    if PROOFS in lost:
        world.groups = {name: replace(each, proven_at=None) for name, each in world.groups.items()}
    world.restart_controller()


@pytest.mark.second_tier
@pytest.mark.parametrize(("rolling", "least"), ROLLING.values(), ids=ROLLING)
def test_whatever_a_store_has_lost_enough_replicas_serve_and_a_refused_spec_is_taken_back_again(
    rolling: dict[str, Any], least: int
) -> None:
    begun = rolled_back(rolling)
    assert len(LOST) == 255
    for lost in LOST:
        world = again(begun)
        before = served(world)
        forget(world, lost)
        obey(world, least)
        assert served(world) == before, lost
        assert world.rollbacks, lost
        assert len(answering(world)) == REPLICAS, lost
