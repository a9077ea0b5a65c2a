"""What a pusher reads of a push, without a cluster."""

from __future__ import annotations

from reconciler.controller.admin.forecast import (
    COLUMNS,
    ENTRIES_SHOWN,
    Change,
    forecast,
    job_lines,
    removal_lines,
)
from reconciler.state import (
    JobName,
    NodeName,
    ObjectKey,
    Plan,
    Refusal,
    RefusedBecause,
    Waiting,
    WaitingFor,
)
from reconciler.state.desired import JobToRun

TINY, BIG = ObjectKey("ModelDeployment", "tiny"), ObjectKey("ModelDeployment", "big")
REVISION = "1f0c2a9b3d" * 4


def test_a_refused_removal_says_what_lets_it_through() -> None:
    assert "git push -o allow-removal" in " ".join(removal_lines([TINY]))


def test_the_command_that_lets_a_push_through_names_everything_and_can_be_copied() -> None:
    runs = [JobToRun(JobName(f"train-{n}"), ("python", "train.py"), (NodeName("a"),)) for n in range(9)]
    names = ", ".join(each.name for each in runs)
    commit, once = job_lines(runs)[-2:]
    assert commit == f"    in the commit: git commit --amend --no-edit --trailer 'Allow-Job: {names}'"
    assert once == "    or once: git push -o allow-job"
    commit, once = removal_lines([TINY, BIG])[-2:]
    assert commit.endswith("git commit --amend --no-edit --trailer 'Allow-Removal: tiny, big'")
    assert once.endswith("git push -o allow-removal")


def test_only_what_the_push_adds_to_the_plan_is_shown_and_lines_are_short() -> None:
    old = Refusal(BIG, RefusedBecause.MODEL_UNKNOWN, "it is known")
    new = Refusal(TINY, RefusedBecause.MODEL_UNKNOWN, "word " * 40)
    wait = Waiting(TINY, WaitingFor.BACK_OFF, "a moment", 112.0)
    change = Change((TINY,), (), ())
    lines = forecast(
        REVISION, change, (), (), Plan(refused=(old,)), Plan(refused=(old, new), waiting=(wait,)), 100.0
    )
    assert lines[0] == "reconciler: plan of 1f0c2a9: new modeldeployment/tiny"
    assert lines[-1] == "  ~ modeldeployment/tiny: a moment (for 12 s)"
    assert all(len(line) <= COLUMNS for line in lines)
    assert "it is known" not in "".join(lines)


def test_what_is_lacking_is_said_once() -> None:
    lacking = Refusal(TINY, RefusedBecause.NO_NODES, "needs 5 nodes, 2 can be used")
    said = (f"{TINY}: {lacking.text}",)
    lines = forecast(REVISION, Change((), (TINY,), ()), said, (), Plan(), Plan(refused=(lacking,)), 0.0)
    assert lines[1:] == ["  ! modeldeployment/tiny: needs 5 nodes, 2 can be used"]


def test_a_large_plan_is_a_few_lines() -> None:
    many = tuple(Refusal(ObjectKey("Node", f"n{i}"), RefusedBecause.MODEL_UNKNOWN, "no") for i in range(300))
    lines = forecast(REVISION, Change((), (), ()), (), (), Plan(), Plan(refused=many), 0.0)
    assert len(lines) == 1 + ENTRIES_SHOWN + 1
    assert lines[-1] == f"  and {300 - ENTRIES_SHOWN} more; after the push: reconciler plan"


def test_nothing_to_do_is_said() -> None:
    lines = forecast(REVISION, Change((), (), ()), (), (), Plan(), Plan(), 0.0)
    assert lines == ["reconciler: plan of 1f0c2a9: no object changes", "  nothing to do"]
