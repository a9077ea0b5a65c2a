"""Each rule about jobs notices where the product breaks it: a bug is planted for each."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest

from reconciler.planning.context.decision import NOTHING
from reconciler.planning.context.memory_ledger import Ledger
from reconciler.planning.jobs import adopt, ladder, place, retention, runs, schedule
from reconciler.planning.jobs import verdict as verdicts
from reconciler.planning.jobs.history import History
from reconciler.planning.jobs.view import RunView
from reconciler.state import ForgetRank, JobName, NodeName, ReplicaId, RunId, WorkloadId
from reconciler.state.jobs import AttemptEnd, Run
from tests.simulation.schedules.acts import lose_store, nothing
from tests.simulation.schedules.jobs import EVERY_MINUTE, JOB_SCENARIOS, train, workers
from tests.simulation.schedules.play import listening
from tests.simulation.schedules.points import Points
from tests.simulation.schedules.scenarios import GIB, PAIR, THREE, Scenario, big, small
from tests.simulation.world.programs import Program

from .up import kept

RUN = RunId(JobName("train"), 1)


def told(scenario: Scenario, words: str, seconds: float = 60.0) -> bool:
    """Whether a rule is broken in a story, before it is over."""
    with listening():
        world = kept(scenario.world(Points()))
        world.run(seconds)
    return any(words in text for text in world.oracles.violations)


def not_well(scenario: Scenario) -> str:
    """What a story has left undone."""
    world = kept(scenario.world(Points()))
    world.run(40.0)
    return world.oracles.jobs.missing()


def test_a_run_that_begins_again_after_it_has_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    lost = replace(JOB_SCENARIOS["job"], acts=((20, lose_store), (40, nothing)))
    assert not told(lost, "")
    monkeypatch.setattr(adopt, "unknown", lambda world, name: [])
    monkeypatch.setattr(adopt, "group", lambda world, run, seen: None)
    assert told(lost, "was started, and job/train/1 had ended (Completed)")


def test_a_run_that_goes_on_after_it_has_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    lost = replace(JOB_SCENARIOS["job-fails"], acts=((30, lose_store), (50, nothing)))
    monkeypatch.setattr(History, "parse", classmethod(lambda cls, text: None))
    assert told(lost, "was started, and job/train/1 had ended (BackoffLimitExceeded)")


def test_a_second_run_for_one_time(monkeypatch: pytest.MonkeyPatch) -> None:
    def due(world: Any, job: Any, known: Any) -> float | None:
        return found(world, job, ())

    found = schedule.due
    monkeypatch.setattr(schedule, "due", due)
    manifests = workers(small(1), train(**EVERY_MINUTE))
    over = workers(small(1), train(**EVERY_MINUTE, suspend=True))
    story = Scenario(
        "twice",
        manifests,
        ((95, lambda world: world.commit(over)),),
        names=THREE,
        programs={"train": Program(3.0)},
    )
    assert told(story, "was for the same time", 100.0)


def test_an_attempt_that_is_ended_for_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def leaving(view: RunView) -> ladder.Leave | None:
        long = view.run.started_at is not None and view.world.now - view.run.started_at > 70
        return ladder.Leave(AttemptEnd.DRAINED, "it seems so") if long and view.alive else None

    monkeypatch.setattr(ladder, "leaving", leaving)
    story = replace(JOB_SCENARIOS["job"], programs={"train": Program(90.0)})
    assert told(story, "was asked to end, and its attempt was well", 80.0)


def test_a_deployment_that_is_not_preemptible_and_makes_room(monkeypatch: pytest.MonkeyPatch) -> None:
    def all_of_them(view: RunView, job: Any) -> frozenset[ReplicaId]:
        return frozenset(id for id in view.world.memory.groups if isinstance(id, ReplicaId))

    def preempting(view: Any) -> Any:
        return claims(replace(view, target=replace(view.target, deployment=_preemptible(view.deployment))))

    from reconciler.planning.jobs import preemption

    claims = preemption._claims
    monkeypatch.setattr(place, "preemptible", all_of_them)
    monkeypatch.setattr(preemption, "_claims", preempting)
    manifests = workers(big(), nodes=PAIR)
    later = workers(big(), train(priority=10, preempt=True), nodes=PAIR)
    story = Scenario("taken", manifests, ((80, lambda world: world.commit(later)),), names=PAIR)
    assert told(story, "was asked to end, and its group was well", 100.0)


def _preemptible(deployment: Any) -> Any:
    return deployment.model_copy(update={"spec": deployment.spec.model_copy(update={"preemptible": True})})


def test_two_workloads_on_one_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    def plenty(ledger: Ledger, names: Iterable[NodeName], replacing: WorkloadId) -> dict[str, int]:
        return {ledger.hosts[name]: 2**60 for name in names}

    monkeypatch.setattr(Ledger, "free_by_host", plenty)
    monkeypatch.setattr(Ledger, "overcommitted", lambda ledger, name: False)
    story = replace(JOB_SCENARIOS["job-shares"], memory_bytes=16 * GIB)
    assert told(story, "is charged")


def test_a_rank_beside_one_that_has_its_machine_to_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(place, "_unused", lambda ledger, name, view: True)
    story = replace(JOB_SCENARIOS["job"], manifests=workers(small(3), train()))
    assert told(story, "has it to itself")


def test_more_attempts_than_the_limit_allows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ladder, "verdict", lambda job, run: None)
    monkeypatch.setattr(ladder, "leaving", lambda view: None)
    story = replace(
        JOB_SCENARIOS["job-fails"], manifests=workers(small(1), train(backoffLimit=0, memory="1GiB"))
    )
    assert told(story, "has failed 2 times, and spec.backoffLimit is 0")


def test_a_run_that_loses_nodes_again_and_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verdicts, "NODE_LOSSES_MAX", 9)
    assert told(JOB_SCENARIOS["job-loses-nodes"], "has lost nodes 3 times")


def test_a_new_attempt_beside_an_old_one(monkeypatch: pytest.MonkeyPatch) -> None:
    def left(view: RunView, leave: ladder.Leave) -> Any:
        return ladder._end_attempt(view, leave) if view.record is not None else NOTHING

    without = tuple(rule for rule in ladder.LADDER if rule.judge is not ladder._older_ranks)
    monkeypatch.setattr(ladder, "LADDER", without)
    monkeypatch.setattr(ladder, "_leave", left)
    shared = train(memory="1GiB")
    drained = workers(small(1), shared, b=True)
    story = Scenario(
        "beside",
        workers(small(1), shared),
        ((6, lambda world: world.commit(drained)),),
        names=THREE,
        programs={"train": Program(30.0, stubborn=True)},
    )
    assert told(story, "was started on")


def test_the_last_record_of_a_job_that_is_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    def whole(*about: Any, keep_record: bool = False) -> Any:
        return ForgetRank(*about)

    monkeypatch.setattr(retention, "ForgetRank", whole)
    story = replace(
        JOB_SCENARIOS["job"],
        manifests=workers(small(1), train(ttlAfterFinished="70s")),
        acts=((90, nothing),),
    )
    assert told(story, "and nothing newer of job/train is known", 100.0)


def test_a_run_that_never_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ladder, "_completed", lambda view: None)
    without = tuple(rule for rule in ladder.LADDER if rule.reason != ladder.LADDER[4].reason)
    monkeypatch.setattr(ladder, "LADDER", without)
    assert not_well(JOB_SCENARIOS["job"]) == "job/train/1 has not ended"


def test_a_job_that_never_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs, "_next", lambda taken, name, known: NOTHING)
    assert not_well(JOB_SCENARIOS["job"]) == "job/train has not run"


def test_ranks_that_wait_for_others_without_end() -> None:
    world = JOB_SCENARIOS["job"].world(Points())
    kept(world)
    world.run(1.8)
    rank = world.rank("job_train", 1, 0)
    assert rank is not None
    rank.later(2.0, rank.report, "rendezvous")
    world.loop.call_later(2.5, world.oracles.jobs._check_together, (RUN, 1))
    world.run(3.0)
    assert any("has waited for the others" in text for text in world.oracles.violations)


def test_a_run_that_has_ended_and_keeps_its_nodes() -> None:
    world = JOB_SCENARIOS["job"].world(Points())
    kept(world)
    world.run(20.0)
    (run,) = world.stored.runs().values()
    assert isinstance(run, Run)
    world.oracles.jobs._groups = {}
    found = world.stored.groups
    world.stored.groups = lambda: {**found(), RUN: ("a",)}  # type: ignore[method-assign, dict-item]
    world.oracles.jobs.stored("put_run")
    assert any("has ended, and has nodes" in text for text in world.oracles.violations)
