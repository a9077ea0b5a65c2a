"""Runs that are over: how long the store remembers them, and what stays of them on nodes."""

from __future__ import annotations

from typing import Any

import pytest

from reconciler.planning.jobs import runs
from reconciler.state import ObjectKey
from reconciler.state.job_steps import CreateRun, FetchArtifacts
from reconciler.state.jobs import Fetched
from tests.worlds import World, worker

from .test_runs import change, cluster, finish, job, run_of


def scheduled(world: World, minutes: int) -> None:
    """Let a job run and succeed in each of so many minutes."""
    for _ in range(minutes):
        world.now += 60
        world.settle()
        finish(world)
        world.settle()


def test_old_runs_leave_the_store_and_the_nodes_together_and_do_not_come_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(runs, "RUNS_KEPT", 3)
    world = cluster(job(schedule="* * * * *", ttlAfterFinished="168h"))
    world.created[ObjectKey("Job", "hpl")] = world.now
    scheduled(world, minutes=6)
    assert [run.index for run in world.runs] == [4, 5, 6]
    assert {rank.replica for rank in world.ranks} == {4, 5, 6}
    assert len(world.done(CreateRun)) == 6


def test_a_run_that_the_store_no_longer_has_is_forgotten_by_a_node_that_comes_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(runs, "RUNS_KEPT", 2)
    world = cluster(job(schedule="* * * * *"))
    world.created[ObjectKey("Job", "hpl")] = world.now
    scheduled(world, minutes=1)
    kept = {rank: seen for rank, seen in world.ranks.items() if seen[0] == "node-b"}
    scheduled(world, minutes=3)
    assert [run.index for run in world.runs] == [3, 4]
    world.ranks |= kept
    world.settle()
    assert [run.index for run in world.runs] == [3, 4]
    assert {rank.replica for rank in world.ranks} == {3, 4}
    scheduled(world, minutes=1)
    assert [run.index for run in world.runs] == [4, 5]


def test_the_record_of_the_last_run_with_ranks_stays_although_a_later_run_had_none() -> None:
    world = cluster(job(ttlAfterFinished="1h"))
    world.settle()
    finish(world)
    world.settle()
    world.manifests[0] = worker("node-a", drain=True)
    other: dict[str, Any] = {"ttlAfterFinished": "1h", "env": {"SIZE": "2"}}
    change(world, **other)
    world.settle()
    change(world, **other, cancelledRun=2)
    world.settle()
    assert run_of(world, 2).attempts == ()
    world.now += 3601
    world.settle()
    assert {rank.replica for rank in world.ranks} == {1}
    assert world.plan().settled


def test_artifacts_of_a_job_that_is_deleted_are_fetched_and_then_its_files_go() -> None:
    world = cluster(job(artifacts=["out"]))
    world.settle()
    finish(world)
    while run_of(world).ended is None:
        world.act()
    assert run_of(world).artifacts.state is Fetched.PENDING
    world.remove(world.manifests[-1])
    world.settle()
    assert run_of(world).artifacts.state is Fetched.DONE
    assert not world.ranks


def test_artifacts_come_from_the_last_attempt_that_had_ranks() -> None:
    spec: dict[str, Any] = {"artifacts": ["out"]}
    world = cluster(job(**spec))
    world.settle()
    finish(world, code=1)
    world.settle()
    change(world, **spec, cancelledRun=1)
    world.settle()
    assert len(run_of(world).attempts) == 2, "the second one waited for its back-off"
    assert [step.epoch for step in world.done(FetchArtifacts)] == [1]
