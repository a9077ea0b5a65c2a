"""`source`: what is written, what is refused, and what is shown."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from reconciler.source.git.repository import ClusterRepo
from reconciler.wire.admin import Look, ShowSource
from tests.cli.conftest import Cli, Controller

URL = "https://git.example.com/team/cluster.git"
STATUS: dict[str, Any] = {
    "url": URL,
    "branch": "main",
    "path": "",
    "interval": 60.0,
    "revision": "1f0c2a9b3d" + "0" * 30,
    "looks": 4,
    "answeredAt": "2026-11-21T10:00:00.000Z",
    "awaySince": None,
    "conditions": [
        {"type": "Ready", "status": "True", "reason": "Following", "message": "main is at 1f0c2a9b3d"}
    ],
}


def test_setting_writes_the_file_and_makes_main_a_mirror_and_names_secrets_only(cli: Cli, home: Path) -> None:
    result = cli(
        "source", "set", URL, "--token-env", "CLUSTER_TOKEN", "--forge", "forgejo", "--interval", "2m"
    )
    assert (result.code, result.out) == (0, f"main follows main of {URL}, every 120 s\n")
    assert result.err == "note: no controller is running; it follows the repository when it starts\n"
    assert (home / "source.yaml").read_text() == (
        "apiVersion: reconciler/v1alpha1\nkind: GitRepository\nspec:\n"
        f"  url: {URL}\n  interval: 120s\n  secretRef:\n    token:\n      env: CLUSTER_TOKEN\n"
        "  forge:\n    type: forgejo\n    token:\n      env: CLUSTER_TOKEN\n"
    )
    assert ClusterRepo(home / "cluster.git").mirrored() == URL


def test_what_is_not_given_stays_as_it_was(cli: Cli, home: Path) -> None:
    cli(
        "source", "set", URL, "--path", "clusters/studio", "--token-env", "CLUSTER_TOKEN", "--forge", "github"
    )
    cli("source", "set", "--branch", "release", "--forge", "none")
    written = (home / "source.yaml").read_text()
    assert "branch: release" in written
    assert "path: clusters/studio" in written
    assert "forge" not in written
    assert ClusterRepo(home / "cluster.git").folder() == "clusters/studio"


def test_the_folder_stays_until_another_is_given(cli: Cli, home: Path) -> None:
    repo = ClusterRepo(home / "cluster.git")
    cli("source", "set", URL, "--path", "clusters/a")
    cli("source", "unset")
    assert repo.folder() == "clusters/a"
    cli("source", "set", URL)
    assert "Path:       clusters/a" in cli("source", "show").out
    assert repo.folder() == "clusters/a"
    cli("source", "set", "--path", "")
    assert "Path:" not in cli("source", "show").out
    assert repo.folder() == ""


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--branch", "x"), "no remote repository is set yet: begin with reconciler source set URL"),
        (("git@host:x",), "spec: a URL of SSH needs secretRef.ssh: {keyFile: PATH, knownHostsFile: PATH}"),
        (("https://me:pw@host/x",), "URL: not a URL such as"),
        ((URL, "--interval", "1s"), "--interval: expected a duration from 5s to 24h"),
        ((URL, "--forge", "github"), "spec.forge.token: required field is missing"),
    ],
)
def test_a_mistake_changes_nothing(words: tuple[str, ...], told: str, cli: Cli, home: Path) -> None:
    result = cli("source", "set", *words)
    assert result.code == 1
    assert told in result.err
    assert "pw@" not in result.err
    assert not (home / "source.yaml").exists()


def test_a_running_controller_is_told_at_once(cli: Cli, controller: Controller) -> None:
    assert cli("source", "set", URL).err == ""
    assert controller.received[-1] == Look("remote")
    assert cli("source", "unset").code == 0
    assert controller.received[-1] == Look("remote")


def test_showing_tells_settings_and_standing(cli: Cli, controller: Controller) -> None:
    assert "no remote repository is set: the truth is" in cli("source", "show").out
    cli("source", "set", URL)
    controller.answers["source"] = STATUS
    assert cli("source", "show").out.splitlines() == [
        f"URL:        {URL}",
        "Branch:     main",
        "Interval:   60 s",
        "Status:     Following: main is at 1f0c2a9b3d",
    ]
    body = json.loads(cli("source", "show", "-o", "json").out)
    assert body["status"] == STATUS
    assert body["spec"]["url"] == URL


def test_syncing_waits_for_the_next_look_and_fails_with_its_reason(cli: Cli, controller: Controller) -> None:
    def answer(message: ShowSource) -> dict[str, Any]:
        return {**STATUS, "looks": 4 + sum(isinstance(each, Look) for each in controller.received)}

    controller.answers["source"] = answer
    assert cli("source", "sync").out == f"{URL} is at 1f0c2a9b3d, and so is main\n"
    refused = {
        **STATUS["conditions"][0],
        "status": "False",
        "reason": "Refused",
        "message": "a.yaml:1:1: wrong",
    }
    controller.answers["source"] = lambda message: {**answer(message), "conditions": [refused]}
    result = cli("source", "sync")
    assert (result.code, result.err) == (1, "error: a.yaml:1:1: wrong\n")
    controller.answers["source"] = {}
    assert "no remote repository is set" in cli("source", "sync").err
