"""Return to the last spec that served, for every kind of change."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from reconciler.planning.rollout import specs, wish
from reconciler.state import NodeName, RefusedBecause
from reconciler.state.plan import SetBack
from reconciler.state.rollback import Rollback
from reconciler.wire.launch import ExitCode, Phase, RankId
from tests.worlds import World, deployment, hub_model, model, node

CHANGES: dict[str, dict[str, Any]] = {
    "serving.maxBatch 16 → 4": {"serving": {"maxBatch": 4}},
    "serving.context auto → 1024": {"serving": {"context": 1024}},
    "model tiny → other, weights tiny → other": {"model": "other"},
    "parallelism.strategy tensor → pipeline": {"strategy": "pipeline"},
    "fastSynch unset → True": {"fastSynch": True},
}


def served(replicas: int = 2, nodes: int = 2) -> World:
    names = [node(f"node-{at}") for at in range(replicas * nodes)]
    world = World([*names, model(), model("other", "other"), deployment(nodes=nodes, replicas=replicas)])
    world.weights["other"] = world.weights["tiny"]
    world.settle()
    world.now += 3600.0
    return world


def change(world: World, **spec: Any) -> None:
    (before,) = world.desired().deployments.values()
    world.manifests[-1] = deployment(nodes=2, replicas=before.spec.replicas, **spec)


def until_formed(world: World, passes: int = 8) -> None:
    for _ in range(passes):
        for step in world.plan().steps:
            world.obey(step)


def newest(world: World) -> RankId:
    """A rank of the group that was formed last."""
    return max(world.alive(), key=lambda rank: (rank.epoch, -rank.rank))


def end(world: World, **how: Any) -> None:
    world.now += 60.0
    world.end_rank(newest(world), **how)


def told(world: World) -> list[str]:
    return [r.text for r in world.plan().refused if r.reason is RefusedBecause.SET_BACK]


@pytest.mark.parametrize(("what", "spec"), CHANGES.items(), ids=CHANGES)
def test_a_change_that_a_rank_refuses_is_taken_back_before_a_second_replica_is_touched(
    what: str, spec: dict[str, Any]
) -> None:
    world = served()
    before = {replica: group.fingerprint for replica, group in world.groups.items()}
    change(world, **spec)
    world.first_phase = Phase.LOADING
    until_formed(world)
    assert world.groups[world.replica(index=0)].epoch == 1
    end(world, code=ExitCode.CONFIG)
    world.first_phase = Phase.READY
    world.settle()
    assert {replica: group.fingerprint for replica, group in world.groups.items()} == before
    assert world.groups[world.replica(index=0)].epoch == 1
    (text,) = told(world)
    assert text.startswith(f"tiny did not come up with {what} (")
    assert "the spec before is served instead; to do: reconciler rollout undo deployment/tiny" in text


def test_a_change_that_crashes_twice_is_taken_back() -> None:
    world = served()
    change(world, serving={"maxBatch": 4})
    world.first_phase = Phase.LOADING
    for expected in (False, True):
        until_formed(world)
        end(world, signal=11)
        until_formed(world, passes=1)
        assert bool(world.rollbacks) is expected


def test_a_change_that_gives_no_completion_is_taken_back() -> None:
    world = served(replicas=1)
    change(world, serving={"maxBatch": 4})
    world.mute = {world.replica()}
    for _ in range(60):
        for step in world.plan().steps:
            world.obey(step)
        world.pass_time(world.now + 20.0)
        if world.rollbacks:
            world.mute = set()
    assert [step for step in world.history if isinstance(step, SetBack)]
    assert world.groups[world.replica()].proven_at is not None


def test_a_restart_that_was_asked_for_is_no_change_to_take_back() -> None:
    world = served()
    change(world, restartedAt="now")
    world.first_phase = Phase.LOADING
    until_formed(world)
    end(world, code=ExitCode.CONFIG)
    world.settle()
    assert world.rollbacks == {}


def test_what_another_replica_has_served_with_for_long_is_not_to_blame() -> None:
    world = served()
    change(world, serving={"maxBatch": 4})
    world.settle()
    world.now += 3600.0
    replica = world.replica(index=0)
    world.groups[replica] = replace(world.groups[replica], proven_at=None)
    for rank in [rank for rank in world.alive() if rank.replica == 0]:
        world.report(rank, phase=Phase.LOADING)
    world.end_rank(RankId("tiny", 0, world.groups[replica].epoch, 0), code=ExitCode.CONFIG)
    world.settle()
    assert world.rollbacks == {}


def test_it_is_over_with_the_next_change_and_stays_with_a_change_in_place() -> None:
    world = served()
    change(world, serving={"maxBatch": 4})
    world.first_phase = Phase.LOADING
    until_formed(world)
    end(world, code=ExitCode.CONFIG)
    world.first_phase = Phase.READY
    world.settle()
    change(world, serving={"maxBatch": 4, "aliases": ["gpt-4o"]})
    assert told(world)
    assert world.plan().steps == ()
    change(world, serving={"maxBatch": 8})
    assert not told(world)
    world.settle()
    assert {"8" in specs.changes(group.spec_before, group.spec)[0] for group in world.groups.values()} == {
        True
    }


def test_it_is_forgotten_once_another_spec_is_wanted_so_that_the_same_is_tried_again_when_it_comes_back() -> (
    None
):
    world = served()
    change(world, serving={"maxBatch": 4})
    world.first_phase = Phase.LOADING
    until_formed(world)
    end(world, code=ExitCode.CONFIG)
    world.first_phase = Phase.READY
    world.settle()
    assert list(wish.over(world.desired(), world.rollbacks)) == []
    change(world, serving={"maxBatch": 8})
    assert list(wish.over(world.desired(), world.rollbacks)) == [world.replica().deployment]


def test_a_rollback_from_before_whole_specs_were_kept_names_weights() -> None:
    old, new = "a" * 40, "b" * 40
    world = World([node("node-0"), hub_model(revision=new), deployment(nodes=1)])
    world.rollbacks[world.replica().deployment] = Rollback(
        "tiny", f"org/tiny@{new}", f"org/tiny@{old}", "", 5.0, "it crashed"
    )
    world.agents = {NodeName("node-0")}
    world.settle()
    assert world.groups[world.replica()].weights == f"org/tiny@{old}"
    assert "org/tiny at aaaaaaaaaa is served instead" in told(world)[0]
