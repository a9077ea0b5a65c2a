"""The times of scheduled runs: which of many is due, and what a change of the job means for them."""

from __future__ import annotations

from typing import Any

import pytest

from reconciler.state import ObjectKey, StartRank
from reconciler.state.job_steps import CreateRun
from reconciler.state.jobs import RunReason
from tests.worlds import World, worker

from .test_runs import change, cluster, finish, job, ranks_of, run_of, tried_again

HOURLY: dict[str, Any] = {"schedule": "0 * * * *"}
OTHER: dict[str, Any] = {**HOURLY, "env": {"SIZE": "2"}}


def begun(nodes: int = 2) -> World:
    """The first run of a job has begun at one o'clock."""
    world = cluster(job(**HOURLY), nodes=nodes)
    world.created[ObjectKey("Job", "hpl")] = 1000.0
    world.now = 3601.0
    world.settle()
    return world


@pytest.mark.parametrize("policy", ["Forbid", "Replace"])
def test_of_many_times_that_were_missed_the_newest_is_due_and_no_other(policy: str) -> None:
    every_minute: dict[str, Any] = {
        "schedule": "* * * * *",
        "concurrencyPolicy": policy,
        "startingDeadline": "48h",
    }
    world = cluster(job(**every_minute))
    world.created[ObjectKey("Job", "hpl")] = 0.0
    world.now = 48 * 3600 - 30.0
    world.settle()
    assert [run.scheduled_at for run in world.runs.values()] == [48 * 3600 - 60.0]


def test_an_attempt_that_runs_goes_on_when_its_job_is_changed_and_the_next_run_is_of_the_new_spec() -> None:
    world = begun()
    change(world, **OTHER)
    assert not world.plan().steps
    finish(world)
    world.settle()
    assert len(world.runs) == 1
    world.now = 7201.0
    world.settle()
    assert [run.fingerprint for run in world.runs.values()] == [
        step.spec.group for step in world.done(StartRank)[::2]
    ]
    assert [step.spec.config.job.env for step in world.done(StartRank)[::2] if step.spec.config.job] == [
        {},
        {"SIZE": "2"},
    ]


def test_no_attempt_of_a_run_has_another_spec_than_the_run() -> None:
    world = begun()
    finish(world, code=1)
    world.settle()
    change(world, **OTHER)
    tried_again(world)
    ended = run_of(world).ended
    assert ended is not None
    assert ended.reason is RunReason.REPLACED
    assert not ranks_of(world)
    assert len(world.runs) == 1, "the next run is that of the next time"


def test_a_run_that_waits_for_nodes_is_begun_anew_if_its_job_is_changed() -> None:
    world = begun(nodes=1)
    assert not ranks_of(world)
    change(world, **OTHER)
    world.now += 2000
    world.settle()
    world.manifests.append(worker("node-b"))
    world.settle()
    assert len(ranks_of(world)) == 2
    assert [step.run.scheduled_at for step in world.done(CreateRun)] == [3600.0, 3600.0]
    assert {step.spec.group for step in world.done(StartRank)} == {run_of(world, 2).fingerprint}


def test_a_time_that_came_beside_a_run_that_was_changed_is_left_out() -> None:
    world = begun(nodes=2)
    finish(world, code=1)
    world.settle()
    world.now = 7201.0
    change(world, **OTHER)
    world.settle()
    world.settle()
    assert run_of(world).ended is not None
    assert len(world.runs) == 1
