"""`init`, `validate`, `apply` and `diff` on a real repository, with and without a controller."""

from __future__ import annotations

import json
import subprocess
import threading
from functools import partial
from pathlib import Path

import pytest

from tests.cli.conftest import MANIFESTS, Cli, Controller

ROOT = Path(__file__).parents[4]


def git(home: Path, *arguments: str) -> str:
    return subprocess.run(
        ["git", f"--git-dir={home / 'cluster.git'}", *arguments], check=True, capture_output=True, text=True
    ).stdout


def test_init_makes_a_repository_and_says_where_to_push(cli: Cli, home: Path) -> None:
    result = cli("init")
    assert result.code == 0
    assert f"git remote add cluster {home}/cluster.git" in result.out
    assert home.stat().st_mode & 0o777 == 0o700
    assert cli("init").code == 0


def test_validate_needs_no_home_and_makes_none(cli: Cli, home: Path) -> None:
    result = cli("validate", "-f", MANIFESTS)
    assert (result.code, len(result.out.splitlines())) == (0, 5)
    assert "modeldeployment.reconciler/tiny valid" in result.out
    assert not home.exists()


BROKEN = """\
apiVersion: reconciler/v1alpha1
kind: ModelDeployment
metadata: {name: tiny}
spec: {model: tinny}
---
apiVersion: reconciler/v1alpha1
kind: Model
metadata: {name: tiny}
spec: {source: {path: tiny}}
"""
MISSING = 'there is no Model "tinny"; did you mean "tiny"?'


def test_validate_tells_problems_as_data_on_standard_output(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(BROKEN)
    result = cli("validate", "-f", "a.yaml", "--references", "-o", "json")
    assert (result.code, result.err) == (1, "")
    body = json.loads(result.out)
    assert body["valid"] is False
    assert body["problems"] == [
        {"file": "a.yaml", "line": 4, "column": 15, "field": "spec.model", "message": MISSING}
    ]
    valid = json.loads(cli("validate", "-f", MANIFESTS, "-o", "json").out)
    assert (valid["valid"], valid["problems"], len(valid["objects"])) == (True, [], 5)


def test_validate_writes_annotations_and_sarif(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "a,b.yaml").write_text(BROKEN)
    github = cli("validate", "-f", "a,b.yaml", "--references", "-o", "github")
    assert (github.code, github.out) == (1, f"::error file=a%2Cb.yaml,line=4,col=15::spec.model: {MISSING}\n")
    sarif = json.loads(cli("validate", "-f", "a,b.yaml", "--references", "-o", "sarif").out)
    (result,) = sarif["runs"][0]["results"]
    place = result["locations"][0]["physicalLocation"]
    assert sarif["version"] == "2.1.0"
    assert place["artifactLocation"]["uri"] == "a,b.yaml"
    assert place["region"] == {"startLine": 4, "startColumn": 15}


def test_names_must_exist_where_the_manifests_are_a_whole_cluster(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(BROKEN)
    assert cli("validate", "-f", "a.yaml").code == 0, "a part may name what another part has"
    node = "apiVersion: reconciler/v1alpha1\nkind: Node\nmetadata: {name: a}\nspec: {local: {}}\n"
    (tmp_path / "b.yaml").write_text(node)
    assert MISSING in cli("validate", "-f", "a.yaml", "-f", "b.yaml").err
    assert cli("validate", "-f", "a.yaml", "-f", "b.yaml", "--no-references").code == 0


def test_manifests_may_come_from_standard_input(cli: Cli) -> None:
    text = (ROOT / "manifests" / "gateway.yaml").read_text()
    assert cli("validate", "-f", "-", stdin=text).out == "gateway.reconciler/main valid\n"


def test_apply_says_created_then_unchanged_then_configured(cli: Cli, home: Path, tmp_path: Path) -> None:
    created = cli("apply", "-f", MANIFESTS)
    assert created.out.splitlines() == [
        "gateway.reconciler/main created",
        "node.reconciler/node-a created",
        "node.reconciler/node-b created",
        "model.reconciler/tiny created",
        "modeldeployment.reconciler/tiny created",
    ]
    assert created.err == "note: the controller is not running; start it with: reconciler up\n"

    again = cli("apply", "-f", MANIFESTS)
    assert {line.split()[-1] for line in again.out.splitlines()} == {"unchanged"}

    edited = tmp_path / "tiny.yaml"
    edited.write_text((ROOT / "manifests" / "tiny.yaml").read_text().replace("replicas: 1", "replicas: 2"))
    assert cli("apply", "-f", str(edited)).out.splitlines() == [
        "model.reconciler/tiny unchanged",
        "modeldeployment.reconciler/tiny configured",
    ]
    assert len(git(home, "log", "--format=%H", "main").splitlines()) == 2


def test_the_commit_says_what_it_is_about(cli: Cli, home: Path) -> None:
    cli("apply", "-f", str(ROOT / "manifests" / "tiny.yaml"))
    assert git(home, "log", "--format=%s", "main") == "Apply model/tiny, modeldeployment/tiny\n"


def test_the_commits_message_may_be_given(cli: Cli, home: Path) -> None:
    cli("apply", "-f", MANIFESTS, "-m", "Bring up the lab")
    assert git(home, "log", "--format=%s", "main") == "Bring up the lab\n"


def test_looking_ahead_makes_nothing(cli: Cli, home: Path) -> None:
    preview = cli("apply", "-f", MANIFESTS, "--dry-run")
    assert preview.out.splitlines()[0] == "gateway.reconciler/main created (dry run)"
    assert cli("diff", "-f", MANIFESTS).code == 1
    assert not home.exists()


def test_diff_shows_the_lines_that_an_apply_would_change(cli: Cli, tmp_path: Path) -> None:
    cli("apply", "-f", MANIFESTS)
    assert cli("diff", "-f", MANIFESTS).out == ""
    edited = tmp_path / "tiny.yaml"
    edited.write_text((ROOT / "manifests" / "tiny.yaml").read_text().replace("replicas: 1", "replicas: 2"))
    result = cli("diff", "-f", str(edited))
    assert result.code == 1
    changed = [line for line in result.out.splitlines() if line[0] in "+-" and line[:3] not in ("+++", "---")]
    assert changed == ["-  replicas: 1", "+  replicas: 2"]
    (entry,) = json.loads(cli("diff", "-f", str(edited), "-o", "json").out)
    assert (entry["kind"], entry["name"], entry["action"]) == ("ModelDeployment", "tiny", "configured")


def test_apply_tells_what_it_did_as_json(cli: Cli) -> None:
    body = json.loads(cli("apply", "-f", MANIFESTS, "-o", "json").out)
    assert len(body["revision"]) == 40
    assert body["objects"][0] == {"kind": "Gateway", "name": "main", "action": "created"}


@pytest.mark.parametrize("command", ["apply", "diff"])
def test_the_repository_is_not_for_a_controller_that_watches_a_folder(
    command: str, cli: Cli, controller: Controller
) -> None:
    controller.answers["status"]["source"] = "directory /home/me/manifests"
    result = cli(command, "-f", MANIFESTS)
    assert result.code == (2 if command == "diff" else 1)
    assert "reads directory /home/me/manifests: edit the files there" in result.err


def test_two_applies_at_once_both_land(home: Path, cli: Cli, tmp_path: Path) -> None:
    from reconciler.cli.core.app import Settings
    from reconciler.cli.core.commits import change, prepare
    from reconciler.cli.core.given import load_paths
    from reconciler.source.editing import apply_documents

    repo = prepare(Settings(home))
    files = []
    for number in range(4):
        path = tmp_path / f"node-{number}.yaml"
        path.write_text(
            "apiVersion: reconciler/v1alpha1\nkind: Node\n"
            f"metadata:\n  name: node-{number}\nspec:\n  local: {{}}\n"
        )
        files.append(path)
    edits = [partial(apply_documents, incoming=load_paths((str(path),))) for path in files]
    threads = [threading.Thread(target=change, args=(repo, edit, "Apply")) for edit in edits]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert {line.split()[-1] for line in cli("apply", "-f", str(tmp_path)).out.splitlines()} == {"unchanged"}


def test_apply_warns_of_what_no_manifest_has_yet(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "tiny.yaml").write_text((ROOT / "manifests" / "tiny.yaml").read_text())
    (tmp_path / "early.yaml").write_text(
        "apiVersion: reconciler/v1alpha1\nkind: ModelDeployment\nmetadata: {name: early}\n"
        "spec: {model: llama, placement: {nodeSelector: {pool: x}}}\n"
    )
    assert cli("apply", "-f", MANIFESTS).err.count("warning") == 0
    result = cli("apply", "-f", str(tmp_path / "early.yaml"), "--dry-run")
    assert result.code == 0
    assert result.err.splitlines()[:2] == [
        'warning: modeldeployment/early: model "llama" does not exist; add a Model of this name or correct spec.model',
        "warning: modeldeployment/early: needs 1 node, and none has the labels pool=x; label a Node or correct"
        " placement.nodeSelector",
    ]
    assert "warning" not in cli("apply", "-f", str(tmp_path / "tiny.yaml")).err
