"""Runs of jobs: when they begin, how their attempts end, and what never happens again."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from reconciler.planning.jobs import ladder
from reconciler.resources import Job
from reconciler.state import (
    AllocateEpoch,
    ForgetRank,
    JobName,
    NodeName,
    ObjectKey,
    RefusedBecause,
    RunId,
    StartRank,
    StopRank,
    WaitingFor,
)
from reconciler.state.job_steps import CreateRun, EndAttempt, FetchArtifacts
from reconciler.state.jobs import AttemptEnd, Fetched, Run, RunReason, RunResult
from reconciler.wire.launch import Phase, RankId
from reconciler.wire.node import Gone
from tests.worlds import World, deployment, model, node, worker
from tests.worlds import job as any_job

GIB = 2**30


def job(name: str = "hpl", nodes: int = 2, **spec: Any) -> Job:
    return any_job(name, nodes=nodes, **spec)


def cluster(*jobs: Job, nodes: int = 2) -> World:
    return World([*(worker(f"node-{letter}") for letter in "abcdefgh"[:nodes]), *jobs])


def run_of(world: World, index: int = 1, name: str = "hpl") -> Run:
    return world.runs[RunId(JobName(name), index)]


def ranks_of(world: World, name: str = "hpl") -> list[RankId]:
    return [rank for rank in world.alive() if rank.deployment == f"job_{name}"]


def finish(world: World, code: int = 0, name: str = "hpl") -> None:
    for rank in ranks_of(world, name):
        world.end_rank(rank, code=code)


def change(world: World, **spec: Any) -> None:
    """Another manifest of the job comes into force."""
    kept = [each for each in world.manifests if not isinstance(each, Job)]
    world.manifests = [*kept, job(**spec)]


def tried_again(world: World) -> None:
    """Settle, and let every back-off pass."""
    for _ in range(4):
        decided = world.settle()
        untils = [each.until for each in decided.waiting if each.until is not None]
        if not untils:
            return
        world.pass_time(max(untils))
    world.settle()


def test_a_job_starts_all_of_its_ranks_and_has_succeeded_when_all_have_ended_with_0() -> None:
    world = cluster(job())
    world.settle()
    assert [(r.rank, world.ranks[r][0]) for r in ranks_of(world)] == [(0, "node-a"), (1, "node-b")]
    first, second = ranks_of(world)
    world.end_rank(first, code=0)
    assert not world.settle().steps
    assert run_of(world).ended is None
    world.end_rank(second, code=0)
    world.settle()
    ended = run_of(world).ended
    assert ended is not None
    assert (ended.result, ended.reason) == (RunResult.SUCCEEDED, RunReason.COMPLETED)
    assert not world.groups
    assert world.plan().settled


def test_a_job_that_has_run_does_not_run_again_but_a_changed_one_does() -> None:
    world = cluster(job())
    world.settle()
    finish(world)
    world.settle()
    kept = world.manifests[-1]
    world.remove(kept)
    world.settle()
    world.bring(kept)
    world.settle()
    assert len(world.done(CreateRun)) == 1
    change(world, env={"SIZE": "2"})
    world.settle()
    assert run_of(world, 2).ended is None
    change(world)
    world.settle()
    ended = run_of(world, 2).ended
    assert ended is not None
    assert ended.reason is RunReason.REPLACED
    assert len(world.done(CreateRun)) == 2, "the first spec has run already"


@pytest.mark.parametrize(
    "spec",
    [
        {"priority": 5},
        {"preempt": True},
        {"activeDeadline": "9h"},
        {"backoffLimit": 1},
        {"gracePeriod": "1s"},
    ],
)
def test_a_change_that_does_not_concern_the_program_leaves_a_run_alone(spec: dict[str, Any]) -> None:
    world = cluster(job())
    world.settle()
    change(world, **spec)
    assert not world.plan().steps


def test_a_new_controller_without_a_store_neither_runs_an_ended_job_again_nor_disturbs_one_that_goes_on() -> (
    None
):
    for ends in (True, False):
        world = cluster(job())
        world.settle()
        if ends:
            finish(world)
            world.settle()
        begun = len(world.done(StartRank))
        world.lose_store()
        world.settle()
        assert len(world.done(StartRank)) == begun
        assert not world.done(StopRank)
        ended = run_of(world).ended
        assert (ended is not None and ended.result is RunResult.SUCCEEDED) == ends
        if not ends:
            finish(world)
            world.settle()
            assert run_of(world).ended is not None


def test_a_failed_rank_ends_the_attempt_and_the_next_one_waits_for_the_back_off() -> None:
    world = cluster(job())
    world.settle()
    first, second = ranks_of(world)
    world.end_rank(second, code=3)
    decided = world.settle()
    assert [(step.id, step.node) for step in world.done(StopRank)] == [(first, "node-a")]
    (attempt,) = run_of(world).attempts
    assert attempt.end is AttemptEnd.RANK_FAILED
    assert "exited with 3" in attempt.text
    assert [(each.exit.code, each.exit.signal) for each in attempt.ranks if each.exit] == [
        (None, 15),
        (3, None),
    ]
    (waiting,) = decided.waiting
    assert (waiting.reason, waiting.until) == (WaitingFor.BACK_OFF, world.now + 10)
    world.pass_time(world.now + 10)
    world.settle()
    assert [rank.epoch for rank in ranks_of(world)] == [2, 2]


@pytest.mark.parametrize(("limit", "attempts"), [(0, 1), (2, 3)])
def test_a_run_has_failed_after_more_failed_attempts_than_its_back_off_limit(
    limit: int, attempts: int
) -> None:
    world = cluster(job(backoffLimit=limit))
    for _ in range(attempts):
        tried_again(world)
        finish(world, code=1)
    world.settle()
    ended = run_of(world).ended
    assert ended is not None
    assert (ended.result, ended.reason) == (RunResult.FAILED, RunReason.BACKOFF_LIMIT)
    assert len(run_of(world).attempts) == attempts
    world.pass_time(world.now + 10_000)
    assert not world.plan().steps


def test_a_lower_back_off_limit_ends_a_run_that_has_failed_more_often() -> None:
    world = cluster(job())
    world.settle()
    finish(world, code=1)
    world.settle()
    change(world, backoffLimit=0)
    tried_again(world)
    ended = run_of(world).ended
    assert ended is not None
    assert ended.reason is RunReason.BACKOFF_LIMIT
    assert not ranks_of(world)


def test_some_exit_codes_end_the_run_at_once() -> None:
    world = cluster(job(failOnExitCodes=[64]))
    world.settle()
    finish(world, code=64)
    world.settle()
    ended = run_of(world).ended
    assert ended is not None
    assert ended.reason is RunReason.EXIT_CODE


def test_a_run_that_is_over_its_deadline_ends_in_order_and_has_failed() -> None:
    world = cluster(job(activeDeadline="60s", gracePeriod="7s"))
    world.settle()
    world.now += 59
    assert not world.plan().steps
    world.now += 1
    world.settle()
    assert {step.grace_seconds for step in world.done(StopRank)} == {10.0}
    ended = run_of(world).ended
    assert ended is not None
    assert (ended.result, ended.reason) == (RunResult.FAILED, RunReason.DEADLINE)


def test_a_status_of_the_launcher_is_none_of_the_program() -> None:
    world = cluster(job(failOnExitCodes=[67], backoffLimit=3))
    world.settle()
    first, second = ranks_of(world)
    world.end_rank(first, signal=9)
    world.end_rank(second, code=67, program=False)
    world.settle()
    assert run_of(world).ended is None


def test_a_run_that_is_drained_for_ever_does_not_grow_for_ever() -> None:
    world = cluster(job(), nodes=3)
    for turn in range(ladder.ATTEMPTS_KEPT + 3):
        world.manifests[0] = worker("node-a", drain=turn % 2 == 0)
        world.manifests[1] = worker("node-b", drain=turn % 2 == 1)
        world.settle()
    assert len(run_of(world).attempts) == ladder.ATTEMPTS_KEPT
    assert run_of(world).ended is None


def test_a_rank_with_a_long_grace_is_asked_to_end_once() -> None:
    spec: dict[str, Any] = {"gracePeriod": "20m"}
    world = cluster(job(**spec))
    world.settle()
    world.lingers = True
    change(world, **spec, suspend=True)
    world.settle()
    world.now += 600
    world.settle()
    assert len(world.done(StopRank)) == 2
    world.pass_time(world.now + 700)
    world.settle()
    assert not world.alive()


def test_a_suspended_run_goes_on_later_and_the_time_between_does_not_count() -> None:
    world = cluster(job(activeDeadline="60s"))
    world.settle()
    world.now += 30
    change(world, activeDeadline="60s", suspend=True)
    world.settle()
    assert not ranks_of(world)
    assert not world.groups
    assert [each.end for each in run_of(world).attempts] == [AttemptEnd.SUSPENDED]
    world.now += 5000
    assert not world.plan().steps
    change(world, activeDeadline="60s")
    world.settle()
    assert len(ranks_of(world)) == 2
    assert run_of(world).failures == 0
    world.now += 29
    assert not world.plan().steps
    world.now += 2
    world.settle()
    assert run_of(world).ended is not None


def test_a_cancelled_run_ends_and_the_next_one_is_not_affected() -> None:
    world = cluster(job())
    world.settle()
    change(world, cancelledRun=1)
    world.settle()
    ended = run_of(world).ended
    assert ended is not None
    assert ended.result is RunResult.CANCELLED
    change(world, cancelledRun=1, restartedAt="now")
    world.settle()
    assert len(ranks_of(world)) == 2


def test_a_run_that_has_completed_before_it_was_cancelled_has_succeeded() -> None:
    world = cluster(job())
    world.settle()
    finish(world)
    change(world, cancelledRun=1)
    world.settle()
    ended = run_of(world).ended
    assert ended is not None
    assert ended.result is RunResult.SUCCEEDED


def test_a_deleted_job_ends_and_nothing_of_it_stays_but_what_is_known() -> None:
    world = cluster(job())
    world.settle()
    world.remove(world.manifests[-1])
    world.settle()
    assert not world.ranks
    assert not world.groups
    assert not world.leaving
    ended = run_of(world).ended
    assert ended is not None
    assert ended.reason is RunReason.DELETED


def test_a_drained_node_ends_the_attempt_which_does_not_count_and_moves() -> None:
    world = cluster(job(backoffLimit=0), nodes=3)
    world.settle()
    world.manifests[0] = worker("node-a", drain=True)
    world.settle()
    assert sorted(world.ranks[rank][0] for rank in ranks_of(world)) == ["node-b", "node-c"]
    assert run_of(world).ended is None


def test_a_job_runs_only_where_the_node_allows_its_path() -> None:
    world = World([worker("node-a"), node("node-b"), job()])
    (refusal,) = world.settle().refused
    assert refusal.reason is RefusedBecause.JOBS_DENIED
    assert "node-b allows no job of jobs/hpl.yaml" in refusal.text
    world.manifests[1] = worker("node-b")
    world.settle()
    assert len(ranks_of(world)) == 2


def test_a_job_waits_for_nodes_that_serve_and_takes_them_once_they_are_free() -> None:
    serving = deployment(nodes=1)
    world = World([worker("node-a"), worker("node-b"), model(), serving, job()])
    decided = world.settle()
    (room,) = (each for each in decided.waiting if each.reason is WaitingFor.ROOM)
    assert room.text == "job/hpl/1: it needs 2 unused nodes, and node-a is in use"
    assert not ranks_of(world)
    world.remove(serving)
    world.settle()
    assert len(ranks_of(world)) == 2


def test_a_job_with_a_memory_shares_nodes_as_far_as_there_is_room() -> None:
    world = World([worker("node-a"), worker("node-b"), model(), deployment(nodes=1), job(memory="8GiB")])
    world.settle()
    assert len(ranks_of(world)) == 2
    world = World([worker("node-a"), worker("node-b"), job(memory="100GiB")])
    (refusal,) = world.settle().refused
    assert refusal.reason is RefusedBecause.NO_MEMORY


def test_a_job_has_its_nodes_to_itself_without_a_memory() -> None:
    world = World([worker("node-a"), worker("node-b"), job(), job("other", memory="1GiB")])
    world.settle()
    assert not ranks_of(world, "other")
    finish(world)
    world.settle()
    assert len(ranks_of(world, "other")) == 2


def test_a_job_takes_nodes_from_a_deployment_only_if_both_allow_it_and_gives_them_back() -> None:
    for both in (False, True):
        serving = deployment(nodes=2, preemptible=both)
        world = World([worker("node-a"), worker("node-b"), model(), serving])
        world.settle()
        served = world.alive()
        world.manifests.append(job(priority=10, preempt=True))
        world.settle()
        assert (world.alive() != served) == both
        if not both:
            continue
        assert len(ranks_of(world)) == 2
        assert {step.id for step in world.done(StopRank)} == set(served)
        begun = [type(step) for step in world.history]
        assert begun.index(StopRank) < len(begun) - 1 - begun[::-1].index(StartRank), "it drains first"
        assert not world.plan().refused
        finish(world)
        world.settle()
        assert len(world.alive()) == 2
        assert not ranks_of(world)


def test_a_preempting_job_keeps_its_nodes_between_its_attempts() -> None:
    serving = deployment(nodes=2, preemptible=True)
    world = World([worker("node-a"), worker("node-b"), model(), serving, job(priority=10, preempt=True)])
    world.settle()
    finish(world, code=1)
    world.settle()
    assert not world.alive()
    tried_again(world)
    assert len(ranks_of(world)) == 2


def test_a_job_of_equal_priority_preempts_nothing() -> None:
    world = World([worker("node-a"), worker("node-b"), model(), deployment(nodes=2, preemptible=True)])
    world.settle()
    served = world.alive()
    world.manifests.append(job(preempt=True))
    world.settle()
    assert world.alive() == served


def test_of_jobs_and_deployments_that_wait_the_one_with_the_highest_priority_is_first() -> None:
    for priority, winner in ((1, "job_hpl"), (0, "tiny")):
        world = World([worker("node-a"), model(), deployment(nodes=1), job(nodes=1, priority=priority)])
        world.memory_bytes = GIB
        world.settle()
        assert {rank.deployment for rank in world.alive()} == {winner}


def test_a_lost_node_ends_the_attempt_and_the_second_one_the_run() -> None:
    world = cluster(job(), nodes=4)
    world.settle()
    for _ in range(2):
        (gone, *_) = (place for rank in ranks_of(world) if (place := world.ranks[rank][0]) not in world.lost)
        world.lose(gone)
        world.now += 31
        world.settle()
    ended = run_of(world).ended
    assert ended is not None
    assert ended.reason is RunReason.NODE_LOSS
    world.now += 10_000
    assert not [step for step in world.plan().steps if isinstance(step, CreateRun | AllocateEpoch)]


def test_a_machine_that_restarts_counts_as_lost_to_the_run() -> None:
    world = cluster(job())
    for boot in ("second", "third"):
        world.settle()
        rank = ranks_of(world)[1]
        world.boots[NodeName("node-b")] = boot
        world.end_rank(rank, signal=9)
        world.settle()
    ended = run_of(world).ended
    assert [each.end for each in run_of(world).attempts] == [AttemptEnd.NODE_LOST] * 2
    assert ended is not None
    assert ended.reason is RunReason.NODE_LOSS


def test_a_run_is_not_to_blame_for_nodes_that_are_lost_before_it_has_started_there() -> None:
    world = cluster(job())
    world.settle()
    finish(world, code=1)
    world.settle()
    for boot in ("second", "third", "fourth"):
        assert world.groups, "it has nodes, and waits for its back-off"
        world.boots[NodeName("node-b")] = boot
        world.settle()
    assert run_of(world).node_losses == 0
    assert run_of(world).ended is None
    tried_again(world)
    assert len(ranks_of(world)) == 2


def test_a_scheduled_job_that_loses_nodes_is_not_scheduled_again() -> None:
    world = cluster(job(schedule="* * * * *"))
    world.created[ObjectKey("Job", "hpl")] = world.now
    world.now += 60
    for boot in ("second", "third"):
        world.settle()
        world.boots[NodeName("node-b")] = boot
        world.end_rank(ranks_of(world)[1], signal=9)
        world.settle()
    world.now += 600
    decided = world.settle()
    assert [refusal.reason for refusal in decided.refused] == [RefusedBecause.NODE_LOSS]
    assert len(world.runs) == 1
    change(world, schedule="* * * * *", restartedAt="now")
    world.settle()
    assert len(world.runs) == 2


@pytest.mark.parametrize("nodes", [1, 2])
def test_the_plan_that_begins_a_run_says_what_it_waits_for(nodes: int) -> None:
    world = cluster(nodes=nodes)
    world.settle()
    world.bring(job(memory="1000GiB"))

    begun = world.plan()

    assert [type(step) for step in begun.steps] == [CreateRun]
    later = world.settle()
    assert (begun.waiting, begun.refused) == (later.waiting, later.refused)
    assert begun.waiting or begun.refused


def test_a_schedule_begins_one_run_for_each_time() -> None:
    world = cluster(job(schedule="0 * * * *"))
    world.created[ObjectKey("Job", "hpl")] = 1000.0
    world.now = 3599.0
    assert not world.settle().steps
    assert not world.runs
    for hour in (1, 2):
        world.now = hour * 3600.0 + 1
        world.settle()
        finish(world)
        world.settle()
        world.now += 60
        assert not world.plan().steps
    assert [run.scheduled_at for run in world.runs.values()] == [3600.0, 7200.0]


def test_a_time_that_comes_while_a_run_goes_on_is_left_out_or_replaces_it() -> None:
    for policy, begun in (("Forbid", 1), ("Replace", 2)):
        world = cluster(job(schedule="0 * * * *", concurrencyPolicy=policy))
        world.created[ObjectKey("Job", "hpl")] = 1000.0
        world.now = 3601.0
        world.settle()
        world.now = 7201.0
        world.settle()
        assert len(world.runs) == begun
        finish(world)
        world.settle()
        assert len(world.runs) == begun, "a time that was left out is not made up for"


def test_a_time_that_was_missed_for_longer_than_the_deadline_is_left_out() -> None:
    for late, begun in ((299.0, 1), (301.0, 0)):
        world = cluster(job(schedule="0 * * * *"))
        world.created[ObjectKey("Job", "hpl")] = 1000.0
        world.now = 3600.0 + late
        world.settle()
        assert len(world.runs) == begun


def test_no_attempt_starts_beside_what_an_earlier_one_has_left() -> None:
    world = cluster(job())
    world.settle()
    finish(world, code=1)
    for rank in list(world.ranks):
        world.report(rank, gone=Gone.NO, kept="process 7")
    world.settle()
    world.pass_time(world.now + 20)
    decided = world.settle()
    assert not ranks_of(world)
    assert WaitingFor.LEFTOVERS in {each.reason for each in decided.waiting}


def test_a_rank_that_was_merely_stopped_is_continued() -> None:
    world = cluster(job())
    world.settle()
    world.report(ranks_of(world)[0], stopped=True)
    world.settle()
    assert len(ranks_of(world)) == 2
    assert run_of(world).attempts == ()


def test_a_rank_that_never_starts_its_program_ends_the_attempt() -> None:
    world = cluster(job())
    world.first_phase = Phase.RENDEZVOUS
    world.settle()
    assert not world.plan().steps
    world.report(ranks_of(world)[0], silent_seconds=1000.0)
    world.settle()
    assert [each.end for each in run_of(world).attempts] == [AttemptEnd.RANK_FAILED]


def test_a_rank_of_which_its_node_knows_nothing_any_more_ends_the_attempt() -> None:
    world = cluster(job())
    world.settle()
    del world.ranks[ranks_of(world)[1]]
    world.settle()
    assert run_of(world).attempts[0].end is AttemptEnd.RANK_MISSING


def test_artifacts_are_fetched_once_and_files_stay_until_then() -> None:
    world = cluster(job(artifacts=["out"], ttlAfterFinished="0s"))
    world.settle()
    finish(world)
    decided = world.settle()
    assert len(world.done(FetchArtifacts)) == 1
    assert run_of(world).artifacts.state is Fetched.DONE
    order = [type(step) for step in world.history]
    assert order.index(FetchArtifacts) < order.index(ForgetRank)
    assert decided.settled


def test_logs_stay_until_the_time_is_over_and_the_record_of_the_last_run_for_longer() -> None:
    world = cluster(job(ttlAfterFinished="1h"))
    world.settle()
    finish(world)
    world.settle()
    assert not world.done(ForgetRank)
    world.now += 3601
    world.settle()
    assert [step.keep_record for step in world.done(ForgetRank)] == [True, True]
    world.lose_store()
    world.settle()
    assert len(world.done(StartRank)) == 2, "the record says that it has run"
    change(world, ttlAfterFinished="1h", env={"A": "1"})
    world.settle()
    finish(world)
    world.settle()
    world.now += 3601
    world.settle()
    assert {rank.replica for rank in world.ranks} == {2}
    assert world.plan().settled


def test_the_record_of_an_attempt_stays_although_the_next_one_never_started() -> None:
    world = cluster(job(ttlAfterFinished="1h"))
    world.settle()
    finish(world, code=1)
    world.settle()
    assert world.groups, "the next attempt has nodes, and waits for its back-off"
    change(world, ttlAfterFinished="1h", cancelledRun=1)
    world.settle()
    world.now += 3601
    world.settle()
    assert {rank.epoch for rank in world.ranks} == {1}
    assert world.plan().settled


def test_the_record_of_an_attempt_stays_although_many_later_ones_never_started() -> None:
    world = cluster(job())
    world.settle()
    finish(world, code=1)
    world.settle()
    for boot in "abcde":
        world.boots[NodeName("node-b")] = boot
        world.settle()
    assert len(run_of(world).attempts) > 3
    assert {rank.epoch for rank in world.ranks} == {1}


def test_a_store_of_an_earlier_moment_does_not_begin_the_same_run_again() -> None:
    world = cluster(job())
    world.act()
    kept = replace(world, runs={}, groups={}, last_epochs={}, attempts={})
    world.settle()
    finish(world)
    world.settle()
    world.lose_store(kept)
    world.settle()
    assert len(world.done(StartRank)) == 2
    ended = run_of(world).ended
    assert ended is not None
    assert ended.result is RunResult.SUCCEEDED


def test_everything_that_is_being_stopped_ends_the_attempt_and_the_run_goes_on_afterwards() -> None:
    world = cluster(job())
    world.settle()
    world.stopping = True
    world.settle()
    assert not world.alive()
    assert not world.agents
    world.stopping = False
    world.settle()
    assert len(ranks_of(world)) == 2
    assert len(world.done(EndAttempt)) == 1
