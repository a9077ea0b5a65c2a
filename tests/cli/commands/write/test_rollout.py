"""`rollout`: kubectl's words on a real repository, and what a controller says of a deployment."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from reconciler.wire.objects import Condition
from tests.cli import bodies
from tests.cli.conftest import Cli, Controller

from .test_manifests import git
from .test_writing import changed_lines, committed, head, log, operations, subjects, template, watched

pytestmark = pytest.mark.processes

__all__ = ["committed", "template", "watched"]

TINY = ("deployment/tiny",)


def status_with(conditions: list[Condition], generation: int = 1, **status: Any) -> Any:
    item = bodies.deployment(**status)
    item["metadata"]["generation"] = generation
    item["status"]["conditions"] = conditions
    return item


def answer_with(controller: Controller, *items: dict[str, Any]) -> None:
    """One answer after the other, the last one again and again."""
    left = list(items)
    controller.answers["get"] = lambda _: {
        "revision": "x",
        "items": [left.pop(0) if len(left) > 1 else left[0]],
    }


# --- status ----------------------------------------------------------------------------------------


def test_a_rollout_is_waited_for_in_kubectls_words(cli: Cli, watched: Controller) -> None:
    loading = bodies.conditions(False, "tiny/0: rank 1 is loading (25 %)")
    answer_with(
        watched,
        status_with(loading, generation=2),
        status_with(loading, readyReplicas=0),
        status_with(bodies.conditions()),
    )
    result = cli("rollout", "status", *TINY)
    assert (result.code, result.err) == (0, "")
    assert result.out.splitlines() == [
        "Waiting for deployment spec update to be observed...",
        'Waiting for deployment "tiny" rollout to finish: 0 of 1 updated replicas are available...'
        " (tiny/0: rank 1 is loading (25 %))",
        'deployment "tiny" successfully rolled out',
    ]


def test_what_still_goes_on_is_waited_for_although_the_old_group_serves(
    cli: Cli, watched: Controller
) -> None:
    leaving = bodies.conditions()
    leaving[1] |= {"status": "True", "message": "waiting for the end of rank 0 of epoch 1 on node-a"}
    answer_with(watched, status_with(leaving))
    result = cli("rollout", "status", *TINY, "--no-watch")
    assert result.out == (
        'Waiting for deployment "tiny" rollout to finish: waiting for the end of rank 0 of epoch 1 on node-a\n'
    )


def test_a_cluster_that_was_stopped_is_what_a_rollout_waits_for(cli: Cli, watched: Controller) -> None:
    stopped = bodies.conditions(False, "everything is stopped by request")
    stopped[0]["reason"] = "StoppedByRequest"
    stopped[1] |= {"status": "False", "message": ""}
    answer_with(watched, status_with(stopped, readyReplicas=0))
    assert cli("rollout", "status", *TINY, "--no-watch").out == (
        'Waiting for deployment "tiny" rollout to finish: 0 of 1 updated replicas are available...'
        " (everything is stopped by request)\n"
    )


def test_a_commit_that_is_not_read_yet_is_waited_for(cli: Cli, watched: Controller, home: Path) -> None:
    answer, before = watched.answers["status"], watched.answers["status"](None)
    assert cli("rollout", "restart", *TINY).code == 0
    left = [before] * 4
    watched.answers["status"] = lambda _: left.pop() if left else answer(None)
    answer_with(watched, status_with(bodies.conditions()))
    assert cli("rollout", "status", *TINY).out.splitlines() == [
        "Waiting for deployment spec update to be observed...",
        'deployment "tiny" successfully rolled out',
    ]


@pytest.mark.parametrize("part", ["held", "rejection"])
def test_a_newest_revision_that_is_kept_out_is_an_error(
    part: str, cli: Cli, watched: Controller, home: Path
) -> None:
    at_rest = watched.answers["status"](None)
    held = {"revision": head(home), "text": "revision x is held: approve it"}
    kept = {"held": held} if part == "held" else {"rejection": "a.yaml:1:1: wrong"}
    watched.answers["status"] = {**at_rest, "revision": "empty", **kept}
    result = cli("rollout", "status", *TINY)
    assert result.code == 1
    assert ("is held: approve it" if part == "held" else "a.yaml:1:1: wrong") in result.err


@pytest.mark.parametrize(
    ("item", "text"),
    [
        (
            status_with(bodies.conditions(False, "0 of 1", stalled="needs 3 nodes, 2 can be used")),
            'deployment "tiny" cannot be rolled out: needs 3 nodes, 2 can be used',
        ),
        (
            status_with(bodies.conditions(False, "starting")),
            "timed out after 0.3 s: Waiting for deployment",
        ),
    ],
)
def test_a_rollout_that_cannot_be_is_an_error(
    item: dict[str, Any], text: str, cli: Cli, watched: Controller
) -> None:
    answer_with(watched, item)
    result = cli("rollout", "status", *TINY, "--timeout=300ms")
    assert result.code == 1
    assert text in result.err


def test_a_deployment_that_is_not_there_or_leaving_is_an_error(cli: Cli, watched: Controller) -> None:
    watched.answers["get"] = {"revision": "x", "items": []}
    assert 'modeldeployments "tiny" not found' in cli("rollout", "status", *TINY).err
    leaving = status_with(bodies.conditions())
    leaving["metadata"]["deletionTimestamp"] = bodies.ago()
    answer_with(watched, leaving)
    assert 'deployment "tiny" is being removed' in cli("rollout", "status", *TINY).err
    assert "node/node-a has no rollout; only modeldeployments do" in cli("rollout", "status", "no/node-a").err


def test_a_watched_folder_has_no_commits_to_wait_for(cli: Cli, watched: Controller) -> None:
    watched.answers["status"] = {
        **watched.answers["status"](None),
        "source": "directory /x",
        "revision": "dir-1",
    }
    answer_with(watched, status_with(bodies.conditions()))
    assert cli("rollout", "status", *TINY).code == 0


# --- pause, resume ---------------------------------------------------------------------------------


def test_changes_are_paused_and_go_on_by_commits(cli: Cli, committed: Path) -> None:
    assert cli("rollout", "pause", *TINY).out == "modeldeployment.reconciler/tiny paused\n"
    assert changed_lines(committed) == ["+  paused: true"]
    assert cli("rollout", "pause", *TINY).out == "modeldeployment.reconciler/tiny unchanged\n"
    assert cli("rollout", "resume", *TINY).out == "modeldeployment.reconciler/tiny resumed\n"
    assert changed_lines(committed) == ["-  paused: true", "+  paused: false"]
    assert subjects(committed)[:2] == ["Resume modeldeployment/tiny", "Pause modeldeployment/tiny"]


def test_only_deployments_have_rollouts_to_pause(cli: Cli, committed: Path) -> None:
    assert "node/node-a cannot be paused" in cli("rollout", "pause", "no/node-a").err


def test_a_rollout_in_progress_says_how_far_it_is(cli: Cli, watched: Controller) -> None:
    waits = "tiny/0: serving.maxBatch 16 → 4: it is replaced later"
    answer_with(
        watched,
        status_with(bodies.conditions(False, waits), replicas=2, readyReplicas=2, updatedReplicas=1),
        status_with(bodies.conditions()),
    )
    assert "1 out of 2 new replicas have been updated; " in cli("rollout", "status", *TINY).out


# --- restart ---------------------------------------------------------------------------------------


def test_a_restart_is_an_operation_at_its_time(cli: Cli, committed: Path) -> None:
    assert cli("rollout", "restart", *TINY).out == "modeldeployment.reconciler/tiny restarted\n"
    first = operations(committed)["restart.modeldeployment.tiny"]["at"]
    assert first.startswith("20")
    assert first.endswith("Z")
    assert cli("rollout", "restart", "deployments", "--all", "--reason", "again").code == 0
    assert operations(committed)["restart.modeldeployment.tiny"]["at"] > first
    assert log(committed) == ["Restart modeldeployment/tiny: again", "Restart modeldeployment/tiny"]


def test_only_deployments_are_restarted(cli: Cli, committed: Path) -> None:
    assert (
        "node/node-a cannot be restarted; this works for modeldeployments only"
        in cli("rollout", "restart", "no/node-a").err
    )
    assert 'modeldeployments "big" not found' in cli("rollout", "restart", "deployment/big").err
    assert log(committed) == []


# --- undo, history ---------------------------------------------------------------------------------


def test_undo_reverts_the_newest_commit_of_the_object(cli: Cli, committed: Path) -> None:
    cli("scale", *TINY, "--replicas=3")
    scaled = head(committed)
    cli("cordon", "node-a")
    result = cli("rollout", "undo", *TINY)
    assert (result.code, result.out) == (0, "modeldeployment.reconciler/tiny rolled back\n")
    assert changed_lines(committed) == ["-  replicas: 3", "+  replicas: 1"]
    message = git(committed, "log", "-1", "--format=%B", "main")
    assert message.startswith('Revert "Scale modeldeployment/tiny to 3"\n\n')
    assert f"This reverts commit {scaled}." in message


def test_undo_goes_to_a_revision(cli: Cli, committed: Path) -> None:
    first = head(committed)
    for count in (2, 3):
        cli("scale", *TINY, f"--replicas={count}")
    assert cli("rollout", "undo", *TINY, f"--to-revision={first[:8]}", "--dry-run").out == (
        "modeldeployment.reconciler/tiny rolled back (dry run)\n"
    )
    assert cli("rollout", "undo", *TINY, f"--to-revision={first[:8]}").code == 0
    assert changed_lines(committed) == ["-  replicas: 3", "+  replicas: 1"]
    assert cli("rollout", "undo", *TINY, f"--to-revision={first}").out == (
        "modeldeployment.reconciler/tiny skipped rollback\n"
    )
    assert "is not a revision of main" in cli("rollout", "undo", *TINY, "--to-revision=ffff").err


def test_undo_says_what_it_leaves_alone_and_what_it_cannot_do(cli: Cli, committed: Path) -> None:
    result = cli("rollout", "undo", *TINY)
    assert result.code == 1
    assert "modeldeployment/tiny was created by" in result.err
    cli("scale", "deployment/tiny", "--replicas=2")
    text = git(committed, "show", "main:tiny.yaml").replace("replicas: 2", "replicas: 3")
    assert cli("apply", "-f", "-", stdin=text.replace("path: tiny", "path: other")).code == 0
    assert "also changed model/tiny, which stays" in cli("rollout", "undo", *TINY).err
    assert "path: other" in git(committed, "show", "main:tiny.yaml")


def test_a_deleted_deployment_comes_back(cli: Cli, committed: Path) -> None:
    before = git(committed, "show", "main:tiny.yaml")
    cli("delete", *TINY)
    assert cli("rollout", "undo", *TINY).out == "modeldeployment.reconciler/tiny rolled back\n"
    assert git(committed, "show", "main:tiny.yaml") == before


def test_the_history_lists_the_commits_of_an_object(cli: Cli, committed: Path) -> None:
    cli("scale", *TINY, "--replicas=2")
    cli("cordon", "node-a")
    lines = cli("rollout", "history", *TINY).out.splitlines()
    assert lines[0] == "modeldeployment.reconciler/tiny"
    assert lines[1].split() == ["REVISION", "TIME", "AUTHOR", "CHANGE"]
    assert [line.rpartition("   ")[2] for line in lines[2:]] == [
        "Start the cluster",
        "Scale modeldeployment/tiny to 2",
    ]
    entries = json.loads(cli("rollout", "history", *TINY, "-o", "json").out)
    assert set(entries[0]) == {"revision", "time", "author", "subject"}
    text = cli("rollout", "history", *TINY, f"--revision={entries[0]['revision'][:7]}").out
    assert "  replicas: 1\n" in text
    assert 'modeldeployments "big" not found' in cli("rollout", "history", "deployment/big").err


@pytest.mark.parametrize("command", ["status", "restart", "undo", "history"])
def test_every_command_has_help_with_an_example(command: str, cli: Cli) -> None:
    result = cli("rollout", command, "--help")
    assert result.code == 0
    assert f"reconciler rollout {command}" in result.out.split("Example", 1)[1]
