"""`suspend`, `resume`, `undo`, and `scale` for a while: operations that hide what main says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from reconciler.resources import ModelDeployment
from reconciler.source.git.process import run_git
from reconciler.source.git.repository import IN_FORCE, KEPT, MIRROR, ClusterRepo
from reconciler.source.kept import text_of
from reconciler.source.operating.writing import in_force
from reconciler.state.identity import ObjectKey
from tests.cli.conftest import Cli, Controller

from .test_writing import committed, head, log, operations, subjects, template, watched

pytestmark = pytest.mark.processes

__all__ = ["committed", "template", "watched"]


def mirror(home: Path) -> None:
    run_git((f"--git-dir={home / 'cluster.git'}", "config", MIRROR, "https://example.org/hub.git"))


def test_a_suspended_object_keeps_the_manifest_that_is_in_force(cli: Cli, committed: Path) -> None:
    assert (
        cli("suspend", "tiny", "-m", "a demonstration").out == "modeldeployment.reconciler/tiny suspended\n"
    )
    kept = operations(committed)["suspend.modeldeployment.tiny"]["manifest"]
    assert (kept["kind"], kept["metadata"]["name"]) == ("ModelDeployment", "tiny")
    assert cli("scale", "tiny", "--replicas=3").code == 0
    assert cli("suspend", "tiny").out == "modeldeployment.reconciler/tiny already suspended\n"
    assert operations(committed)["suspend.modeldeployment.tiny"]["manifest"] == kept
    assert cli("resume", "tiny").out == "modeldeployment.reconciler/tiny resumed\n"
    assert log(committed) == [
        "Resume modeldeployment/tiny",
        "Suspend modeldeployment/tiny: a demonstration",
    ]


def test_the_whole_cluster_is_suspended_and_resumed(cli: Cli, committed: Path) -> None:
    assert cli("suspend", "--all", "--for=8h").out == "cluster.reconciler/main suspended\n"
    assert "until" in operations(committed)["suspend.cluster.main"]
    assert cli("resume", "--all").out == "cluster.reconciler/main resumed\n"
    assert operations(committed) == {}


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (
            ("suspend", "gateway/main"),
            "gateway/main cannot be suspended alone, only a modeldeployment, model, node, job can",
        ),
        (("suspend", "deployment/big"), 'modeldeployments "big" not found'),
        (("resume", "tiny"), "modeldeployment/tiny is not suspended"),
        (("undo", "cordon.node.x"), "no operation cordon.node.x is in force; known: there are none"),
    ],
)
def test_what_cannot_be_suspended_or_undone_is_refused(
    arguments: tuple[str, ...], text: str, cli: Cli, committed: Path
) -> None:
    result = cli(*arguments)
    assert (result.code, result.out, log(committed)) == (1, "", [])
    assert text in result.err


def test_scaling_for_a_while_leaves_main_and_scaling_for_good_ends_it(cli: Cli, committed: Path) -> None:
    before = head(committed)
    cli("scale", "tiny", "--replicas=3", "--for=2h", "--reason", "many visitors")
    made = operations(committed)["scale.modeldeployment.tiny"]
    assert (made["replicas"], made["reason"], head(committed)) == (3, "many visitors", before)
    refused = cli("scale", "tiny", "--replicas=4", "--current-replicas=1", "--for=1h")
    assert "expected replicas of tiny to be 1, was 3" in refused.err
    assert (
        cli("undo", "scale.modeldeployment.tiny").out
        == "operation.reconciler/scale.modeldeployment.tiny undone\n"
    )
    cli("scale", "tiny", "--replicas=3", "--for=2h")
    for_good = cli("scale", "tiny", "--replicas=2")
    assert "note: the operation scale.modeldeployment.tiny was undone by this\n" in for_good.err
    assert operations(committed) == {}
    assert subjects(committed)[0] == "Scale modeldeployment/tiny to 2"


def test_beside_a_mirror_everything_is_an_operation_and_wishes_are_refused(cli: Cli, committed: Path) -> None:
    mirror(committed)
    before = head(committed)
    scaled = cli("scale", "tiny", "--replicas=2")
    assert scaled.code == 0
    assert "to undo it: reconciler undo scale.modeldeployment.tiny\n" in scaled.err
    assert cli("cordon", "node-a").code == 0
    refused = cli("delete", "deployment", "tiny")
    assert refused.code == 1
    assert "main is a mirror: the truth is at https://example.org/hub.git" in refused.err
    assert sorted(operations(committed)) == ["cordon.node.node-a", "scale.modeldeployment.tiny"]
    assert cli("uncordon", "node-a").code == 0
    assert head(committed) == before


def test_changes_are_paused_for_a_while_beside_main_and_resuming_ends_that(cli: Cli, committed: Path) -> None:
    before = head(committed)
    paused = cli("rollout", "pause", "tiny", "--for=8h", "--reason", "the fair")
    assert paused.out == "modeldeployment.reconciler/tiny paused\n"
    assert operations(committed)["pause.modeldeployment.tiny"]["reason"] == "the fair"
    resumed = cli("rollout", "resume", "tiny")
    assert resumed.out == "modeldeployment.reconciler/tiny resumed\n"
    assert "note: the operation pause.modeldeployment.tiny was undone by this\n" in resumed.err
    assert (operations(committed), head(committed)) == ({}, before)


def test_beside_a_mirror_changes_are_paused_and_resumed_by_operations(cli: Cli, committed: Path) -> None:
    mirror(committed)
    before = head(committed)
    paused = cli("rollout", "pause", "tiny")
    assert paused.out == "modeldeployment.reconciler/tiny paused\n"
    assert "to undo it: reconciler undo pause.modeldeployment.tiny\n" in paused.err
    assert list(operations(committed)) == ["pause.modeldeployment.tiny"]
    assert cli("rollout", "resume", "tiny").out == "modeldeployment.reconciler/tiny resumed\n"
    assert cli("rollout", "resume", "tiny").out == "modeldeployment.reconciler/tiny unchanged\n"
    assert (operations(committed), head(committed)) == ({}, before)


def test_beside_a_mirror_that_says_that_changes_wait_resuming_stands_over_it(
    cli: Cli, committed: Path
) -> None:
    cli("rollout", "pause", "tiny")
    mirror(committed)
    resumed = cli("rollout", "resume", "tiny", "-m", "it was too long")
    assert resumed.out == "modeldeployment.reconciler/tiny resumed\n"
    assert "to undo it: reconciler undo resume.modeldeployment.tiny\n" in resumed.err
    assert list(operations(committed)) == ["resume.modeldeployment.tiny"]
    assert cli("rollout", "pause", "tiny").code == 0
    assert list(operations(committed)) == ["pause.modeldeployment.tiny"]
    assert cli("undo", "pause.modeldeployment.tiny").code == 0
    assert operations(committed) == {}


def test_operations_are_listed_with_what_has_become_of_them(cli: Cli, watched: Controller) -> None:
    operation: dict[str, Any] = {
        "apiVersion": "reconciler/v1alpha1",
        "kind": "Operation",
        "metadata": {"name": "scale.modeldeployment.tiny", "labels": {}},
        "spec": {
            "verb": "scale", "target": {"kind": "ModelDeployment", "name": "tiny"}, "replicas": 3, "reason": "visitors",
            "by": "Ada <ada@example.org>", "at": "2026-11-21T10:00:00Z",
        },
        "status": {"standing": "InForce"},
    }  # fmt: skip
    watched.answers["get"] = {"revision": "x", "version": "1", "items": [operation]}
    title, row = cli("get", "operations").out.splitlines()
    assert title.split() == ["TARGET", "OPERATION", "BY", "AGE", "UNTIL", "REASON", "STATUS"]
    cells = row.split("   ")
    assert [cells[0].strip(), "scale 3" in row, "visitors" in row] == ["modeldeployment/tiny", True, True]
    assert cli("get", "ops", "-o", "name").out == "operation/scale.modeldeployment.tiny\n"
    at_rest = watched.answers["status"](None)
    watched.answers["status"] = {**at_rest, "operationsInForce": 2}
    line = cli("plan").out.splitlines()[0]
    assert (
        line == "= cluster/main: differs from git by 2 operations; list them with: reconciler get operations"
    )


def test_of_an_object_whose_change_a_window_holds_the_manifest_that_stays_is_kept(
    cli: Cli, committed: Path
) -> None:
    repo = ClusterRepo(committed / "cluster.git")
    stays = in_force(repo)["ModelDeployment", "tiny"]
    assert cli("scale", "tiny", "--replicas=3").code == 0
    held = {ObjectKey("ModelDeployment", "tiny"): stays, ObjectKey("Node", "node-b"): None}
    repo.keep({IN_FORCE: head(committed), KEPT: text_of(head(committed), held)})
    assert 'nodes "node-b" not found' in cli("suspend", "node/node-b").err
    assert cli("suspend", "tiny").code == 0
    kept = operations(committed)["suspend.modeldeployment.tiny"]["manifest"]
    assert ModelDeployment.model_validate_json(json.dumps(kept)) == stays
