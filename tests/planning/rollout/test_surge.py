"""Extra replicas: where there is memory for one, it serves with the new spec before another is taken out of service."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from reconciler.planning import plan
from reconciler.planning.rollout.surge import there
from reconciler.state import AllocateEpoch, Plan, StopRank, Waiting, WaitingFor
from reconciler.status.deployment import readiness
from reconciler.wire.launch import ExitCode, Phase, RankId
from reconciler.wire.node import Load
from tests.planning.rollout.rolling import BATCH, NAME, NEVER_LESS, ONE_EACH, replicas, served
from tests.planning.rollout.rolling import roll as roll_at
from tests.worlds import World, deployment, node


def change(world: World, **spec: Any) -> None:
    before = world.desired().deployments[NAME].spec
    rolling = before.strategy.model_dump(by_alias=True, exclude_defaults=True)
    world.manifests[-1] = deployment(
        nodes=1, **{"replicas": before.replicas, "rolling": rolling, "serving": BATCH, **spec}
    )


def roll(world: World, passes: int = 80) -> tuple[list[int], int]:
    """Roll with a second a pass: an extra replica ends a moment after the others serve."""
    return roll_at(world, passes, 1.0)


def waits(world: World) -> dict[int, Waiting]:
    return {
        each.workload.index: each
        for each in world.plan().waiting
        if each.workload is not None and each.reason is WaitingFor.ROLLOUT
    }


# --- where there is room ----------------------------------------------------------------------------


@pytest.mark.parametrize("rolling", [{"maxSurge": 1}, NEVER_LESS], ids=["may be away", "never"])
def test_one_replica_alone_is_replaced_while_an_extra_one_serves(rolling: dict[str, Any]) -> None:
    world = replicas(1, rolling, machines=2)
    change(world)
    assert roll(world) == ([1, 0], 1)
    assert served(world) == [0]
    assert world.plan() == Plan()


def test_of_several_as_many_serve_as_before() -> None:
    world = replicas(3, NEVER_LESS)
    change(world)
    assert roll(world) == ([3, 2, 1, 0], 3)
    assert served(world) == [0, 1, 2]


def test_two_extra_ones_let_two_be_changed_at_a_time() -> None:
    world = replicas(4, {"maxSurge": "50%", "maxUnavailable": 0})
    change(world)
    formed, least = roll(world)
    assert (formed[:2], sorted(formed[2:]), least) == ([4, 5], [0, 1, 2, 3], 4)
    assert served(world) == [0, 1, 2, 3]


def test_what_waits_says_that_an_extra_one_comes_first_and_says_of_it_why_it_is_there() -> None:
    world = replicas(1, NEVER_LESS, machines=2)
    change(world)
    step = world.forming()
    assert step.detail == "an extra replica: as many serve while others are changed (strategy.maxSurge)"
    world.obey(step)
    world.first_phase = Phase.LOADING
    roll(world)
    assert waits(world)[0].text == (
        "tiny/0: serving.maxBatch 16 → 4 (restart with the same weights): it is replaced later, an extra replica is"
        " to serve first: tiny/1 comes up"
    )


def test_no_extra_one_is_formed_while_changes_are_paused_or_nothing_has_to_be_replaced() -> None:
    world = replicas(2, NEVER_LESS)
    change(world, serving={"aliases": ["gpt-4o"]})
    assert roll(world) == ([], 2)
    change(world, paused=True)
    assert roll(world) == ([], 2)


@pytest.mark.parametrize("rolling", [{"maxSurge": 1}, NEVER_LESS], ids=["may be away", "never"])
def test_an_extra_one_serves_until_the_last_replica_serves_again(rolling: dict[str, Any]) -> None:
    world = replicas(2, rolling, machines=3)
    change(world)
    world.mute = {world.replica(index=0)}
    roll(world, passes=30)
    assert served(world) == [1, 2]
    world.mute = set()
    world.failures = {}
    assert roll(world)[1] == 2
    assert served(world) == [0, 1]


def test_a_canary_is_changed_behind_an_extra_one_which_ends_while_the_canary_serves() -> None:
    rolling = {**NEVER_LESS, "canary": {"replicas": 1, "serveFor": "10m"}}
    world = replicas(2, rolling)
    change(world, rolling=rolling)
    assert roll(world) == ([2, 1], 2)
    assert served(world) == [0, 1]
    world.now += 601.0
    assert roll(world) == ([2, 0], 2)


def test_another_change_in_the_middle_is_taken_to_the_extra_one_first() -> None:
    world = replicas(2, NEVER_LESS, machines=4)
    change(world)
    world.act(4)
    assert 2 in {replica.index for replica in world.groups}
    change(world, serving={"maxBatch": 8})
    assert roll(world)[1] == 2
    assert served(world) == [0, 1]


def test_an_extra_one_is_added_to_replicas_when_the_deployment_grows_meanwhile() -> None:
    world = replicas(1, NEVER_LESS, machines=3)
    change(world)
    world.act(4)
    change(world, replicas=2)
    assert roll(world)[1] == 1
    assert (served(world), there(world.seen(), NAME)) == ([0, 1], ())


@pytest.mark.parametrize("rolling", [{"maxSurge": 2}, {"maxSurge": "50%"}], ids=["number", "percentage"])
def test_a_deployment_of_which_nothing_is_to_be_served_has_no_extra_one(rolling: dict[str, Any]) -> None:
    world = replicas(2, rolling)
    change(world, replicas=0)
    seen = world.snapshots()
    assert not any(seen.wants(world.replica(index=index)) for index in range(2))
    assert not any("extra" in group for group in readiness("tiny", seen).extra["groups"])
    assert roll(world) == ([], 0)
    assert world.groups == {}


@pytest.mark.parametrize("problem", ["unwritable", "locked"])
def test_an_extra_one_serves_for_as_long_as_no_routes_can_be_written(problem: str) -> None:
    world = replicas(1, NEVER_LESS, machines=2)
    change(world)
    world.act(30)
    assert served(world) == [0, 1]
    (wait,) = world.plan().waiting
    assert (wait.text, wait.until) == (
        "tiny/1: an extra replica: it ends when the others have served for 2 s",
        world.now + 2.0,
    )
    world.now += 60.0
    trouble: dict[str, Any] = {problem: "the disk is full"}
    memory = replace(world.memory(), **trouble)
    held = plan(world.desired(), world.observed(), memory, world.now, "entropy")
    assert not [step for step in held.steps if isinstance(step, StopRank)]
    assert [step for step in world.plan().steps if isinstance(step, StopRank)]


def test_changes_that_are_paused_keep_no_replica_out_that_lost_its_group_beside_an_extra_one() -> None:
    world = replicas(2, NEVER_LESS, machines=3)
    change(world)
    for _ in range(60):
        if [group.epoch for group in world.groups.values()] == [2, 2, 1] and served(world) == [0, 1, 2]:
            break
        world.act()
    del world.groups[world.replica(index=1)]
    for rank in [rank for rank in world.alive() if rank.replica == 1]:
        world.end_rank(rank, signal=9)
    change(world, paused=True)
    assert roll(world)[0] == [1]
    assert served(world) == [0, 1]


def test_a_store_that_is_lost_in_the_middle_leaves_the_extra_one_where_it_is_needed() -> None:
    world = replicas(1, NEVER_LESS, machines=2)
    change(world)
    world.mute = {world.replica(index=0)}
    roll(world, passes=15)
    assert served(world) == [1]
    world.lose_store()
    world.mute = set()
    assert not [step for step in world.plan().steps if isinstance(step, StopRank) and step.id.replica == 1]
    roll(world)
    assert served(world) == [0]


# --- where there is none ----------------------------------------------------------------------------


def test_without_room_it_is_said_what_is_missing_and_max_unavailable_is_followed() -> None:
    world = replicas(2, {"maxSurge": 1}, memory_bytes=ONE_EACH)
    change(world)
    decided = world.plan()
    assert decided.refused == ()
    (text,) = [each.text for each in decided.waiting if each.workload == world.replica(index=2)]
    assert text.startswith("tiny/2: no extra replica: ")
    assert "GiB" in text
    assert roll(world) == ([1, 0], 1)
    assert served(world) == [0, 1]


def test_without_room_and_where_none_may_be_away_it_waits_and_says_what_to_type() -> None:
    world = replicas(1, NEVER_LESS, memory_bytes=ONE_EACH)
    change(world)
    assert roll(world) == ([], 1)
    text = waits(world)[0].text
    assert "at most 0 of 1 replicas may be out of service at a time; no extra replica: " in text
    assert text.endswith(
        "; to go on: make room, or let one replica be out of service: reconciler patch deployment/tiny"
        """ -p '{"spec":{"strategy":{"maxUnavailable":1}}}\'"""
    )
    world.manifests.insert(0, node("node-9"))
    assert roll(world) == ([1, 0], 1)
    assert served(world) == [0]


def test_a_replica_that_ends_where_changes_wait_for_room_is_formed_with_the_new_spec() -> None:
    world = replicas(1, NEVER_LESS, memory_bytes=ONE_EACH)
    change(world)
    world.end_rank(RankId("tiny", 0, 1, 0), signal=9)
    assert roll(world)[0] == [0]
    assert (served(world), world.plan()) == ([0], Plan())


def test_replicas_of_others_come_before_an_extra_one() -> None:
    world = replicas(1, {"maxSurge": 1}, machines=2, memory_bytes=ONE_EACH)
    world.manifests.insert(0, deployment("zebra", nodes=1))
    change(world)
    roll(world)
    assert {str(replica) for replica in world.groups} == {"tiny/0", "zebra/0"}
    assert [s.workload.key.name for s in world.done(AllocateEpoch)] == [
        "tiny",
        "zebra",
        "tiny",
    ]


# --- what does not come up ---------------------------------------------------------------------------


def test_a_spec_that_a_rank_refuses_is_taken_back_and_no_replica_was_touched() -> None:
    world = replicas(2, {"maxSurge": 1})
    change(world)
    world.first_phase = Phase.LOADING
    world.act(8)
    assert served(world) == [0, 1]
    world.end_rank(RankId("tiny", 2, 1, 0), code=ExitCode.CONFIG)
    world.first_phase = Phase.READY
    assert roll(world)[1] == 2
    assert world.rollbacks
    assert {replica.index: group.epoch for replica, group in world.groups.items()} == {0: 1, 1: 1}


def test_an_extra_one_that_fails_for_another_reason_is_not_waited_for_where_one_may_be_away() -> None:
    world = replicas(2, {"maxSurge": 1}, machines=3)
    world.reports = {name: {"load": Load(10**9, 60 * 2**30)} for name in world.desired().nodes}
    change(world)
    world.act(3)
    world.end_rank(RankId("tiny", 2, 1, 0), signal=9)
    world.mute = {world.replica(index=2)}
    formed, least = roll(world)
    assert (least, set(formed)) == (1, {0, 1, 2})


def test_an_extra_one_is_not_waited_for_from_the_moment_its_machine_is_silent() -> None:
    world = replicas(2, {"maxSurge": 1}, machines=3)
    world.mute = {world.replica(index=2)}
    change(world)
    world.act(4)
    assert "an extra replica is to serve first: tiny/2 comes up" in waits(world)[1].text
    world.lose(world.group(index=2).members[0])
    assert not any("is to serve first" in each.text for each in waits(world).values())


def test_an_extra_one_goes_back_to_what_another_has_served_with_and_not_to_what_has_never_served() -> None:
    """A replica that had ended as the change came has the new spec, and gives no completion with it."""
    world = replicas(2, {}, machines=4)
    before = world.group(index=1).spec
    world.mute = {world.replica(index=0)}
    world.end_rank(RankId("tiny", 0, 1, 0), signal=9)
    change(world)
    world.act(5)
    change(world, rolling={"maxSurge": 1})
    world.act(2)
    first, extra = world.group(index=0), world.group(index=2)
    assert (first.proven_at, first.spec) == (None, extra.spec)
    assert extra.spec_before == before != extra.spec


# --- drains ------------------------------------------------------------------------------------------


def test_a_drain_moves_one_replica_after_the_other_also_where_no_change_may_take_one_away() -> None:
    world = replicas(2, NEVER_LESS, machines=4)
    for at in range(2):
        world.manifests[at] = node(f"node-{at}", drain=True)
    assert roll(world) == ([0, 1], 1)
