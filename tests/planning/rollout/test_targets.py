"""Rolling changes: which replica is replaced when, and what the others are served with meanwhile."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from reconciler.planning.context.deadlines import SILENCE_SECONDS
from reconciler.planning.rollout.budget import WATCHED_SECONDS, Budget
from reconciler.planning.rollout.costs import misfit
from reconciler.state import (
    AllocateEpoch,
    Contact,
    NodeName,
    Plan,
    RefusedBecause,
    StopRank,
    Waiting,
    WaitingFor,
)
from reconciler.state.plan import workload_of
from reconciler.wire.launch import Phase, RankId
from tests.planning.rollout.rolling import BATCH, NAME, roll, served
from tests.worlds import World, deployment, model, node


def replicas(count: int = 3, machines: int | None = None, **spec: Any) -> World:
    """A deployment of groups with one node each, all of them served."""
    names = [node(f"node-{at}") for at in range(machines or count)]
    world = World([*names, model(), deployment(nodes=1, replicas=count, **spec)])
    assert world.settle() == Plan()
    world.now += 3600.0
    return world


def change(world: World, **spec: Any) -> None:
    before = world.desired().deployments[NAME].spec
    world.manifests[-1] = deployment(nodes=1, replicas=before.replicas, **spec)


def waits(world: World) -> dict[int, Waiting]:
    return {
        each.workload.index: each
        for each in world.plan().waiting
        if each.workload is not None and each.reason in (WaitingFor.ROLLOUT, WaitingFor.PAUSED)
    }


def batches(world: World) -> list[int]:
    """What the living ranks were started with, by replica."""
    started = {}
    for step in world.history:
        spec = getattr(step, "spec", None)
        if spec is not None and spec.id in world.alive():
            started[spec.id.replica] = spec.config.batch_max
    return [started[index] for index in sorted(started)]


# --- one after the other ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "spec",
    [
        {"serving": BATCH},
        {"serving": {"context": 1024}},
        {"restartedAt": "now"},
        {"fastSynch": True},
        {"model": "other"},
        {"placement": {"nodeSelector": {"pool": "fast"}}},
    ],
    ids=lambda spec: next(iter(spec)),
)
def test_every_change_takes_one_replica_after_the_other_the_highest_first(spec: dict[str, Any]) -> None:
    world = replicas()
    world.manifests.insert(-1, model("other", "other"))
    world.weights["other"] = world.weights["tiny"]
    world.manifests[:3] = [node(f"node-{at}", labels={"pool": "slow"}) for at in range(3)]
    world.manifests[3:3] = [node(f"fast-{at}", labels={"pool": "fast"}) for at in range(3)]
    assert world.settle() == Plan()
    change(world, **spec)
    assert roll(world) == ([2, 1, 0], 2)
    assert world.plan() == Plan()


def test_what_waits_says_what_changes_and_what_it_waits_for() -> None:
    world = replicas(2)
    change(world, serving=BATCH)
    (waiting,) = waits(world).values()
    assert waiting.text == (
        "tiny/0: serving.maxBatch 16 → 4 (restart with the same weights): it is replaced later, at most 1 of 2"
        " replicas may be out of service at a time"
    )
    world.obey(world.plan().steps[0])
    assert waits(world)[0].text.endswith("at a time, and tiny/1 comes up")


def test_one_replica_alone_is_replaced_at_once() -> None:
    world = replicas(1)
    change(world, serving=BATCH)
    assert roll(world) == ([0], 0)


@pytest.mark.parametrize(
    ("allowed", "least"), [(2, 2), ("50%", 2), ("74%", 2), ("10%", 3), ("100%", 0), (9, 0)]
)
def test_so_many_go_at_once_as_may_be_out_of_service(allowed: int | str, least: int) -> None:
    world = replicas(4, rolling={"maxUnavailable": allowed})
    change(world, serving=BATCH, rolling={"maxUnavailable": allowed})
    formed, served_at_least = roll(world)
    assert sorted(formed) == [0, 1, 2, 3]
    assert served_at_least == least


def test_the_lowest_goes_first_where_that_is_wanted() -> None:
    world = replicas(rolling={"order": "lowest-first"})
    change(world, serving=BATCH, rolling={"order": "lowest-first"})
    assert roll(world)[0] == [0, 1, 2]


def test_the_next_one_goes_only_when_the_last_one_has_given_its_first_completion() -> None:
    world = replicas(2)
    world.mute = {world.replica(index=1)}
    change(world, serving=BATCH)
    roll(world, passes=8)
    assert {rank.replica: rank.epoch for rank in world.alive()} == {0: 1, 1: 2}
    assert served(world) == [0]


def test_the_next_one_goes_only_when_clients_reach_the_last_one() -> None:
    """Routes may be written later, as when the disk is full."""
    world = replicas(2)
    world.published = frozenset((replica, group.epoch) for replica, group in world.groups.items())
    change(world, serving=BATCH)
    roll(world, passes=8)
    assert {rank.replica: rank.epoch for rank in world.alive()} == {0: 1, 1: 2}
    assert "tiny/1 has no route yet" in str(world.plan().waiting)
    world.published = frozenset((replica, group.epoch) for replica, group in world.groups.items())
    roll(world, passes=8)
    assert {rank.replica: rank.epoch for rank in world.alive()} == {0: 2, 1: 2}


@pytest.mark.parametrize("unavailable", [1, 2])
def test_those_that_no_client_reaches_yet_wait_for_their_routes(unavailable: int) -> None:
    """As soon as a group is proven, its route is written: it counts as one that serves in the next moment."""
    world = replicas(3, rolling={"maxUnavailable": unavailable})
    world.published = frozenset()
    change(world, serving=BATCH)
    assert roll(world, passes=8)[0] == []
    world.published = None
    assert roll(world)[1] >= 3 - unavailable


def test_the_next_one_goes_when_the_last_one_has_served_for_the_pause() -> None:
    rolling = {"pause": "5m"}
    world = replicas(2, rolling=rolling)
    change(world, serving=BATCH, rolling=rolling)
    assert roll(world) == ([1], 1)
    assert waits(world)[0].until == world.now + 300.0
    world.now += 299.0
    assert roll(world) == ([], 2)
    world.now += 2.0
    assert roll(world) == ([0], 1)


def test_of_several_each_waits_until_the_one_before_has_served_for_the_pause() -> None:
    rolling = {"pause": "5m"}
    world = replicas(4, rolling=rolling)
    change(world, serving=BATCH, rolling=rolling)
    for changed in (3, 2, 1, 0):
        assert roll(world) == ([changed], 3)
        assert {each.until for each in waits(world).values()} == ({world.now + 300.0} if changed else set())
        world.now += 299.0
        assert roll(world) == ([], 4)
        world.now += 2.0


def test_of_a_canary_of_two_the_second_serves_for_its_time_too() -> None:
    canary = {"canary": {"replicas": 2, "serveFor": "10m"}}
    world = replicas(4, rolling=canary)
    change(world, serving=BATCH, rolling=canary)
    assert roll(world) == ([3, 2], 3)
    world.report(RankId("tiny", 2, 2, 0), phase=Phase.LOADING)
    assert roll(world) == ([], 3)
    world.now += 601.0
    assert roll(world) == ([], 3), "the second one does not serve"
    world.report(RankId("tiny", 2, 2, 0), phase=Phase.READY)
    assert roll(world) == ([1, 0], 3)


def test_a_replica_that_is_dead_is_changed_at_once_and_delays_the_others() -> None:
    world = replicas()
    world.end_rank(RankId("tiny", 0, 1, 0), signal=9)
    change(world, serving=BATCH)
    assert roll(world) == ([0, 2, 1], 2)


def test_while_a_node_does_not_answer_no_other_replica_is_taken_down() -> None:
    world = replicas(2)
    world.lose("node-1")
    world.now += 1.0
    change(world, serving=BATCH)
    decided = world.plan()
    assert not [s for s in decided.steps if isinstance(s, AllocateEpoch | StopRank) and s.workload.index == 0]
    assert "tiny/1 does not answer" in waits(world)[0].text


# --- where others would be disturbed ---------------------------------------------------------------


# --- in doubt ---


IN_DOUBT = ("silent_seconds", "deaf_seconds")


def owe(world: World, index: int, seconds: float, how: str = "silent_seconds") -> None:
    """A replica owes its clients an answer for so long."""
    (rank,) = [rank for rank in world.alive() if rank.replica == index]
    world.report(rank, demand=1, **{how: seconds})


@pytest.mark.parametrize("how", IN_DOUBT)
@pytest.mark.parametrize("doubtful", range(2))
def test_while_one_may_hang_it_is_changed_and_no_other_is_taken_down(doubtful: int, how: str) -> None:
    world = replicas(2)
    owe(world, doubtful, SILENCE_SECONDS, how)
    change(world, serving=BATCH)
    formed = [each.workload.index for each in world.plan().steps if isinstance(each, AllocateEpoch)]
    assert formed == [doubtful]
    assert waits(world).keys() == {1 - doubtful}
    order, least = roll(world)
    assert (order, least) == ([doubtful, 1 - doubtful], 1)
    assert world.plan() == Plan()


def test_one_whose_agent_has_just_started_counts_when_that_has_asked_it() -> None:
    world = replicas(2)
    change(world, serving=BATCH)
    world.since["node-0"] = world.now - 1.0
    formed, least = roll(world, passes=8)
    assert (formed, least) == ([0], 1), "the one in doubt may be replaced, and not the one beside it"
    assert "tiny/0 is watched for less than 7 s" in waits(world)[1].text
    assert waits(world)[1].until == world.now - 1.0 + WATCHED_SECONDS
    world.now += WATCHED_SECONDS
    assert roll(world)[0] == [1]


@pytest.mark.parametrize(("number", "in_doubt"), [(0, True), (1, False)], ids=["rank 0", "another rank"])
def test_only_the_agent_of_rank_0_has_to_ask_a_replica_that_it_has_just_begun_to_watch(
    number: int, in_doubt: bool
) -> None:
    world = World([*(node(f"node-{at}") for at in range(4)), model(), deployment(nodes=2, replicas=2)])
    assert world.settle() == Plan()
    world.now += 3600.0
    world.since[world.group().members[number]] = world.now - 1.0
    seen = Budget.of(world.seen(), NAME)
    assert set(seen.doubtful) == ({world.replica()} if in_doubt else set())
    assert seen.until == (world.now - 1.0 + WATCHED_SECONDS if in_doubt else None)


def test_one_whose_agent_is_down_may_be_gone_and_no_other_is_taken_down() -> None:
    world = replicas(3)
    change(world, serving=BATCH)
    seen = world.observed().nodes[NodeName("node-1")]
    world.lost[seen.name] = replace(seen, contact=Contact.AGENT_DOWN, since=world.now - 20.0)
    decided = world.plan()
    assert not [each for each in decided.steps if isinstance(each, AllocateEpoch | StopRank)]
    assert "tiny/1 is not watched by node-1" in waits(world)[2].text


@pytest.mark.parametrize("how", IN_DOUBT)
def test_where_all_may_hang_nothing_is_changed_until_it_is_known(how: str) -> None:
    world = replicas(2)
    change(world, serving=BATCH)
    for index in range(2):
        owe(world, index, SILENCE_SECONDS, how)
    assert not any(isinstance(each, AllocateEpoch) for each in world.plan().steps)
    assert waits(world).keys() == {0, 1}
    assert all(
        "tiny/0 owes its clients an answer, tiny/1 owes" in each.text for each in waits(world).values()
    )
    owe(world, 1, 0.0, how)
    assert roll(world, passes=1)[0] == [0]


def test_who_answers_as_fast_as_usual_is_in_no_doubt() -> None:
    world = replicas(2)
    owe(world, 0, SILENCE_SECONDS - 0.1)
    change(world, serving=BATCH)
    assert roll(world) == ([1, 0], 1)


def test_a_drain_waits_while_another_replica_may_hang_and_moves_that_one_at_once() -> None:
    world = replicas(2, machines=4)
    owe(world, 0, SILENCE_SECONDS)
    world.manifests[0] = node("node-0", drain=True)
    world.manifests[1] = node("node-1", drain=True)
    formed = [each.workload.index for each in world.plan().steps if isinstance(each, AllocateEpoch)]
    assert formed == [0]


def test_a_drain_moves_one_replica_after_the_other() -> None:
    world = replicas(2, machines=4)
    for at in range(2):
        world.manifests[at] = node(f"node-{at}", drain=True)
    assert roll(world) == ([0, 1], 1)


def test_a_drain_waits_for_a_replica_that_is_being_changed() -> None:
    world = replicas(2, machines=4)
    change(world, serving=BATCH)
    world.obey(world.plan().steps[0])
    (drained,) = world.group(index=0).members
    at = int(drained[-1])
    world.manifests[at] = node(f"node-{at}", drain=True)
    assert [s for s in world.plan().steps if workload_of(s) == world.replica(index=0)] == []
    assert roll(world)[1] == 1
    assert drained not in world.group(index=0).members


# --- canaries and pauses ---------------------------------------------------------------------------

CANARY: dict[str, Any] = {"canary": {"replicas": 1, "serveFor": "10m"}}


def test_a_canary_serves_for_its_time_before_the_others_follow() -> None:
    world = replicas(rolling=CANARY)
    change(world, serving=BATCH, rolling=CANARY)
    assert roll(world) == ([2], 2)
    held = waits(world)
    assert {index: each.reason for index, each in held.items()} == dict.fromkeys((0, 1), WaitingFor.PAUSED)
    assert held[0].until == world.now + 600.0
    assert "reconciler rollout resume deployment/tiny" in held[0].text
    world.now += 601.0
    assert roll(world) == ([1, 0], 2)


def test_a_replica_that_dies_behind_a_canary_is_formed_again_as_it_was() -> None:
    world = replicas(rolling=CANARY)
    change(world, serving=BATCH, rolling=CANARY)
    roll(world)
    world.end_rank(RankId("tiny", 0, 1, 0), signal=9)
    assert roll(world)[0] == [0]
    assert batches(world) == [16, 16, 4]


def test_resuming_lets_the_others_follow_at_once() -> None:
    world = replicas(rolling=CANARY)
    change(world, serving=BATCH, rolling=CANARY)
    roll(world)
    at = datetime.fromtimestamp(world.now + 1.0, UTC).isoformat()
    change(world, serving=BATCH, rolling={"canary": {**CANARY["canary"], "resumedAt": at}})
    assert roll(world)[0] == [1, 0]
    world.now += 60.0
    change(world, serving={"maxBatch": 2}, rolling={"canary": {**CANARY["canary"], "resumedAt": at}})
    assert roll(world)[0] == [2]  # the next change has a canary of its own


def test_a_share_of_replicas_is_rounded_up() -> None:
    rolling = {"canary": {"replicas": "30%"}}
    world = replicas(4, rolling=rolling)
    change(world, serving=BATCH, rolling=rolling)
    assert roll(world)[0] == [3, 2]


def test_while_changes_are_paused_what_ends_is_formed_as_it_was_and_nothing_else_happens() -> None:
    world = replicas(2)
    change(world, serving=BATCH, paused=True)
    assert roll(world) == ([], 2)
    assert set(waits(world)) == {0, 1}
    world.end_rank(RankId("tiny", 1, 1, 0), signal=9)
    assert roll(world)[0] == [1]
    assert batches(world) == [16, 16]
    change(world, serving=BATCH)
    assert roll(world) == ([1, 0], 1)
    assert batches(world) == [4, 4]


def test_a_replica_that_is_added_while_changes_are_paused_is_like_the_others() -> None:
    world = replicas(2, machines=3)
    world.manifests[-1] = deployment(nodes=1, replicas=3, serving=BATCH, paused=True)
    assert roll(world)[0] == [2]
    assert batches(world) == [16, 16, 16]


# --- specs that cannot be served -------------------------------------------------------------------


def test_a_dead_replica_whose_new_spec_has_no_place_is_formed_as_it_was() -> None:
    world = replicas(2)
    world.end_rank(RankId("tiny", 1, 1, 0), signal=9)
    change(world, serving={"context": 16_000_000})
    roll(world)
    assert served(world) == [0, 1]
    assert RefusedBecause.NO_MEMORY in {refusal.reason for refusal in world.plan().refused}


def test_a_group_that_comes_up_is_no_replica_that_serves() -> None:
    world = replicas(2)
    world.first_phase = Phase.LOADING
    change(world, serving=BATCH)
    roll(world, passes=8)
    assert served(world) == [0]


@pytest.mark.parametrize(
    ("nodes", "why"),
    [
        (2, "it runs on 1 node, and 2 are wanted"),
        ({"min": 2, "max": 3}, "it runs on 1 node, and 2 to 3 are wanted"),
    ],
)
def test_another_number_of_nodes_is_said_in_a_sentence(nodes: Any, why: str) -> None:
    world = replicas(1)
    (group,) = world.groups.values()
    assert misfit(world.desired().nodes, deployment(nodes=nodes), group) == why
