"""Return to the last spec that served, for every kind of change."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from reconciler.planning.recovery import rollback
from reconciler.planning.rollout import specs, wish
from reconciler.state import MachineFacts, NodeName, RefusedBecause
from reconciler.state.formed_spec import FormedSpec
from reconciler.state.plan import SetBack
from reconciler.state.rollback import Rollback
from reconciler.wire.launch import ExitCode, Phase, RankId
from reconciler.wire.node import Load
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


def until_formed(world: World) -> None:
    world.act(8)


def newest(world: World) -> RankId:
    """A rank of the group that was formed last."""
    return max(world.alive(), key=lambda rank: (rank.epoch, -rank.rank))


def end(world: World, **how: Any) -> None:
    world.now += 60.0
    world.end_rank(newest(world), **how)


def refuse(world: World, **spec: Any) -> None:
    """A rank refuses a change, which is taken back."""
    change(world, **spec)
    world.first_phase = Phase.LOADING
    until_formed(world)
    end(world, code=ExitCode.CONFIG)
    world.first_phase = Phase.READY
    world.settle()


def told(world: World) -> list[str]:
    return [r.told for r in world.plan().refused if r.reason is RefusedBecause.SET_BACK]


@pytest.mark.parametrize(("what", "spec"), CHANGES.items(), ids=CHANGES)
def test_a_change_that_a_rank_refuses_is_taken_back_before_a_second_replica_is_touched(
    what: str, spec: dict[str, Any]
) -> None:
    world = served()
    before = {replica: group.fingerprint for replica, group in world.groups.items()}
    change(world, **spec)
    world.first_phase = Phase.LOADING
    until_formed(world)
    assert world.group(index=0).epoch == 1
    end(world, code=ExitCode.CONFIG)
    world.first_phase = Phase.READY
    world.settle()
    assert {replica: group.fingerprint for replica, group in world.groups.items()} == before
    assert world.group(index=0).epoch == 1
    (text,) = told(world)
    assert text.startswith(f"tiny did not come up with {what} (")
    assert "the spec before is served instead; to do: reconciler rollout undo deployment/tiny" in text


def test_what_is_taken_back_waits_for_no_pause_between_replicas() -> None:
    world = served(replicas=3)
    before = {replica: group.fingerprint for replica, group in world.groups.items()}
    change(world, serving={"maxBatch": 4}, rolling={"pause": "5m"})
    world.settle()
    assert [world.group(index=at).epoch for at in range(3)] == [1, 1, 2]
    world.now += 301.0
    world.first_phase = Phase.LOADING
    until_formed(world)
    world.end_rank(RankId("tiny", 1, 2, 0), code=ExitCode.CONFIG)
    world.first_phase = Phase.READY
    world.settle()
    assert {replica: group.fingerprint for replica, group in world.groups.items()} == before


def test_a_replica_that_is_added_has_nothing_before_it_to_go_back_to() -> None:
    world = served(replicas=1)
    world.manifests[:0] = [node("node-2"), node("node-3")]
    world.manifests[-1] = deployment(nodes=2, replicas=2)
    world.settle()
    added = world.group(index=1)
    assert (added.weights_before, added.spec_before) == ("", None)


@pytest.mark.parametrize("signal", [11, 9], ids=["crashed", "killed before it has served"])
def test_a_change_that_ends_twice_is_taken_back(signal: int) -> None:
    world = served()
    change(world, serving={"maxBatch": 4})
    world.first_phase = Phase.LOADING
    for expected in (False, True):
        until_formed(world)
        end(world, signal=signal)
        world.act()
        assert bool(world.rollbacks) is expected


@pytest.mark.parametrize("spec", [{"transport": ["ring-lan"]}, {"serving": {"maxBatch": 4}}], ids=str)
def test_the_end_of_a_group_from_before_the_change_is_not_one_of_the_two(spec: dict[str, Any]) -> None:
    """It ended by itself as the change came, so the first group with the change was formed for that."""
    world = served(replicas=1)
    world.first_phase = Phase.LOADING
    change(world, **spec)
    world.generations[world.replica().key] = 2
    end(world, signal=11)
    for expected in (False, False, True):
        assert bool(world.rollbacks) is expected
        until_formed(world)
        end(world, signal=11)
        world.act()
    assert world.rollbacks


# --- what people and the system do ------------------------------------------------------------------

KILLED: dict[str, Any] = {"signal": 9}
CRASHED: dict[str, Any] = {"signal": 11}
PLENTY = Load(10**9, 60 * 2**30, "normal")
"""Of 64 GiB, measured long after whatever has happened."""
LITTLE: dict[str, Load | None] = {
    "macOS reports pressure": Load(10**9, 60 * 2**30, "critical"),
    "little was free when it was last measured": Load(0.0, 2**30),
    "less is free than its ranks were charged": Load(10**9, 2**30),
    "nothing is known": None,
}


def serve_and_end(world: World, *ends: dict[str, Any]) -> None:
    """The change is served, and each time the group of the replica that was changed first ends soon afterwards."""
    for how in ends:
        world.settle()
        assert world.group(index=1).proven_at is not None
        world.now += 60.0
        world.end_rank(max(rank for rank in world.alive() if rank.replica == 1), **how)
    world.settle()


def measured(world: World, load: Load | None) -> None:
    world.reports = {name: {"load": load} for name in world.desired().nodes}


@pytest.mark.parametrize(
    "spec",
    [{"serving": {"context": 64}}, {"serving": {"maxBatch": 4}}, {"serving": {"prefixCache": "0B"}}],
    ids=str,
)
def test_who_kills_ranks_that_need_no_more_memory_than_before_does_not_take_the_change_back(
    spec: dict[str, Any],
) -> None:
    world = served()
    change(world, serving={"context": 1024})
    world.settle()
    world.now += 3600.0
    wanted = {**spec, "serving": {"context": 1024, **spec["serving"]}}
    change(world, **wanted)
    serve_and_end(world, KILLED, KILLED, KILLED)
    assert world.rollbacks == {}
    assert all(group.proven_at and group.epoch > 1 for group in world.groups.values())


def test_one_that_may_need_more_is_not_taken_back_either_where_memory_was_not_short() -> None:
    world = served()
    measured(world, PLENTY)
    change(world, serving={"maxBatch": 32})
    serve_and_end(world, KILLED, KILLED, KILLED)
    assert world.rollbacks == {}


@pytest.mark.parametrize("load", LITTLE.values(), ids=LITTLE)
def test_one_that_may_need_more_is_taken_back_where_memory_may_have_been_short(load: Load | None) -> None:
    world = served()
    measured(world, load)
    change(world, serving={"maxBatch": 32})
    serve_and_end(world, KILLED, KILLED)
    assert world.rollbacks


def test_that_macos_has_ended_programs_for_memory_within_the_hour_is_enough() -> None:
    world = served()
    measured(world, PLENTY)
    world.facts = {name: MachineFacts(memory_kills=1) for name in world.desired().nodes}
    change(world, serving={"maxBatch": 32})
    serve_and_end(world, KILLED, KILLED)
    assert world.rollbacks


def test_ranks_that_never_had_a_process_do_not_take_a_change_back() -> None:
    """Their agent ended, or its disk was full: that is no matter of the spec."""
    world = served()
    change(world, serving={"maxBatch": 4})
    world.first_phase = Phase.LOADING
    for _ in range(4):
        until_formed(world)
        rank = newest(world)
        world.report(rank, pid=None)
        end(world, code=1)
        assert not any(isinstance(each, SetBack) for each in world.plan().steps)
    world.first_phase = Phase.READY
    world.settle()
    assert told(world) == []
    assert {group.epoch > 1 for group in world.groups.values()} == {True}


def test_the_end_of_a_rank_that_never_had_a_process_is_not_one_of_the_two() -> None:
    world = served(replicas=1)
    change(world, fastSynch=True)
    world.generations[world.replica().key] = 2
    world.first_phase = Phase.LOADING
    until_formed(world)
    world.report(newest(world), pid=None)
    end(world, code=1)
    until_formed(world)
    end(world, signal=11)
    world.act()
    assert not world.rollbacks
    until_formed(world)
    end(world, signal=11)
    world.act()
    assert world.rollbacks


def test_a_port_in_use_at_one_rank_is_chance_whatever_ended_the_other_one() -> None:
    """The agent of one rank died before it had a process, and the other one found its port in use."""
    world = served(replicas=1)
    change(world, fastSynch=True)
    world.generations[world.replica().key] = 2
    world.first_phase = Phase.LOADING
    until_formed(world)
    one, other = sorted(world.alive(), key=lambda rank: rank.rank)
    world.report(other, pid=None, phase=Phase.EXITED)
    world.end_rank(one, code=ExitCode.PORT_IN_USE)
    until_formed(world)
    end(world, signal=9)
    world.act()
    assert not world.rollbacks
    until_formed(world)
    end(world, signal=9)
    world.act()
    assert world.rollbacks


def test_a_group_that_was_killed_does_not_count_as_one_of_the_two_that_fail() -> None:
    world = served()
    change(world, serving={"maxBatch": 4})
    serve_and_end(world, KILLED, CRASHED, KILLED)
    assert world.rollbacks == {}
    serve_and_end(world, CRASHED)
    assert world.rollbacks


MORE: dict[str, tuple[dict[str, Any], dict[str, Any], bool]] = {
    "a longer context": ({"serving": {"context": 64}}, {"serving": {"context": 128}}, True),
    "a shorter one": ({"serving": {"context": 128}}, {"serving": {"context": 64}}, False),
    "one that is chosen": ({"serving": {"context": 128}}, {}, True),
    "a smaller batch": ({}, {"serving": {"maxBatch": 8}}, False),
    "a smaller batch, and more kept": (
        {"serving": {"prefixCache": "1GiB"}},
        {"serving": {"maxBatch": 8, "prefixCache": "2GiB"}},
        True,
    ),
    "a bound for the cache": ({}, {"serving": {"kvCache": "1GiB"}}, True),
    "nothing kept any more": ({}, {"serving": {"prefixCache": "0B"}}, False),
    "fewer nodes": ({"nodes": 2}, {"nodes": 1}, True),
    "another split": ({}, {"strategy": "pipeline"}, True),
    "other weights": ({}, {"model": "other"}, True),
    "another transport": ({}, {"transport": ["ring-lan"]}, False),
    "another way to wait for the GPU": ({}, {"fastSynch": True}, False),
    "positions are scaled, and the context is chosen": (
        {},
        {"serving": {"ropeScaling": {"type": "yarn", "factor": 2, "originalContext": 64}}},
        True,
    ),
    "no embeddings any more": ({"nodes": 1, "serving": {"embedding": {}}}, {"nodes": 1}, True),
}


@pytest.mark.parametrize(("before", "after", "more"), MORE.values(), ids=MORE)
def test_what_may_need_more_memory(before: dict[str, Any], after: dict[str, Any], more: bool) -> None:
    def formed_for(spec: dict[str, Any]) -> FormedSpec:
        made = deployment(**{"nodes": 2, **spec})
        return FormedSpec.of(made, model(made.spec.model, made.spec.model))

    assert specs.may_need_more(formed_for(before), formed_for(after)) is more


# --- what was never served ----------------------------------------------------------------------------


def test_a_change_that_gives_no_completion_is_taken_back() -> None:
    world = served(replicas=1)
    change(world, serving={"maxBatch": 4})
    world.mute = {world.replica()}
    for _ in range(60):
        world.act()
        world.pass_time(world.now + 20.0)
        if world.rollbacks:
            world.mute = set()
    assert world.done(SetBack)
    assert world.group().proven_at is not None


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
    refuse(world, serving={"maxBatch": 4})
    change(world, serving={"maxBatch": 4, "aliases": ["gpt-4o"]})
    assert told(world)
    assert world.plan().steps == ()
    change(world, serving={"maxBatch": 8})
    assert not told(world)
    world.settle()
    changes = {specs.shown_changes(group.spec_before, group.spec) for group in world.groups.values()}
    assert changes == {"serving.maxBatch 16 → 8"}


def test_it_is_forgotten_once_another_spec_is_wanted_so_that_the_same_is_tried_again_when_it_comes_back() -> (
    None
):
    world = served()
    refuse(world, serving={"maxBatch": 4})
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
    assert world.group().weights == f"org/tiny@{old}"
    assert "org/tiny at aaaaaaaaaa is served instead" in told(world)[0]


@pytest.mark.parametrize(
    ("tried", "before", "command"),
    [
        ("b", "a", "model update tiny --revision COMMIT"),
        ("b", "b", "rollout undo deployment/tiny"),
        ("", "a", "rollout undo deployment/tiny"),
        ("b", "", "rollout undo deployment/tiny"),
    ],
    ids=["another revision", "the same weights", "to a path", "from a path"],
)
def test_another_revision_is_proposed_only_where_both_are_of_a_hub(
    tried: str, before: str, command: str
) -> None:
    wanted = hub_model(revision=tried * 40) if tried else model()
    world = World([node("node-0"), wanted, deployment(nodes=1)])
    weights = {each: f"org/tiny@{each * 40}" if each else "" for each in (tried, before)}
    gone = Rollback("tiny", weights[tried], weights[before], "", 5.0, "it crashed")
    world.rollbacks[world.replica().deployment] = gone
    persons = {each.person for each in rollback.refusals(world.seen())}
    assert persons == {
        f"reconciler {command}, or try it once more: reconciler rollout restart deployment/tiny"
    }
