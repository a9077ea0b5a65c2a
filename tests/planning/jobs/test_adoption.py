"""Runs that a controller without its store finds on nodes: none begins again, and none that goes on is disturbed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from reconciler.planning.context.lost_nodes import LOST_AFTER_SECONDS
from reconciler.planning.jobs.history import History
from reconciler.state import (
    AdoptGroup,
    Contact,
    JobName,
    NodeName,
    NodeObservation,
    RunId,
    StartRank,
    StopRank,
    Waiting,
    WaitingFor,
)
from reconciler.state.jobs import Run, RunReason, RunResult
from reconciler.state.memory import Write
from reconciler.wire.launch import RankId
from tests.worlds import World, deployment, job, model, worker

RUN = RunId(JobName("hpl"), 1)


def started(**spec: Any) -> World:
    world = World([worker("node-a"), worker("node-b"), job("hpl", nodes=2, **spec)])
    world.settle()
    return world


def ranks(world: World) -> list[RankId]:
    return [rank for rank in world.alive() if rank.deployment == "job_hpl"]


def fail(world: World, times: int) -> None:
    for _ in range(times):
        if not ranks(world):
            world.pass_time(world.now + 400)
            world.settle()
        for rank in ranks(world):
            world.end_rank(rank, code=1)
        world.settle()


def found(world: World) -> Run:
    """Lose the store, and return what becomes of the run."""
    world.lose_store()
    world.settle()
    world.pass_time(world.now + 400)
    world.settle()
    return world.runs[RUN]


def test_a_run_that_has_failed_too_often_does_not_begin_again() -> None:
    world = started(backoffLimit=1)
    fail(world, 2)
    begun = len(world.done(StartRank))
    run = found(world)
    assert len(world.done(StartRank)) == begun
    assert run.failures == 2
    assert run.ended is not None
    assert run.ended.reason is RunReason.BACKOFF_LIMIT


@pytest.mark.parametrize("written", [["node-a"], ["node-b"], ["node-a", "node-b"]])
def test_a_run_that_a_store_does_not_know_is_waited_for_until_its_nodes_are_seen_again(
    written: list[str],
) -> None:
    world = started()
    for rank in ranks(world):
        world.end_rank(rank, code=0)
    world.settle()
    world.lose_store()
    world.writes = {NodeName(name): Write(world.link, world.sequence + 1) for name in written}
    plan = world.plan()
    assert not plan.steps
    assert [each.reason for each in plan.waiting] == [WaitingFor.OBSERVATION]
    world.sequence += 1
    world.settle()
    assert world.runs[RUN].ended is not None


def test_a_run_that_a_store_does_not_know_is_waited_for_until_a_node_that_does_not_answer_is_lost() -> None:
    world = started()
    for rank in ranks(world):
        world.end_rank(rank, code=0)
    world.settle()
    world.lose_store()
    world.lose("node-b")
    since = world.now
    plan = world.plan()
    assert not plan.steps
    text = f"{RUN}: no answer from node-b"
    awaited = Waiting(RUN.key, WaitingFor.AGENT, text, since + LOST_AFTER_SECONDS, RUN)
    assert [each for each in plan.waiting if each.object == RUN.key] == [awaited]


def test_a_run_that_may_be_tried_again_is_and_no_more_often_than_that() -> None:
    world = started(backoffLimit=2)
    fail(world, 2)
    world.lose_store()
    world.settle()
    fail(world, 1)
    run = world.runs[RUN]
    assert run.failures == 3
    assert run.ended is not None
    assert max(rank.epoch for rank in world.ranks) == 3


def test_a_run_that_has_lost_nodes_twice_does_not_begin_again() -> None:
    world = started()
    for boot in ("second", "third"):
        rank = ranks(world)[1]
        world.boots[NodeName("node-b")] = boot
        world.end_rank(rank, signal=9)
        world.settle()
    begun = len(world.done(StartRank))
    run = found(world)
    assert len(world.done(StartRank)) == begun
    assert run.ended is not None
    assert run.ended.reason is RunReason.NODE_LOSS


def test_the_time_limit_counts_from_the_first_attempt() -> None:
    world = started(activeDeadline="1h")
    first = world.runs[RUN].started_at
    world.now += 1000
    fail(world, 1)
    world.pass_time(world.now + 20)
    world.settle()
    world.lose_store()
    world.settle()
    assert world.runs[RUN].started_at == first


def test_an_attempt_is_adopted_whose_group_alone_the_store_has_lost() -> None:
    world = started()
    kept = ranks(world)
    world.groups.clear()
    world.settle()
    assert not world.done(StopRank)
    assert len(world.done(AdoptGroup)) == 1
    assert ranks(world) == kept
    for rank in kept:
        world.end_rank(rank, code=0)
    world.settle()
    ended = world.runs[RUN].ended
    assert ended is not None
    assert ended.reason is RunReason.COMPLETED


def test_a_group_whose_run_the_store_has_lost_keeps_its_nodes_for_it() -> None:
    for begun in (False, True):
        world = started() if begun else World([worker("node-a"), worker("node-b"), job("hpl", nodes=2)])
        while RUN not in world.groups:
            world.act()
        kept = world.groups[RUN]
        world.runs.clear()
        world.settle()
        assert world.groups[RUN] == kept
        assert set(world.runs) == {RUN}
        assert len(ranks(world)) == 2
        assert not world.done(StopRank)


def test_a_run_that_another_store_has_begun_anew_does_not_run_beside_that() -> None:
    world = started()
    older = replace(world, runs=dict(world.runs), groups={}, last_epochs={}, attempts={})
    for rank in list(world.ranks):
        del world.ranks[rank]
    world.groups.clear()
    twin = replace(world.runs.pop(RUN), id=RunId(RUN.job, 2))
    world.runs[twin.id] = twin
    world.last_epochs.clear()
    world.settle()
    kept = ranks(world)
    assert {rank.replica for rank in kept} == {2}
    world.lose_store(older)
    world.settle()
    assert ranks(world) == kept
    ended = world.runs[RUN].ended
    assert ended is not None
    assert ended.reason is RunReason.REPLACED


def test_a_replica_whose_record_is_lost_waits_for_the_job_that_has_its_nodes() -> None:
    serving = deployment(nodes=2, preemptible=True)
    world = World([worker("node-a"), worker("node-b"), model(), serving])
    world.settle()
    world.bring(job("hpl", nodes=2, preempt=True, priority=10))
    world.settle()
    assert len(ranks(world)) == 2
    world.groups.pop(world.replica(), None)
    world.last_epochs.pop(world.replica())
    decided = world.settle()
    assert not decided.refused
    assert [each.reason for each in decided.waiting if each.object.kind == "ModelDeployment"] == [
        WaitingFor.ROOM
    ]


def test_nodes_that_have_not_answered_yet_may_know_the_other_ranks_of_an_attempt() -> None:
    world = started()
    kept = ranks(world)
    world.lose_store()
    name = NodeName("node-b")
    world.lost[name] = NodeObservation(name, Contact.UNKNOWN, world.now, 0, None, "")
    decided = world.settle()
    assert not world.done(StopRank)
    assert WaitingFor.AGENT in {each.reason for each in decided.waiting}
    assert not world.runs
    world.find(name)
    world.settle()
    assert ranks(world) == kept
    assert world.groups[RUN].members == (NodeName("node-a"), name)


def test_a_node_that_is_lost_with_a_record_of_a_run_does_not_hold_up_its_job() -> None:
    world = started()
    for rank in ranks(world):
        world.end_rank(rank, code=0)
    world.settle()
    world.lose_store()
    world.lose("node-b")
    world.now += 31
    world.settle()
    assert world.runs[RUN].ended is not None


@pytest.mark.parametrize(("code", "result"), [(0, RunResult.SUCCEEDED), (1, RunResult.FAILED)])
def test_a_run_is_not_run_again_because_a_node_with_one_of_its_records_is_gone(
    code: int, result: RunResult
) -> None:
    world = started(backoffLimit=0)
    for rank in ranks(world):
        world.end_rank(rank, code=code)
    world.settle()
    begun = len(world.done(StartRank))
    world.lose("node-b")
    world.lose_store()
    world.now += 100
    world.settle()
    world.find("node-b")
    world.settle()
    ended = world.runs[RUN].ended
    assert ended is not None
    assert ended.result is result
    assert len(world.done(StartRank)) == begun


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"started_at": "soon"}', '{"started_at": 1, "boots": 2}', "null"]
)
def test_what_nodes_report_instead_of_a_history_is_none(text: str) -> None:
    assert History.parse(text) is None


def test_a_history_is_read_as_it_was_written() -> None:
    history = History(5.0, 4.0, 1.5, 2, 1, ("first", "second"))
    assert History.parse(history.written) == history
