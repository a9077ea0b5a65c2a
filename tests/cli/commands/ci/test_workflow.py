"""The workflow that `ci init` writes: what forges accept, the least that it may do, and never over somebody's changes."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

from reconciler import __version__
from reconciler.cli.commands.ci.templates import FORGES, edited, workflow
from reconciler.cli.core.app import reconciler
from tests.cli.conftest import Cli

GOLDEN = Path(__file__).parent / "golden"
JOB_KEYS = {"runs-on", "container", "timeout-minutes", "env", "steps"}
STEP_KEYS = {"name", "uses", "with", "run", "env", "if", "timeout-minutes"}


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    folder = tmp_path / "clone"
    subprocess.run(["git", "init", "-q", str(folder)], check=True)
    return folder


def job(forge: str) -> dict[str, Any]:
    body: dict[str, Any] = yaml.safe_load(workflow(forge, "1.2.3"))
    return dict(body["jobs"]["review"])


@pytest.mark.parametrize("forge", FORGES)
def test_it_is_as_it_was(forge: str) -> None:
    """UPDATE_GOLDEN=1 writes the files anew."""
    path = GOLDEN / f"{forge}.yaml"
    if os.environ.get("UPDATE_GOLDEN"):
        path.write_text(workflow(forge, "1.2.3"))
    assert workflow(forge, "1.2.3") == path.read_text()


@pytest.mark.parametrize("forge", FORGES)
def test_forges_know_every_key_and_every_step_has_an_end(forge: str) -> None:
    body = yaml.load(workflow(forge, "1.2.3"), yaml.BaseLoader)  # "on" is a word there
    assert set(body) == {"name", "on", "permissions", "concurrency", "defaults", "jobs"}
    assert set(job(forge)) <= JOB_KEYS
    for step in job(forge)["steps"]:
        assert set(step) <= STEP_KEYS
        assert ("uses" in step) != ("run" in step)
        assert "uses" in step or step["timeout-minutes"] < job(forge)["timeout-minutes"]


@pytest.mark.parametrize("forge", FORGES)
def test_it_may_read_the_repository_and_write_a_comment_and_no_more(forge: str) -> None:
    body = yaml.load(workflow(forge, "1.2.3"), yaml.BaseLoader)
    assert body["permissions"] == {"contents": "read", "pull-requests": "write"}
    assert list(body["on"]) == ["pull_request"], "pull_request_target would give secrets to forks"
    actions = [step["uses"] for step in job(forge)["steps"] if "uses" in step]
    assert all(re.fullmatch(r"actions/checkout@[0-9a-f]{40}", action) for action in actions)


@pytest.mark.parametrize("forge", FORGES)
def test_what_others_have_chosen_is_never_part_of_a_script(forge: str) -> None:
    """An expression in a script is text before bash sees it: a branch's name could be a command."""
    assert [step for step in job(forge)["steps"] if "${{" in step.get("run", "")] == []


@pytest.mark.parametrize("forge", FORGES)
def test_every_command_in_it_exists_with_its_options(forge: str) -> None:
    scripts = " ".join(step.get("run", "").replace("\\\n", " ") for step in job(forge)["steps"])
    found = re.findall(r"(?m)(?:^|;|run: )\s*reconciler (?:--context \S+ )?([^|\n]+)", scripts)
    assert len(found) >= 5
    for words in (line.split() for line in found):
        command: click.Command = reconciler
        context = click.Context(reconciler)
        while isinstance(command, click.Group):
            inner = command.get_command(context, words.pop(0))
            assert inner is not None, words
            command = inner
        options = {name for param in command.params for name in param.opts}
        assert {word for word in words if word.startswith("-")} <= options


def test_it_is_written_once_and_again_changes_nothing(cli: Cli, clone: Path) -> None:
    path = clone / ".github/workflows/reconciler.yaml"
    first = cli("ci", "init", "github", "--dir", str(clone))
    assert first.out.splitlines()[0] == f"{path} written"
    assert "next: reconciler facts export -o" in first.out
    assert path.read_text() == workflow("github", __version__)
    assert f"{path} unchanged" in cli("ci", "init", "github", "--dir", str(clone)).out


def test_that_of_an_older_version_is_updated(cli: Cli, clone: Path) -> None:
    path = clone / ".forgejo/workflows/reconciler.yaml"
    path.parent.mkdir(parents=True)
    path.write_text(workflow("forgejo", "0.0.1"))
    assert f"{path} updated" in cli("ci", "init", "forgejo", "--dir", str(clone)).out
    assert f"mlx-reconciler[runtime]=={__version__}" in path.read_text()


def test_changes_of_a_person_are_kept_unless_told_otherwise(cli: Cli, clone: Path) -> None:
    path = clone / ".github/workflows/reconciler.yaml"
    path.parent.mkdir(parents=True)
    text = workflow("github", __version__).replace("timeout-minutes: 30", "timeout-minutes: 45")
    path.write_text(text)
    assert edited(text)
    refused = cli("ci", "init", "github", "--dir", str(clone))
    assert refused.code == 1
    assert f"{path} was edited; see what is new with --print, or replace it with --force" in refused.err
    assert path.read_text() == text
    assert cli("ci", "init", "github", "--dir", str(clone), "--force").code == 0
    assert path.read_text() == workflow("github", __version__)


def test_print_writes_nothing(cli: Cli, clone: Path) -> None:
    assert cli("ci", "init", "github", "--dir", str(clone), "--print").out == workflow("github", __version__)
    assert not (clone / ".github").exists()


@pytest.mark.parametrize("folder", ["/etc", "../other", "a'b", "$(id)"])
def test_a_folder_that_is_not_in_the_repository_is_refused(cli: Cli, clone: Path, folder: str) -> None:
    refused = cli("ci", "init", "github", "--dir", str(clone), "--manifests", folder)
    assert refused.code == 1
    assert "expected a folder within the repository, such as clusters/home" in refused.err


def test_a_folder_without_a_repository_is_refused(cli: Cli, tmp_path: Path) -> None:
    refused = cli("ci", "init", "github", "--dir", str(tmp_path))
    assert refused.code == 1
    assert "is no clone of a repository" in refused.err
