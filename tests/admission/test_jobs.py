"""Jobs that a revision could newly run: what counts as new, and who permits it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from reconciler.admission.jobs import ANY, new_jobs, runnable
from reconciler.admission.judge import Incoming, InForce, Live, judge
from reconciler.admission.removals import Removal, hold
from reconciler.resources import Manifest
from reconciler.state import NodeName
from reconciler.state.desired import JobToRun
from reconciler.state.identity import JobName, ObjectKey
from reconciler.state.operations import Operations
from tests.properties.test_sync_windows import by_key
from tests.worlds import job, node

COMMAND = ("python", "train.py")
OLD = job()


def allowing(name: str = "a", *paths: str, **allow: Any) -> Manifest:
    return node(name, jobs={"allow": {"paths": list(paths or ("jobs/*",)), **allow}})


def found(before: list[Manifest], after: list[Manifest], *said: str) -> list[str]:
    return [each.name for each in new_jobs(runnable(before), after, said)]


@pytest.mark.parametrize(
    "changed",
    [
        {"program": {"script": {"command": ["python", "other.py"]}}},
        {"files": [{"path": "jobs/train.py", "data": "Zm9v"}]},
        {"env": {"A": "1"}},
        {"secrets": {"A": {"env": "A"}}},
        {"schedule": "0 8 * * *"},
        {"restartedAt": "2026-11-21T10:00:00Z"},
    ],
)
def test_a_job_that_runs_something_else_or_at_other_times_is_new(changed: dict[str, Any]) -> None:
    assert found([OLD, allowing()], [job(**changed), allowing()]) == ["train"]


@pytest.mark.parametrize(
    "changed",
    [
        {"suspend": True},
        {"priority": 5},
        {"preempt": True},
        {"activeDeadline": "1h"},
        {"ttlAfterFinished": "1h"},
        {"cancelledRun": 3},
    ],
)
def test_other_changes_are_nothing_new(changed: dict[str, Any]) -> None:
    assert found([OLD, allowing()], [job(**changed), allowing()]) == []


def test_a_job_that_no_node_allows_runs_nothing_until_one_does() -> None:
    assert found([], [OLD, node("a")]) == []
    assert found([], [OLD, allowing("a", "other/*", "jobs/train")]) == []
    assert found([OLD, node("a")], [OLD, allowing()]) == ["train"]
    assert found([OLD, allowing("a", "other/*")], [OLD, allowing("a", "other/*", "jobs/*.yaml")]) == ["train"]


def test_another_node_is_nothing_new_and_another_user_is() -> None:
    before: list[Manifest] = [OLD, allowing("a", user="jobs")]
    assert found(before, [*before, allowing("b", user="jobs")]) == []
    assert found(before, [*before, allowing("b")]) == ["train"]
    assert found(before, [OLD, allowing("a")]) == ["train"]


def test_a_job_that_has_moved_to_another_allowed_path_is_nothing_new() -> None:
    assert found([OLD, allowing()], [job(manifestPath="jobs/later/train.yaml"), allowing()]) == []


@pytest.mark.parametrize(
    ("said", "left"),
    [
        ((), ["a", "b"]),
        (("run/a",), ["b"]),
        (("run/a", "run/b"), []),
        ((ANY,), []),
        (("a", "job/b", "*", "run/c"), ["a", "b"]),  # words for removals permit no job
    ],
)
def test_each_job_is_permitted_by_its_name_or_all_are(said: tuple[str, ...], left: list[str]) -> None:
    assert found([], [job("a"), job("b"), allowing()], *said) == left


def test_a_hold_says_which_job_runs_which_command_where_and_how_to_permit_it() -> None:
    runs = new_jobs((), [OLD, allowing("b"), allowing("a")], ())
    assert runs == (JobToRun(JobName("train"), COMMAND, (NodeName("a"), NodeName("b"))),)
    held = hold("1f0c2a9b3d", Removal((), 3, (), False), (), "r1", runs)
    assert held is not None
    assert held.text == (
        "revision 1f0c2a9b3d is held: it would run job/train (python train.py) on a, b, and no commit allows that"
        " (Allow-Job: train); to run the job: reconciler approve 1f0c2a9b3d"
    )
    assert hold("r2", Removal((), 3, (), False), {"r2"}, "r1", runs) is None
    several = hold("r2", Removal((), 3, (), False), (), "r1", (*runs, replace(runs[0], name=JobName("tune"))))
    assert several is not None
    assert "no commit allows that (Allow-Job: train, tune)" in several.text


def test_a_hold_for_both_names_both() -> None:
    keys = (ObjectKey("Node", "x"), ObjectKey("Node", "y"))
    runs = new_jobs((), [OLD, allowing()], ())
    held = hold("r2", Removal(keys, 2, (), True), (), "r1", runs)
    assert held is not None
    assert held.why == (
        "it would remove 2 of 2 objects (node/x, node/y); and it would run job/train (python train.py) on a, and no commit"
        " allows that (Allow-Job: train)"
    )
    assert "to remove them and run the job: reconciler approve r2" in held.text


def test_a_command_is_shown_on_one_line_with_a_bound() -> None:
    shown = str(JobToRun(JobName("x"), ("sh", "-c", "a\nb\x1b[31m" + "c" * 200), (NodeName("a"),)))
    assert shown.isprintable()
    assert len(shown) < 150


def test_the_revision_stays_out_until_it_is_approved_or_the_job_is_named() -> None:
    before = InForce.of("r1", by_key([node("a")]), {})
    live = Live("r1", before.manifests.keys())
    incoming = Incoming("r2", by_key([OLD, allowing()]))
    held = judge(before, incoming, Operations(), live, 0.0)
    assert held.hold is not None
    assert held.in_force == before
    for allowed in (
        judge(before, Incoming("r2", incoming.manifests, allowed=("run/train",)), Operations(), live, 0.0),
        judge(before, incoming, Operations(), Live("r1", live.objects, approved=("r2",)), 0.0),
        judge(None, incoming, Operations(), Live(), 0.0),  # the first revision of a cluster
    ):
        assert allowed.hold is None
        assert allowed.in_force is not None
        assert allowed.in_force.revision == "r2"
