"""The nodes of an attempt that has not started: it keeps them only as long as it would get them now."""

from __future__ import annotations

from typing import Any

import pytest

from reconciler.state import RunId, StartRank, StopRank, WaitingFor
from reconciler.state.job_steps import CreateRun
from reconciler.state.jobs import AttemptEnd
from tests.worlds import World, deployment, model, node, worker

from .test_runs import change, cluster, finish, job, ranks_of, run_of, tried_again


def placed_again(nodes: int = 4) -> World:
    """An attempt has failed, and the next one has nodes and waits for its back-off."""
    world = cluster(job(), nodes=nodes)
    world.settle()
    finish(world, code=1)
    world.settle()
    assert world.groups
    return world


@pytest.mark.parametrize(
    "closed",
    [
        node("node-a"),
        worker("node-a", unschedulable=True),
        worker("node-a", taints=[{"key": "fan", "effect": "NoSchedule"}]),
    ],
    ids=["denied", "cordoned", "tainted"],
)
def test_no_rank_starts_on_a_node_that_was_closed_while_its_attempt_waited(closed: Any) -> None:
    world = placed_again()
    world.manifests[0] = closed
    begun = len(world.done(StartRank))
    tried_again(world)
    assert {step.node for step in world.done(StartRank)[begun:]} == {"node-b", "node-c"}
    assert run_of(world).failures == 1


def test_a_change_of_the_placement_reaches_an_attempt_that_waits() -> None:
    world = placed_again()
    world.manifests[2:4] = [worker(name, labels={"fast": "yes"}) for name in ("node-c", "node-d")]
    change(world, placement={"nodeSelector": {"fast": "yes"}})
    tried_again(world)
    assert sorted(world.ranks[rank][0] for rank in ranks_of(world)) == ["node-c", "node-d"]


def test_a_node_that_denies_jobs_ends_the_attempt_which_does_not_count_and_moves() -> None:
    world = cluster(job(backoffLimit=0), nodes=3)
    world.settle()
    world.manifests[0] = node("node-a")
    world.settle()
    assert [each.end for each in run_of(world).attempts] == [AttemptEnd.DRAINED]
    assert sorted(world.ranks[rank][0] for rank in ranks_of(world)) == ["node-b", "node-c"]


def test_a_cordon_leaves_a_rank_that_runs_alone() -> None:
    world = cluster(job(), nodes=3)
    world.settle()
    world.manifests[0] = worker("node-a", unschedulable=True)
    assert not world.plan().steps


def test_an_attempt_is_placed_anew_if_its_node_has_less_memory_for_ranks_than_before() -> None:
    world = placed_again(nodes=2)
    world.manifests[:2] = [worker(name, memory={"reserve": "20GiB"}) for name in ("node-a", "node-b")]
    tried_again(world)
    assert len(ranks_of(world)) == 2


@pytest.mark.parametrize(
    "change_of", [{"preempt": False}, {"priority": 0}], ids=lambda spec: next(iter(spec))
)
def test_a_job_that_may_preempt_no_longer_gives_up_the_nodes_that_it_waits_for(
    change_of: dict[str, Any],
) -> None:
    spec: dict[str, Any] = {"priority": 10, "preempt": True}
    world = World([worker("node-a"), worker("node-b"), model(), deployment(nodes=2, preemptible=True)])
    world.settle()
    served = world.alive()
    world.manifests.append(job(**spec))
    (begun,) = [step for step in world.plan().steps if isinstance(step, CreateRun)]
    world.obey(begun)
    change(world, **{**spec, **change_of})
    decided = world.settle()
    assert world.alive() == served
    assert not any(isinstance(each, RunId) for each in world.groups)
    assert WaitingFor.ROOM in {each.reason for each in decided.waiting}
    world.manifests += [worker("node-c"), worker("node-d")]
    world.settle()
    assert sorted(world.ranks[rank][0] for rank in ranks_of(world)) == ["node-c", "node-d"]
    assert set(served) < set(world.alive())


def test_a_job_waits_for_a_deployment_that_is_deleted_while_it_leaves() -> None:
    serving = deployment(nodes=2, preemptible=True)
    world = World([worker("node-a"), worker("node-b"), model(), serving])
    world.settle()
    world.lingers = True
    world.manifests.append(job(priority=10, preempt=True))
    world.settle()
    world.remove(serving)
    world.settle()
    assert run_of(world).attempts == ()
    world.pass_time(world.now + 60)
    world.settle()
    assert len(ranks_of(world)) == 2
    assert run_of(world).attempts == ()


def test_a_job_takes_no_more_from_deployments_than_it_needs_and_spares_the_highest_priority() -> None:
    for spared, priorities in (("one", (5, 0)), ("two", (0, 5)), ("one", (0, 0))):
        world = World([
            *(worker(f"node-{letter}") for letter in "abc"),
            model(),
            *(
                deployment(name, nodes=1, preemptible=True, priority=priority)
                for name, priority in zip(("one", "two"), priorities, strict=True)
            ),
        ])  # fmt: skip
        world.settle()
        world.manifests.append(job(priority=10, preempt=True))
        world.settle()
        assert len(ranks_of(world)) == 2
        assert {step.id.deployment for step in world.done(StopRank)} == {"one", "two"} - {spared}
