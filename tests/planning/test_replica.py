"""The life of a replica: each scenario ends by planning again and finding nothing to do."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from reconciler.state import (
    AllocateEpoch,
    Cause,
    NodeName,
    Plan,
    ProveGroup,
    RefusedBecause,
    StartRank,
    StopRank,
    WaitingFor,
    Write,
)
from reconciler.wire.launch import ExitCode, Phase, RankId
from tests.worlds import World, deployment, model, node, two_nodes


def names(world: World) -> list[str]:
    return [type(step).__name__ for step in world.history]


def epochs(world: World) -> list[int]:
    return [step.group.epoch for step in world.history if isinstance(step, AllocateEpoch)]


def test_a_new_deployment_is_formed_on_both_nodes_and_proven() -> None:
    world = two_nodes()
    assert world.settle() == Plan()
    assert names(world) == [
        "StartAgent", "StartAgent", "AllocateEpoch", "StartRank", "StartRank", "ProveGroup",
    ]  # fmt: skip
    group = world.groups[world.replica()]
    assert (group.epoch, group.members) == (1, ("node-a", "node-b"))
    assert world.alive() == [RankId("tiny", 0, 1, 0), RankId("tiny", 0, 1, 1)]


def test_all_ranks_of_a_group_are_started_in_the_same_pass_with_ports_of_their_own() -> None:
    world = two_nodes()
    while not any(isinstance(step, StartRank) for step in world.plan().steps):
        for step in world.plan().steps:
            world.obey(step)
    starts = [step for step in world.plan().steps if isinstance(step, StartRank)]
    assert [step.node for step in starts] == ["node-a", "node-b"]
    configs = [step.spec.config for step in starts]
    assert configs[0].addresses == configs[1].addresses
    assert len({*configs[0].addresses, configs[0].control}) == 3
    assert configs[0].secret == configs[1].secret != ""


def test_the_secret_of_a_group_is_not_shown() -> None:
    world = two_nodes()
    world.settle()
    group = world.groups[world.replica()]
    assert group.secret not in repr(group)


@pytest.mark.parametrize("rank", [0, 1])
def test_one_dead_rank_is_a_dead_group(rank: int) -> None:
    world = two_nodes()
    world.settle()
    world.history.clear()
    world.end_rank(RankId("tiny", 0, 1, rank), signal=9)
    assert world.settle() == Plan()
    assert names(world) == ["AllocateEpoch", "StopRank", "StartRank", "StartRank", "ProveGroup"]
    assert isinstance(world.history[0], AllocateEpoch)
    assert world.history[0].cause is Cause.RANK_EXITED
    assert f"rank {rank}" in world.history[0].detail
    assert "signal 9" in world.history[0].detail
    assert world.alive() == [RankId("tiny", 0, 2, 0), RankId("tiny", 0, 2, 1)]
    ports = [s.spec.config.control for s in world.history if isinstance(s, StartRank)]
    assert ports[0] != "127.0.0.1:21002"


def test_a_rank_that_lost_its_peer_is_not_blamed() -> None:
    world = two_nodes()
    world.settle()
    world.end_rank(RankId("tiny", 0, 1, 0), code=ExitCode.PEER_LOST)
    world.now += 1
    world.end_rank(RankId("tiny", 0, 1, 1), signal=11)
    (step,) = world.plan().steps
    assert isinstance(step, AllocateEpoch)
    assert "signal 11" in step.detail


def test_nothing_starts_while_a_rank_of_an_old_epoch_is_alive() -> None:
    world = two_nodes()
    world.settle()
    world.end_rank(RankId("tiny", 0, 1, 1), signal=9)
    for step in world.plan().steps:
        world.obey(step)
    (stop,) = world.plan().steps
    assert isinstance(stop, StopRank)
    world.stops[stop.id] = world.now + 15  # asked, and not gone yet
    waiting = world.plan()
    assert waiting.steps == ()
    assert [w.reason for w in waiting.waiting] == [WaitingFor.STOPPING]
    world.now += 16  # the request seems to have been lost: it is made again
    assert world.plan().steps == (stop,)


def test_a_group_that_keeps_dying_is_restarted_more_and_more_slowly() -> None:
    world = two_nodes()
    world.settle()
    delays = []
    for _ in range(12):
        epoch = world.groups[world.replica()].epoch
        world.end_rank(RankId("tiny", 0, epoch, 0), signal=9)
        died = world.now
        plan = world.settle()
        while world.groups[world.replica()].proven_at is None or not world.alive():
            (until,) = [w.until for w in plan.waiting if w.reason is WaitingFor.BACK_OFF]
            assert until is not None
            world.now = until
            plan = world.settle()
        delays.append(world.now - died)
    assert delays == [0, 1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300]
    world.now += 700  # a long healthy life
    world.end_rank(RankId("tiny", 0, 13, 0), signal=9)
    assert world.settle() == Plan()
    assert epochs(world)[-1] == 14


def test_the_rest_of_a_dead_group_is_stopped_also_while_the_next_attempt_waits() -> None:
    world = two_nodes()
    world.settle()
    for epoch in (1, 2):
        world.end_rank(RankId("tiny", 0, epoch, 0), signal=9)
        plan = world.settle()
    assert [w.reason for w in plan.waiting] == [WaitingFor.BACK_OFF]
    assert world.alive() == []


def test_weights_that_a_rank_refuses_are_not_tried_again_at_once() -> None:
    world = two_nodes()
    world.settle()
    world.end_rank(RankId("tiny", 0, 1, 0), code=ExitCode.WEIGHTS)
    world.end_rank(RankId("tiny", 0, 1, 1), code=ExitCode.PEER_LOST)
    plan = world.settle()
    assert plan.steps == ()
    assert [r.reason for r in plan.refused] == [RefusedBecause.RANK_REFUSES]
    assert [w.until for w in plan.waiting] == [world.now + 300]
    world.manifests[-1] = deployment(serving={"context": 1024})  # a new wish is tried at once
    assert world.settle() == Plan()
    assert world.alive() != []


def test_loading_is_not_failing() -> None:
    world = two_nodes()
    world.settle()
    rank = RankId("tiny", 0, 1, 1)
    place, report = world.ranks[rank]
    world.ranks[rank] = (place, replace(report, phase=Phase.LOADING, loaded_bytes=50, total_bytes=200))
    plan = world.plan()
    assert plan.steps == ()
    assert [(w.reason, w.text) for w in plan.waiting] == [
        (WaitingFor.RANKS, "tiny/0: rank 1 is loading (25 %)")
    ]


def test_a_formation_that_another_controller_began_is_finished() -> None:
    reference = two_nodes()
    reference.settle()
    for done in range(1, len(reference.history)):
        world = two_nodes()
        for step in reference.history[:done]:
            world.obey(step)
        assert world.settle() == Plan(), done
        assert epochs(world) == [1], done
        assert world.alive() == reference.alive(), done


def test_a_second_replica_comes_and_goes_without_touching_the_first() -> None:
    world = two_nodes()
    world.settle()
    first = {rank: world.ranks[rank] for rank in world.alive()}
    for count in (2, 1, 2, 1):
        world.manifests[-1] = deployment(replicas=count)
        assert world.settle() == Plan()
        assert len(world.groups) == count
        assert {rank: world.ranks[rank] for rank in first} == first
    assert world.last_epochs[world.replica(index=1)] == 2  # epochs only grow, also over a release


def test_a_changed_wish_drains_the_old_group_and_forms_a_new_one() -> None:
    world = two_nodes()
    world.settle()
    world.history.clear()
    world.manifests[-1] = deployment(serving={"context": 1024})
    assert world.settle() == Plan()
    assert names(world)[:3] == ["AllocateEpoch", "StopRank", "StopRank"]
    stops = [step for step in world.history if isinstance(step, StopRank)]
    assert {step.grace_seconds for step in stops} == {30.0}
    configs = [step.spec.config for step in world.history if isinstance(step, StartRank)]
    assert {config.context for config in configs} == {1024}


@pytest.mark.parametrize(
    "change", [{"serving": {"aliases": ["gpt-4o"]}}, {"placement": {"nodeSelector": {}}}]
)
def test_what_does_not_concern_the_ranks_restarts_nothing(change: dict[str, Any]) -> None:
    world = two_nodes()
    world.settle()
    world.manifests[-1] = deployment(**change)
    assert world.plan() == Plan()


def test_a_wish_that_cannot_be_had_leaves_the_old_group_running() -> None:
    world = two_nodes()
    world.settle()
    before = world.alive()
    world.manifests[-1] = deployment(nodes=3)
    plan = world.settle()
    assert [r.reason for r in plan.refused] == [RefusedBecause.NO_NODES]
    assert world.alive() == before


def test_a_missing_model_is_refused_by_name_and_what_runs_goes_on() -> None:
    world = two_nodes()
    world.settle()
    world.manifests = [m for m in world.manifests if m.kind != "Model"]
    plan = world.plan()
    assert plan.steps == ()
    assert [r.reason for r in plan.refused] == [RefusedBecause.MODEL_UNKNOWN]
    assert 'model "tiny" does not exist' in plan.refused[0].text


def test_an_agent_that_is_down_is_started_and_its_ranks_are_left_alone() -> None:
    world = two_nodes()
    world.settle()
    before = world.alive()
    world.down = {"node-a", "node-b"}
    plan = world.plan()
    assert [type(step).__name__ for step in plan.steps] == ["StartAgent", "StartAgent"]
    assert {w.reason for w in plan.waiting} == {WaitingFor.AGENT}
    assert world.settle() == Plan()
    assert world.alive() == before


def test_nothing_is_decided_on_an_observation_older_than_the_last_change() -> None:
    world = two_nodes()
    world.settle()
    world.end_rank(RankId("tiny", 0, 1, 1), signal=9)
    world.writes[NodeName("node-a")] = Write(link=1, sequence=world.sequence + 1)
    plan = world.plan()
    assert plan.steps == ()
    assert [w.reason for w in plan.waiting] == [WaitingFor.OBSERVATION]
    world.sequence += 1
    assert [type(step) for step in world.plan().steps] == [AllocateEpoch]


def test_an_observation_over_a_newer_connection_is_newer() -> None:
    world = two_nodes()
    world.settle()
    world.writes[NodeName("node-a")] = Write(link=0, sequence=10_000)
    assert world.plan() == Plan()


def test_a_proven_group_that_misses_a_rank_without_a_trace_is_formed_again() -> None:
    world = two_nodes()
    world.settle()
    del world.ranks[RankId("tiny", 0, 1, 1)]
    assert world.settle() == Plan()
    assert epochs(world) == [1, 2]


def test_ranks_that_nobody_knows_are_stopped() -> None:
    world = two_nodes()
    world.settle()
    world.groups.clear()
    world.manifests = [m for m in world.manifests if m.kind != "ModelDeployment"]
    assert world.settle() == Plan()
    assert world.alive() == []


def test_epochs_grow_also_when_the_store_is_lost() -> None:
    world = two_nodes()
    world.settle()
    world.end_rank(RankId("tiny", 0, 1, 0), signal=9)
    world.settle()
    world.groups.clear()
    world.last_epochs.clear()
    assert world.settle() == Plan()
    assert world.groups[world.replica()].epoch == 3


def test_stopping_everything_ends_ranks_then_agents_and_forgets_no_epoch() -> None:
    world = two_nodes(replicas=2)
    world.settle()
    world.history.clear()
    world.stopping = True
    assert world.settle() == Plan()
    assert world.alive() == []
    assert world.agents == set()
    assert world.last_epochs == {world.replica(index=0): 1, world.replica(index=1): 1}
    assert names(world) == ["StopRank"] * 4 + ["ReleaseReplica"] * 2 + ["StopAgent"] * 2


def test_a_node_taken_out_of_the_manifests_is_vacated_and_its_agent_ended() -> None:
    world = World([node("node-a"), node("node-b"), node("node-c"), model(), deployment()])
    world.settle()
    world.manifests = [m for m in world.manifests if m.metadata.name != "node-a"]
    assert world.settle() == Plan()
    assert world.groups[world.replica()].members == ("node-b", "node-c")
    assert world.agents == {"node-b", "node-c"}


def test_logs_of_the_last_dead_epoch_are_kept_and_older_ones_removed() -> None:
    world = two_nodes()
    world.settle()
    for epoch in (1, 2, 3):
        world.now += 1000
        world.end_rank(RankId("tiny", 0, epoch, 0), signal=9)
        world.settle()
    assert {rank.epoch for rank in world.ranks} == {3, 4}


def test_a_proof_is_asked_of_rank_0() -> None:
    world = two_nodes()
    world.settle()
    proofs = [step for step in world.history if isinstance(step, ProveGroup)]
    assert [(p.node, p.epoch) for p in proofs] == [("node-a", 1)]
