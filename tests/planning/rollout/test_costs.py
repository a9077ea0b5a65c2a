"""What a change costs, said before it is made."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from reconciler.planning.rollout.costs import Cost, Kind, duration, foresee
from reconciler.resources import Manifest
from reconciler.state import Desired
from tests.worlds import World, deployment, hub_model, model, node, settled


def served(replicas: int = 1, took: float = 230.0) -> World:
    """Groups that each took so long to come up."""
    world = settled(World([node("a"), node("b"), node("c"), model(), deployment(nodes=1, replicas=replicas)]))
    for replica, group in world.groups.items():
        assert group.proven_at is not None
        world.groups[replica] = replace(group, created_at=group.proven_at - took)
    return world


def cost(world: World, **spec: Any) -> Cost | None:
    replicas = spec.pop("replicas", len(world.groups))
    after = [*world.manifests[:-1], deployment(nodes=1, replicas=replicas, **spec)]
    return foreseen(world, after)


def foreseen(world: World, after: list[Manifest]) -> Cost | None:
    before, world.manifests = world.desired(), after
    return next(foresee(before, Desired.of("r2", after), world.groups, world.plan()), None)


IN_PLACE: dict[str, dict[str, Any]] = {
    "serving.aliases": {"serving": {"aliases": ["gpt-4o"]}},
    "serving.sampling.temperature, serving.thinking": {
        "serving": {"sampling": {"temperature": 0.5}, "thinking": False}
    },
    "health.stallAfter": {"health": {"stallAfter": "90s"}},
    "growth.idle": {"growth": {"idle": "5m"}},
    "strategy.maxUnavailable": {"rolling": {"maxUnavailable": 2}},
    "replicas": {"replicas": 2},
    "transport": {"transport": ["ring-lan"]},
}


@pytest.mark.parametrize(("fields", "spec"), IN_PLACE.items(), ids=IN_PLACE)
def test_what_is_changed_in_place_costs_nothing_and_is_named(fields: str, spec: dict[str, Any]) -> None:
    found = cost(served(), **spec)
    assert found is not None
    assert (found.kind, found.unserved_seconds) == (Kind.IN_PLACE, 0.0)
    assert found.text == f"in place: {fields}"


def test_a_group_that_does_not_fit_any_more_is_formed_anew() -> None:
    world = served()
    wider = [*world.manifests[:-1], deployment(nodes=2)]
    found = foreseen(world, wider)
    assert found is not None
    assert (found.kind, len(found.replicas)) == (Kind.RESTART, 1)
    assert "parallelism.nodes" in found.text
    world = served()
    found = cost(world, placement={"nodeSelector": {"pool": "fast"}})
    assert found is not None
    assert "lacks the labels of its nodeSelector; not served for about 4 min" in found.text


def test_with_one_replica_nobody_is_served_for_as_long_as_its_group_took_to_come_up() -> None:
    found = cost(served(), serving={"maxBatch": 4})
    assert found is not None
    assert found.unserved_seconds == 230.0
    assert found.text == (
        "restart with the same weights: serving.maxBatch 16 → 4; not served for about 4 min (unload, load)"
    )


def test_with_several_replicas_the_others_serve() -> None:
    found = cost(served(3), serving={"context": 1024})
    assert found is not None
    assert (found.unserved_seconds, found.seconds, len(found.replicas)) == (0.0, 230.0, 3)
    assert found.text.endswith(
        "serving.context auto → 1024; one replica after the other, each out of service for about 4 min, the others"
        " serve"
    )


def test_all_at_once_is_not_served() -> None:
    found = cost(served(2), serving={"maxBatch": 4}, rolling={"maxUnavailable": "100%"})
    assert found is not None
    assert found.unserved_seconds == 230.0


def test_what_is_paused_says_so() -> None:
    found = cost(served(2), serving={"maxBatch": 4}, paused=True)
    assert found is not None
    assert found.text.endswith("paused: 2 of 2 replicas are changed when the rollout is resumed")
    assert found.unserved_seconds == 0.0


def test_where_no_group_has_come_up_it_is_not_known_how_long_it_takes() -> None:
    world = served()
    world.groups[world.replica()] = replace(world.group(), proven_at=None)
    found = cost(world, serving={"maxBatch": 4})
    assert found is not None
    assert found.unserved_seconds is None
    assert "not served for as long as loading takes" in found.text


def test_each_takes_as_long_as_the_slowest_has_taken() -> None:
    world = served(3)
    for (replica, group), took in zip(world.groups.items(), (100.0, 230.0, 60.0), strict=True):
        assert group.proven_at is not None
        world.groups[replica] = replace(group, created_at=group.proven_at - took)
    found = cost(world, serving={"maxBatch": 4})
    assert found is not None
    assert found.seconds == 230.0


def test_of_groups_whose_spec_is_not_known_it_is_not_said_that_they_are_replaced() -> None:
    world = served(2)
    first = world.replica(index=0)
    world.groups[first] = replace(world.groups[first], spec=None)
    found = cost(world, serving={"maxBatch": 4})
    assert found is not None
    assert found.replicas == (world.replica(index=1),)


def test_new_weights_and_another_model_are_told_apart() -> None:
    world = settled(World([node("a"), hub_model(), hub_model("other", "c" * 40), deployment(nodes=1)]))
    others = list(world.manifests)
    found = foreseen(world, [others[0], hub_model(revision="b" * 40), *others[2:]])
    assert found is not None
    assert found.kind is Kind.NEW_WEIGHTS
    assert found.changes == ("weights org/tiny at aaaaaaaaaa → org/tiny at bbbbbbbbbb",)
    world.manifests = others
    found = foreseen(world, [*others[:-1], deployment(nodes=1, model="other")])
    assert found is not None
    assert found.kind is Kind.OTHER_MODEL


EXTRA: dict[str, tuple[dict[str, Any], bool, str, float | None]] = {
    "room": (
        {"maxSurge": 1},
        True,
        "an extra replica serves first, so that as many serve as before; each takes about 4 min",
        0.0,
    ),
    "none": (
        {"maxSurge": 1},
        False,
        "no room for an extra replica: not served for about 4 min (unload, load)",
        230.0,
    ),
    "none, and none may be away": (
        {"maxSurge": 1, "maxUnavailable": 0},
        False,
        "waits for room for an extra replica (there is none), for none may be out of service",
        0.0,
    ),
}


@pytest.mark.parametrize(("rolling", "room", "text", "unserved"), EXTRA.values(), ids=EXTRA)
def test_an_extra_replica_costs_what_the_room_for_it_allows(
    rolling: dict[str, Any], room: bool, text: str, unserved: float | None
) -> None:
    world = served()
    if not room:
        world.memory_bytes = 900 * 2**20
        world.manifests = [each for each in world.manifests if each.metadata.name not in ("b", "c")]
    found = cost(world, serving={"maxBatch": 4}, rolling=rolling)
    assert found is not None
    assert found.text.endswith(f"serving.maxBatch 16 → 4; {text}")
    assert found.unserved_seconds == unserved


def test_whether_there_is_room_may_not_be_known_yet() -> None:
    world = served()
    world.in_flight = {f"replica/{world.replica(index=1)}"}
    found = cost(world, serving={"maxBatch": 4}, rolling={"maxSurge": 1})
    assert found is not None
    assert found.room is None
    assert "an extra replica serves first, where there is room; else not served for about 4 min" in found.text


def test_what_does_not_change_is_not_mentioned() -> None:
    assert cost(served()) is None


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.2, "1 s"), (45.0, "45 s"), (230.0, "4 min"), (4200.0, "1 h 10 min")]
)
def test_times_are_written_as_people_say_them(seconds: float, text: str) -> None:
    assert duration(seconds) == text
