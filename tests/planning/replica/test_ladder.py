"""The life of a replica: each scenario ends by planning again and finding nothing to do."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from reconciler.planning import plan
from reconciler.planning.recovery.back_off import SHORT_LIVES_FREE
from reconciler.planning.replica import unexplained
from reconciler.state import (
    AllocateEpoch,
    Cause,
    Desired,
    FaultClass,
    NodeName,
    Plan,
    ProveGroup,
    RefusedBecause,
    RequestedStop,
    StartRank,
    StepFailure,
    StopAgent,
    StopRank,
    Suspicion,
    WaitingFor,
    Write,
)
from reconciler.wire.launch import Exit, ExitCode, Phase, RankId
from tests.worlds import World, deployment, model, node, settled, two_nodes


def epochs(world: World) -> list[int]:
    return [step.group.epoch for step in world.done(AllocateEpoch)]


def test_a_new_deployment_is_formed_on_both_nodes_and_proven() -> None:
    world = two_nodes()
    assert world.settle() == Plan()
    assert world.did() == [
        "StartAgent", "StartAgent", "AllocateEpoch", "StartRank", "StartRank", "ProveGroup",
    ]  # fmt: skip
    group = world.group()
    assert (group.epoch, group.members) == (1, ("node-a", "node-b"))
    assert world.alive() == [RankId("tiny", 0, 1, 0), RankId("tiny", 0, 1, 1)]


def test_all_ranks_of_a_group_are_started_in_the_same_pass_with_ports_of_their_own() -> None:
    world = two_nodes()
    while not any(isinstance(step, StartRank) for step in world.plan().steps):
        world.act()
    starts = [step for step in world.plan().steps if isinstance(step, StartRank)]
    assert [step.node for step in starts] == ["node-a", "node-b"]
    configs = [step.spec.config for step in starts]
    assert configs[0].addresses == configs[1].addresses
    assert len({*configs[0].addresses, configs[0].control}) == 3
    assert configs[0].secret == configs[1].secret != ""


def test_the_secret_of_a_group_is_not_shown() -> None:
    world = settled(two_nodes())
    group = world.group()
    assert group.secret not in repr(group)


def test_a_secret_cannot_be_told_from_names_and_epochs() -> None:
    secrets = set()
    for entropy in ("one", "another"):
        world = two_nodes()
        while not (formed := [s for s in world.plan().steps if isinstance(s, AllocateEpoch)]):
            world.act()
        decided = plan(world.desired(), world.observed(), world.memory(), world.now, entropy)
        secrets |= {step.group.secret for step in decided.steps if isinstance(step, AllocateEpoch)}
        assert formed[0].group.secret not in secrets
    assert len(secrets) == 2


@pytest.mark.parametrize("rank", [0, 1])
def test_one_dead_rank_is_a_dead_group(rank: int) -> None:
    world = settled(two_nodes())
    world.history.clear()
    world.end_rank(RankId("tiny", 0, 1, rank), signal=9)
    assert world.settle() == Plan()
    assert world.did() == ["AllocateEpoch", "StopRank", "StartRank", "StartRank", "ProveGroup"]
    assert isinstance(world.history[0], AllocateEpoch)
    assert world.history[0].cause is Cause.RANK_EXITED
    assert f"rank {rank}" in world.history[0].detail
    assert "signal 9" in world.history[0].detail
    assert world.alive() == [RankId("tiny", 0, 2, 0), RankId("tiny", 0, 2, 1)]
    ports = [s.spec.config.control for s in world.done(StartRank)]
    assert ports[0] != "127.0.0.1:21002"


def test_a_rank_that_lost_its_peer_is_not_blamed() -> None:
    world = settled(two_nodes())
    world.end_rank(RankId("tiny", 0, 1, 0), code=ExitCode.PEER_LOST)
    world.now += 1
    world.end_rank(RankId("tiny", 0, 1, 1), signal=11)
    step = world.forming()
    assert "signal 11" in step.detail


def test_the_loss_of_a_rank_is_not_judged_before_its_own_end_can_have_been_reported() -> None:
    world = settled(two_nodes())
    world.end_rank(RankId("tiny", 0, 1, 0), code=ExitCode.PEER_LOST)
    decided = world.plan()
    assert (decided.steps, decided.troubles) == ((), ())
    (waiting,) = decided.waiting
    assert (waiting.reason, waiting.until) == (WaitingFor.OBSERVATION, world.now + unexplained.ENDS_SECONDS)
    world.end_rank(RankId("tiny", 0, 1, 1), signal=6)
    step = world.forming()
    assert "signal 6" in step.detail
    assert step.suspicion is Suspicion.STRONG


def test_a_rank_that_only_noticed_the_loss_of_another_is_not_blamed_for_it() -> None:
    world = settled(two_nodes())
    world.end_rank(RankId("tiny", 0, 1, 0), code=ExitCode.PEER_LOST)
    world.now += unexplained.ENDS_SECONDS
    decided = world.plan()
    (step,) = decided.steps
    assert isinstance(step, AllocateEpoch)
    text = "ranks lost each other, and no end is known that explains it: rank 0 on node-a (epoch 1, pid 100) exited with 67 (PeerLost)"
    assert (step.detail, decided.troubles[0].seen) == (text, text)


def test_a_rank_that_was_killed_because_others_were_dead_is_not_blamed() -> None:
    world = settled(two_nodes())
    world.end_rank(RankId("tiny", 0, 1, 0), code=ExitCode.PEER_LOST)
    world.end_rank(RankId("tiny", 0, 1, 1), signal=9)
    place, report = world.ranks[RankId("tiny", 0, 1, 1)]
    killed = Exit(None, 9, world.now + 3, killed_after=3.0)
    world.ranks[RankId("tiny", 0, 1, 1)] = (place, replace(report, exit=killed))
    assert "signal 9" not in world.plan().troubles[0].seen


def test_of_two_ends_the_earlier_one_counts_also_where_the_clocks_of_their_nodes_differ() -> None:
    world = settled(two_nodes())
    world.skews[NodeName("node-b")] = 60.0
    world.end_rank(RankId("tiny", 0, 1, 0), code=1)
    world.end_rank(RankId("tiny", 0, 1, 1), signal=9)
    place, report = world.ranks[RankId("tiny", 0, 1, 1)]
    earlier = Exit(None, 9, world.now + 59)
    world.ranks[RankId("tiny", 0, 1, 1)] = (place, replace(report, exit=earlier))
    assert "signal 9" in world.plan().troubles[0].seen


def test_nothing_starts_while_a_rank_of_an_old_epoch_is_alive() -> None:
    world = settled(two_nodes())
    world.end_rank(RankId("tiny", 0, 1, 1), signal=9)
    world.act()
    (stop,) = world.plan().steps
    assert isinstance(stop, StopRank)
    world.stops[stop.id] = RequestedStop(world.now + 5, world.now + 15)  # asked, and not gone yet
    waiting = world.plan()
    assert waiting.steps == ()
    assert [(w.reason, w.until) for w in waiting.waiting] == [(WaitingFor.STOPPING, world.now + 15)]
    world.now += 16  # the request seems to have been lost: it is made again
    assert world.plan().steps == (stop,)


def test_the_rest_of_a_dead_group_is_stopped_also_while_the_next_attempt_waits() -> None:
    world = settled(two_nodes())
    for epoch in range(1, SHORT_LIVES_FREE + 3):
        world.end_rank(RankId("tiny", 0, epoch, 0), signal=9)
        plan = world.settle()
    assert [w.reason for w in plan.waiting] == [WaitingFor.BACK_OFF]
    assert world.alive() == []


@pytest.mark.parametrize("fault", [FaultClass.SERVICE_WEDGED, FaultClass.SILENT_HANG])
@pytest.mark.parametrize("how", [{"code": ExitCode.OK}, {"signal": 9}, {"code": ExitCode.PEER_LOST}])
def test_what_ranks_were_ended_for_is_what_the_group_died_of_however_they_end(
    fault: FaultClass, how: dict[str, int]
) -> None:
    world = settled(two_nodes())
    world.end_rank(RankId("tiny", 0, 1, 0), signal=9)
    world.settle()
    (formed,) = world.attempts[world.replica()][-1:]
    failed = tuple(replace(formed, epoch=epoch, fault=fault, served=None) for epoch in (0, 1))
    world.attempts[world.replica()] = (*failed, replace(formed, fault=fault, served=None))
    first, second = RankId("tiny", 0, 2, 0), RankId("tiny", 0, 2, 1)
    if fault is FaultClass.SERVICE_WEDGED:
        world.groups[world.replica()] = replace(world.group(), proven_at=None)
        world.failures["prove/tiny/0/2"] = StepFailure(3, world.now, "rank 0 broke off")
    else:
        world.report(first, demand=1, silent_seconds=61.0)
    world.lingers = True
    before = world.settle()
    world.end_rank(first, **how)
    world.end_rank(second, code=ExitCode.OK)
    after = world.settle()
    assert [w.reason for w in after.waiting] == [WaitingFor.BACK_OFF]
    assert [(t.fault, t.seen) for t in before.troubles] == [(t.fault, t.seen) for t in after.troubles]
    assert [t.fault for t in after.troubles] == [fault]

    world.now = after.waiting[0].until or 0.0
    world.settle()
    assert [attempt.fault for attempt in world.attempts[world.replica()]] == [fault] * 4


def test_weights_that_a_rank_refuses_are_not_tried_again_unchanged() -> None:
    world = settled(two_nodes())
    world.end_rank(RankId("tiny", 0, 1, 0), code=ExitCode.WEIGHTS)
    world.end_rank(RankId("tiny", 0, 1, 1), code=ExitCode.PEER_LOST)
    plan = world.settle()
    assert plan.steps == ()
    assert [r.reason for r in plan.refused] == [RefusedBecause.RANK_REFUSES]
    world.now += 100_000
    assert world.settle().refused == plan.refused
    world.manifests[-1] = deployment(serving={"context": 1024})  # a new spec is tried at once
    assert world.settle() == Plan()
    assert world.alive() != []


@pytest.mark.parametrize("restarted", ["node-a", "node-b"])
@pytest.mark.parametrize("code", [ExitCode.WEIGHTS, ExitCode.CONFIG])
def test_what_a_rank_refused_is_tried_again_at_once_when_one_of_its_machines_has_restarted(
    code: int, restarted: str
) -> None:
    world = settled(two_nodes())
    world.end_rank(RankId("tiny", 0, 1, 0), code=code)
    world.end_rank(RankId("tiny", 0, 1, 1), code=ExitCode.PEER_LOST)
    assert world.settle().refused
    world.boots[NodeName(restarted)] = "another"
    assert world.settle() == Plan()
    assert len(world.done(AllocateEpoch)) == 2


def test_what_a_rank_refused_is_tried_again_at_once_when_its_weights_are_others() -> None:
    world = settled(two_nodes())
    world.end_rank(RankId("tiny", 0, 1, 0), code=ExitCode.WEIGHTS)
    assert world.settle().refused
    size, config = world.weights["tiny"]
    world.weights["tiny"] = (size + 1, config)
    assert world.settle() == Plan()
    (again,) = world.done(AllocateEpoch)[1:]
    assert again.cause is Cause.FACTS_CHANGED
    assert "node-a weights: " in again.detail


def test_loading_is_not_failing() -> None:
    world = settled(two_nodes())
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
    world = settled(two_nodes())
    first = {rank: world.ranks[rank] for rank in world.alive()}
    for count in (2, 1, 2, 1):
        world.manifests[-1] = deployment(replicas=count)
        assert world.settle() == Plan()
        assert len(world.groups) == count
        assert {rank: world.ranks[rank] for rank in first} == first
    assert world.last_epochs[world.replica(index=1)] == 2  # epochs only grow, also over a release


def test_a_changed_wish_drains_the_old_group_and_forms_a_new_one() -> None:
    world = settled(two_nodes())
    world.history.clear()
    world.manifests[-1] = deployment(serving={"context": 1024})
    assert world.settle() == Plan()
    assert world.did()[:3] == ["AllocateEpoch", "StopRank", "StopRank"]
    stops = world.done(StopRank)
    assert {step.grace_seconds for step in stops} == {30.0}
    configs = [step.spec.config for step in world.done(StartRank)]
    assert {config.context for config in configs} == {1024}


@pytest.mark.parametrize(
    "change", [{"serving": {"aliases": ["gpt-4o"]}}, {"placement": {"nodeSelector": {}}}]
)
def test_what_does_not_concern_the_ranks_restarts_nothing(change: dict[str, Any]) -> None:
    world = settled(two_nodes())
    world.manifests[-1] = deployment(**change)
    assert world.plan() == Plan()


def test_a_wish_that_cannot_be_had_leaves_the_old_group_running() -> None:
    world = settled(two_nodes())
    before = world.alive()
    world.manifests[-1] = deployment(nodes=3)
    plan = world.settle()
    assert [r.reason for r in plan.refused] == [RefusedBecause.NO_NODES]
    assert world.alive() == before


def test_a_missing_model_is_refused_by_name_and_what_runs_goes_on() -> None:
    world = settled(two_nodes())
    world.manifests = [m for m in world.manifests if m.kind != "Model"]
    plan = world.plan()
    assert plan.steps == ()
    assert [r.reason for r in plan.refused] == [RefusedBecause.MODEL_UNKNOWN]
    assert 'model "tiny" does not exist' in plan.refused[0].text


def test_an_agent_that_is_down_is_started_and_its_ranks_are_left_alone() -> None:
    world = settled(two_nodes())
    before = world.alive()
    world.down = {"node-a", "node-b"}
    plan = world.plan()
    assert [type(step).__name__ for step in plan.steps] == ["StartAgent", "StartAgent"]
    assert {w.reason for w in plan.waiting} == {WaitingFor.AGENT}
    assert world.settle() == Plan()
    assert world.alive() == before


def test_nothing_is_decided_on_an_observation_older_than_the_last_change() -> None:
    world = settled(two_nodes())
    world.end_rank(RankId("tiny", 0, 1, 1), signal=9)
    world.writes[NodeName("node-a")] = Write(link=1, sequence=world.sequence + 1)
    plan = world.plan()
    assert plan.steps == ()
    assert [w.reason for w in plan.waiting] == [WaitingFor.OBSERVATION]
    world.sequence += 1
    assert [type(step) for step in world.plan().steps] == [AllocateEpoch]


def test_an_observation_over_a_newer_connection_is_newer() -> None:
    world = settled(two_nodes())
    world.writes[NodeName("node-a")] = Write(link=0, sequence=10_000)
    assert world.plan() == Plan()


def test_nothing_is_decided_before_a_look_with_the_newest_token() -> None:
    """An agent that has not seen it may still carry out what was asked for with an older one."""
    world = settled(two_nodes())
    world.end_rank(RankId("tiny", 0, 1, 1), signal=9)
    world.token += 1
    plan = world.plan()
    assert plan.steps == ()
    assert [w.reason for w in plan.waiting] == [WaitingFor.OBSERVATION]
    world.asked_with = world.token
    assert [type(step) for step in world.plan().steps] == [AllocateEpoch]


def test_no_agent_is_ended_on_an_observation_from_before_the_newest_token() -> None:
    """What was asked for before may have started a rank there since."""
    world = settled(World([node("node-a"), node("node-b"), model()]))
    world.remove(next(m for m in world.manifests if m.metadata.name == "node-b"))
    world.token += 1
    plan = world.plan()
    assert plan.steps == ()
    assert ("node-b", WaitingFor.OBSERVATION) in [(w.object.name, w.reason) for w in plan.waiting]
    world.asked_with = world.token
    assert [str(step) for step in world.plan().steps] == [str(StopAgent(NodeName("node-b")))]


def test_an_agent_that_knows_no_tokens_of_looks_is_believed() -> None:
    world = settled(two_nodes())
    world.token += 1
    world.asked_with = None
    world.end_rank(RankId("tiny", 0, 1, 1), signal=9)
    assert [type(step) for step in world.plan().steps] == [AllocateEpoch]


def test_after_a_reboot_the_first_look_is_newer_than_every_change_before() -> None:
    """Its agent counts from 1 again, over another connection."""
    world = settled(two_nodes())
    world.writes = {name: Write(link=1, sequence=world.sequence) for name in world.agents}
    for rank in world.alive():
        world.end_rank(rank, signal=9)
    world.link, world.sequence = 2, 1
    assert [type(step) for step in world.plan().steps] == [AllocateEpoch]


def test_a_proven_group_that_misses_a_rank_without_a_trace_is_formed_again() -> None:
    world = settled(two_nodes())
    del world.ranks[RankId("tiny", 0, 1, 1)]
    assert world.settle() == Plan()
    assert epochs(world) == [1, 2]


def test_ranks_that_nobody_knows_are_stopped() -> None:
    world = settled(two_nodes())
    world.groups.clear()
    world.manifests = [m for m in world.manifests if m.kind != "ModelDeployment"]
    assert world.settle() == Plan()
    assert world.alive() == []


def test_stopping_everything_ends_ranks_then_agents_and_forgets_no_epoch() -> None:
    world = settled(two_nodes(replicas=2))
    world.history.clear()
    world.stopping = True
    assert world.settle() == Plan()
    assert world.alive() == []
    assert world.agents == set()
    assert world.last_epochs == {world.replica(index=0): 1, world.replica(index=1): 1}
    assert world.did() == ["StopRank"] * 4 + ["ReleaseReplica"] * 2 + ["StopAgent"] * 2


def test_a_node_taken_out_of_the_manifests_is_vacated_and_its_agent_ended() -> None:
    world = settled(World([node("node-a"), node("node-b"), node("node-c"), model(), deployment()]))
    world.manifests = [m for m in world.manifests if m.metadata.name != "node-a"]
    assert world.settle() == Plan()
    assert world.group().members == ("node-b", "node-c")
    assert world.agents == {"node-b", "node-c"}


def test_logs_of_the_last_dead_epoch_are_kept_and_older_ones_removed() -> None:
    world = settled(two_nodes())
    for epoch in (1, 2, 3):
        world.now += 1000
        world.end_rank(RankId("tiny", 0, epoch, 0), signal=9)
        world.settle()
    assert {rank.epoch for rank in world.ranks} == {3, 4}


def test_before_the_manifests_are_read_nothing_is_done_to_what_runs() -> None:
    world = settled(two_nodes())
    unread = plan(Desired(""), world.observed(), world.memory(), world.now, "entropy")
    assert unread.steps == ()
    assert [w.reason for w in unread.waiting] == [WaitingFor.SOURCE]


def test_a_rank_of_a_removed_node_is_found_and_stopped_by_the_next_controller() -> None:
    world = settled(World([node("node-a"), node("node-b"), node("node-c"), model(), deployment()]))
    world.manifests = [m for m in world.manifests if m.metadata.name != "node-a"]
    step = world.forming()
    world.obey(step)
    world.down = {"node-a"}  # and its agent dies before the old rank is stopped
    assert world.settle() == Plan()
    assert {rank.epoch for rank in world.alive()} == {2}
    assert world.agents == {"node-b", "node-c"}


def test_a_group_that_cannot_be_replaced_yet_is_completed_with_what_it_was_formed_for() -> None:
    world = settled(two_nodes())
    world.manifests[-1] = deployment(serving={"context": 1024})
    (step,) = world.plan().steps
    world.obey(step)  # epoch 2 for a context of 1024; its ranks are not started yet
    for rank in world.alive():
        world.end_rank(rank, code=0)
    world.manifests[-1] = deployment(serving={"context": 16_000_000, "prefixCache": "64GiB"})
    decided = world.settle()
    assert [r.reason for r in decided.refused] == [RefusedBecause.NO_MEMORY]
    assert {rank.epoch for rank in world.alive()} == {2}
    assert {step.spec.config.context for step in world.history[-3:] if isinstance(step, StartRank)} == {1024}
    world.manifests[-1] = deployment(serving={"context": 1024})
    assert world.settle() == Plan()
    assert epochs(world) == [1, 2]


def test_a_group_of_which_nothing_is_known_but_that_it_is_another_is_not_completed() -> None:
    world = settled(two_nodes())
    world.manifests[-1] = deployment(serving={"context": 1024})
    (step,) = world.plan().steps
    world.obey(step)
    world.groups[world.replica()] = replace(world.group(), spec=None)
    for rank in world.alive():
        world.end_rank(rank, code=0)
    world.manifests[-1] = deployment(serving={"context": 16_000_000, "prefixCache": "64GiB"})
    decided = world.plan()
    assert decided.steps == ()
    assert [r.reason for r in decided.refused] == [RefusedBecause.NO_MEMORY]


@pytest.mark.parametrize("why", ["unschedulable", "model"])
def test_survivors_of_a_dead_group_are_stopped_also_when_it_cannot_be_formed_again(why: str) -> None:
    world = settled(two_nodes())
    world.end_rank(RankId("tiny", 0, 1, 1), signal=9)
    if why == "model":
        world.manifests = [m for m in world.manifests if m.kind != "Model"]
    else:
        world.manifests[1] = node("node-b", unschedulable=True)
    decided = world.settle()
    assert len(decided.refused) == 1
    assert world.alive() == []


def test_a_proof_in_flight_keeps_nothing_else_waiting() -> None:
    world = settled(two_nodes())
    world.groups[world.replica()] = replace(world.group(), proven_at=None)
    world.in_flight = {"proof/tiny/0/1"}
    assert [w.reason for w in world.plan().waiting] == [WaitingFor.STEP]
    world.manifests[-1] = deployment(replicas=0)
    assert [type(step) for step in world.plan().steps] == [StopRank, StopRank]


def test_a_group_that_never_answers_is_formed_again() -> None:
    world = settled(two_nodes())
    world.groups[world.replica()] = replace(world.group(), proven_at=None)
    world.failures["prove/tiny/0/1"] = StepFailure(3, world.now, "context_length_exceeded: too long")
    step = world.forming()
    assert step.cause is Cause.PROOF_FAILED
    assert "no completion in 3 attempts: context_length_exceeded" in step.detail


def test_a_group_that_did_not_answer_once_is_asked_again() -> None:
    world = settled(two_nodes())
    world.groups[world.replica()] = replace(world.group(), proven_at=None)
    world.failures["prove/tiny/0/1"] = StepFailure(2, world.now, "rank 0 broke off")
    assert [type(step) for step in world.plan().steps] == [ProveGroup]
    world.failures["prove/tiny/0/1"] = StepFailure(5, world.now, "the disk is full", unwritten=3)
    assert [type(step) for step in world.plan().steps] == [ProveGroup]


def test_groups_that_are_formed_in_one_pass_have_ports_of_their_own() -> None:
    world = two_nodes(replicas=3)
    while not (formed := [s for s in world.plan().steps if isinstance(s, AllocateEpoch)]):
        world.act()
    ports = [port for step in formed for port in range(step.group.port, step.group.port + 3)]
    assert len(formed) == 3
    assert len(set(ports)) == len(ports)


def test_a_clock_that_was_set_back_delays_nothing() -> None:
    world = settled(two_nodes())
    world.now -= 7200
    rank = RankId("tiny", 0, 1, 0)
    world.stops[rank] = RequestedStop(world.now + 7200, world.now + 7210)
    world.end_rank(rank, signal=9)
    assert world.settle() == Plan()
    assert epochs(world) == [1, 2]


def test_a_shutdown_does_not_wait_for_a_drain_that_was_begun_with_more_patience() -> None:
    world = settled(two_nodes())
    for rank in world.alive():
        world.stops[rank] = RequestedStop(world.now + 30, world.now + 40)
    world.stopping = True
    stops = [step for step in world.plan().steps if isinstance(step, StopRank)]
    assert [stop.grace_seconds for stop in stops] == [3.0, 3.0]
    for stop in stops:
        world.stops[stop.id] = RequestedStop(world.now + 3, world.now + 13)
    assert world.plan().steps == ()


def test_a_proof_is_asked_of_rank_0() -> None:
    world = settled(two_nodes())
    proofs = world.done(ProveGroup)
    assert [(p.node, p.epoch) for p in proofs] == [("node-a", 1)]
