"""A deployment gets fewer replicas while those that are to stay do not serve: who serves goes on until they do."""

from __future__ import annotations

from typing import Any

import pytest

from reconciler.planning.context.deadlines import SILENCE_SECONDS
from reconciler.state import AllocateEpoch, Plan, RefusedBecause, StopRank
from reconciler.status.deployment import readiness
from tests.planning.rollout.rolling import BATCH, NAME, NEVER_LESS, ONE_EACH, replicas, roll, served
from tests.worlds import World, deployment

LOST_SECONDS = 600.0
"""Longer than a node that does not answer is waited for."""


def scale(world: World, count: int, **spec: Any) -> None:
    rolling = world.desired().deployments[NAME].spec.strategy.model_dump(by_alias=True, exclude_defaults=True)
    world.manifests[-1] = deployment(nodes=1, replicas=count, rolling=rolling, **spec)


def kill(world: World, *indexes: int) -> None:
    for rank in [rank for rank in world.alive() if rank.replica in indexes]:
        world.end_rank(rank, signal=9)


def routed(world: World) -> list[int]:
    (route,) = world.routes()
    return [backend.replica for backend in route.backends]


def stopped(world: World) -> set[int]:
    return {step.id.replica for step in world.plan().steps if isinstance(step, StopRank)}


@pytest.mark.parametrize(
    "rolling", [{}, NEVER_LESS, {"maxUnavailable": "100%"}], ids=["default", "never", "all"]
)
def test_the_only_one_that_serves_ends_when_another_does(rolling: dict[str, Any]) -> None:
    world = replicas(3, rolling, 4)
    kill(world, 0, 1)
    scale(world, 1)
    assert routed(world) == [2]
    seen = world.snapshots()
    ready = readiness(NAME, seen)
    assert (ready.ready, ready.message) == (True, "1 of 1 replicas serve, 1 of them extra")
    (waiting,) = [each for each in world.plan().waiting if each.workload == world.replica(index=2)]
    assert waiting.text == "tiny/2: no longer wanted: it ends when tiny/0 serves, which comes up"
    _, least = roll(world, seconds=1.0)
    assert (least, served(world), routed(world)) == (1, [0], [0])
    assert world.plan() == Plan()


def test_it_keeps_its_route_while_its_agent_is_away() -> None:
    world = replicas(3, {}, 4)
    kill(world, 0, 1)
    scale(world, 1)
    (place,) = world.group(index=2).members
    world.down = {place}
    assert routed(world) == [2]


@pytest.mark.parametrize("how", ["silent_seconds", "deaf_seconds"])
def test_it_does_not_end_while_the_one_that_is_to_stay_may_hang(how: str) -> None:
    world = replicas(2, {}, 3)
    (first,) = [rank for rank in world.alive() if rank.replica == 0]
    world.report(first, demand=1, **{how: SILENCE_SECONDS})
    scale(world, 1)
    assert stopped(world) == set()
    (waiting,) = [each for each in world.plan().waiting if each.workload == world.replica(index=1)]
    assert waiting.text.endswith("it ends when tiny/0 serves, which owes its clients an answer")
    world.report(first, demand=0, **{how: 0.0})
    assert stopped(world) == {1}


def test_of_several_those_with_the_lowest_numbers_stay() -> None:
    world = replicas(4, {}, 5)
    kill(world, 0)
    scale(world, 1)
    assert (stopped(world), routed(world)) == ({2, 3}, [1])


def test_nobody_waits_where_enough_serve() -> None:
    world = replicas(3, {}, 4)
    scale(world, 1)
    assert (stopped(world), routed(world)) == ({1, 2}, [0])


def test_where_nothing_is_to_serve_nobody_waits() -> None:
    world = replicas(2, {}, 3)
    scale(world, 0)
    assert stopped(world) == {0, 1}


def test_who_serves_the_same_makes_no_room_for_who_would() -> None:
    world = replicas(2, {}, memory_bytes=ONE_EACH)
    world.lose("node-0")
    world.now += LOST_SECONDS
    scale(world, 1)
    world.settle()
    assert (served(world), routed(world)) == ([1], [1])
    world.find("node-0")
    _, least = roll(world, seconds=1.0)
    assert (least, served(world), world.plan()) == (1, [0], Plan())


@pytest.mark.parametrize(
    ("rolling", "makes_room"), [({}, True), (NEVER_LESS, False)], ids=["default", "never"]
)
def test_who_serves_another_spec_makes_room_where_the_strategy_allows_it(
    rolling: dict[str, Any], makes_room: bool
) -> None:
    world = replicas(2, rolling, memory_bytes=ONE_EACH)
    world.lose("node-0")
    world.now += LOST_SECONDS
    scale(world, 1, serving=BATCH)
    world.settle()
    assert served(world) == ([0] if makes_room else [1])
    refused = [each.reason for each in world.plan().refused if each.workload == world.replica(index=0)]
    assert refused == ([] if makes_room else [RefusedBecause.NO_MEMORY])


def test_nothing_that_serves_ends_before_the_gateway_is_told_where_to_go() -> None:
    """A controller has just started, and one node does not answer: it writes no routes for some seconds."""
    world = replicas(3, {}, 4)
    scale(world, 1)
    world.routed = False
    waiting = {each.workload: each.text for each in world.plan().waiting}
    assert stopped(world) == set()
    assert waiting[world.replica(index=2)] == "tiny/2: every node is contacted before the routes change"
    kill(world, 0)
    assert stopped(world) == set()
    assert [step.workload.index for step in world.plan().steps if isinstance(step, AllocateEpoch)] == [0], (
        "it heals"
    )
    world.settle()
    world.routed = True
    world.settle()
    assert served(world) == [0]
    assert world.plan() == Plan()
