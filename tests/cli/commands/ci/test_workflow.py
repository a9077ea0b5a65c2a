"""The workflow that `ci init` writes: what forges accept, the least that it may do, and never over somebody's changes."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

from reconciler import __version__
from reconciler.cli.commands.ci.templates import FORGES, Origin, edited, workflow
from reconciler.cli.core.app import reconciler
from tests.cli.conftest import Cli

pytestmark = pytest.mark.processes

WHEEL = "tools/mlx_reconciler-1.2.3-py3-none-any.whl"
DIGEST = hashlib.sha256(b"a wheel").hexdigest()
ORIGIN = Origin(wheel=WHEEL, digest=DIGEST)
GOLDEN = Path(__file__).parent / "golden"
JOB_KEYS = {"runs-on", "container", "timeout-minutes", "env", "steps"}
STEP_KEYS = {"name", "uses", "with", "run", "env", "if", "timeout-minutes"}


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    folder = tmp_path / "clone"
    subprocess.run(["git", "init", "-q", str(folder)], check=True)
    (folder / "tools").mkdir()
    (folder / WHEEL).write_bytes(b"a wheel")
    (folder / "locked.txt").write_text("mlx-reconciler @ https://example.com/x.whl --hash=sha256:00\n")
    return folder


def job(forge: str) -> dict[str, Any]:
    body: dict[str, Any] = yaml.safe_load(workflow(forge, "1.2.3", ORIGIN))
    return dict(body["jobs"]["review"])


@pytest.mark.parametrize("forge", FORGES)
def test_it_is_as_it_was(forge: str) -> None:
    """UPDATE_GOLDEN=1 writes the files anew."""
    path = GOLDEN / f"{forge}.yaml"
    if os.environ.get("UPDATE_GOLDEN"):
        path.write_text(workflow(forge, "1.2.3", ORIGIN))
    assert workflow(forge, "1.2.3", ORIGIN) == path.read_text()


@pytest.mark.parametrize("forge", FORGES)
def test_forges_know_every_key_and_every_step_has_an_end(forge: str) -> None:
    body = yaml.load(workflow(forge, "1.2.3", ORIGIN), yaml.BaseLoader)  # "on" is a word there
    assert set(body) == {"name", "on", "permissions", "concurrency", "defaults", "jobs"}
    assert set(job(forge)) <= JOB_KEYS
    for step in job(forge)["steps"]:
        assert set(step) <= STEP_KEYS
        assert ("uses" in step) != ("run" in step)
        assert "uses" in step or step["timeout-minutes"] < job(forge)["timeout-minutes"]


@pytest.mark.parametrize("forge", FORGES)
def test_it_may_read_the_repository_and_write_a_comment_and_no_more(forge: str) -> None:
    body = yaml.load(workflow(forge, "1.2.3", ORIGIN), yaml.BaseLoader)
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
    first = cli("ci", "init", "github", "--wheel", WHEEL, "--dir", str(clone))
    assert first.out.splitlines()[0] == f"{path} written"
    assert "next: reconciler facts export -o" in first.out
    assert path.read_text() == workflow("github", __version__, ORIGIN)
    assert f"{path} unchanged" in cli("ci", "init", "github", "--wheel", WHEEL, "--dir", str(clone)).out


def test_that_of_an_older_version_is_updated(cli: Cli, clone: Path) -> None:
    path = clone / ".forgejo/workflows/reconciler.yaml"
    path.parent.mkdir(parents=True)
    path.write_text(workflow("forgejo", "0.0.1", ORIGIN))
    assert f"{path} updated" in cli("ci", "init", "forgejo", "--wheel", WHEEL, "--dir", str(clone)).out
    assert path.read_text() == workflow("forgejo", __version__, ORIGIN)


def test_changes_of_a_person_are_kept_unless_told_otherwise(cli: Cli, clone: Path) -> None:
    path = clone / ".github/workflows/reconciler.yaml"
    path.parent.mkdir(parents=True)
    text = workflow("github", __version__, ORIGIN).replace("timeout-minutes: 30", "timeout-minutes: 45")
    path.write_text(text)
    assert edited(text)
    refused = cli("ci", "init", "github", "--wheel", WHEEL, "--dir", str(clone))
    assert refused.code == 1
    assert f"{path} was edited; see what is new with --print, or replace it with --force" in refused.err
    assert path.read_text() == text
    assert cli("ci", "init", "github", "--wheel", WHEEL, "--dir", str(clone), "--force").code == 0
    assert path.read_text() == workflow("github", __version__, ORIGIN)


def test_print_writes_nothing(cli: Cli, clone: Path) -> None:
    assert cli("ci", "init", "github", "--wheel", WHEEL, "--dir", str(clone), "--print").out == workflow(
        "github", __version__, ORIGIN
    )
    assert not (clone / ".github").exists()


@pytest.mark.parametrize("folder", ["/etc", "../other", "a'b", "$(id)"])
def test_a_folder_that_is_not_in_the_repository_is_refused(cli: Cli, clone: Path, folder: str) -> None:
    refused = cli("ci", "init", "github", "--wheel", WHEEL, "--dir", str(clone), "--manifests", folder)
    assert refused.code == 1
    assert "expected a folder within the repository, such as clusters/home" in refused.err


def test_a_folder_without_a_repository_is_refused(cli: Cli, tmp_path: Path) -> None:
    refused = cli("ci", "init", "github", "--wheel", WHEEL, "--dir", str(tmp_path))
    assert refused.code == 1
    assert "is no clone of a repository" in refused.err


# --- where it gets the product from ----------------------------------------------------------------

URL = "https://example.com/mlx_reconciler-1.2.3-py3-none-any.whl"
INDEX = "https://packages.example.com/simple"
HASH = "ab" * 32


@pytest.mark.parametrize(
    ("given", "installs"),
    [
        (("--wheel", WHEEL), (f"cp {WHEEL} ", f'echo "{DIGEST}  $wheel" | sha256sum --check')),
        (("--wheel", WHEEL, "--hash", f"sha256:{DIGEST}"), (f'echo "{DIGEST}  $wheel"',)),
        (("--wheel", URL, "--hash", HASH), (URL, f'echo "{HASH}  $wheel" | sha256sum --check')),
        (
            ("--index-url", INDEX, "--hash", HASH),
            (f"--index-url {INDEX} -d", f"mlx-reconciler=={__version__}", f'echo "{HASH}  $wheel"'),
        ),
        (("--require-hashes", "locked.txt"), ("--require-hashes -r locked.txt",)),
    ],
)
def test_it_installs_from_where_it_was_told_and_checks_the_hash(
    cli: Cli, clone: Path, given: tuple[str, ...], installs: tuple[str, ...]
) -> None:
    made = cli("ci", "init", "github", "--dir", str(clone), *given)
    assert made.code == 0, made.err
    text = (clone / FORGES["github"].path).read_text()
    for part in installs:
        assert part in text
    for line in text.splitlines():
        if "pip" in line and "mlx-reconciler" in line:
            assert f"--index-url {INDEX}" in line, (
                "the name of the product is asked of an index that was named alone"
            )


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ((), "by one of: --wheel FILE|URL, --index-url URL, or --require-hashes FILE"),
        (("--wheel", WHEEL, "--index-url", INDEX), "by one of"),
        (("--wheel", "missing.whl"), "expected a file of the repository"),
        (("--wheel", "/etc/hostname"), "expected a file of the repository"),
        (("--wheel", "../clone/" + WHEEL), "expected a file of the repository"),
        (("--wheel", WHEEL, "--hash", HASH), f"the file has another one, {DIGEST}"),
        (("--wheel", URL), "give the hash of the wheel too: --hash"),
        (("--wheel", URL, "--hash", "md5:1"), "64 hexadecimal digits"),
        (("--wheel", "http://example.com/x.whl", "--hash", HASH), "begins with https://"),
        (("--index-url", INDEX), "give the hash of the wheel too"),
        (("--index-url", "https://x/'$(id)'", "--hash", HASH), "begins with https://"),
        (("--require-hashes", "tools"), "expected a file of the repository"),
    ],
)
def test_an_origin_that_somebody_else_could_fill_is_refused(
    cli: Cli, clone: Path, given: tuple[str, ...], says: str
) -> None:
    refused = cli("ci", "init", "github", "--dir", str(clone), *given)
    assert refused.code == 1
    assert says in refused.err
    assert not (clone / ".github").exists()


KEY = "-----BEGIN OPENSSH PRIVATE KEY-----"


@pytest.mark.parametrize("status", [0, 1])
@pytest.mark.parametrize("forge", FORGES)
def test_the_ssh_key_is_there_for_the_plan_alone(forge: str, status: int, tmp_path: Path) -> None:
    """The step runs as a forge runs it, with a `reconciler` that notes what it was given."""
    (step,) = [each for each in job(forge)["steps"] if "RECONCILER_SSH_KEY" in each.get("env", {})]
    assert step["name"] == "Plan"
    for name in ("bin", "home", "temp/review"):
        (tmp_path / name).mkdir(parents=True)
    double = tmp_path / "bin" / "reconciler"
    double.write_text(
        '#!/bin/bash\nset -- "$@"\nwhile [ $# -gt 0 ]; do\n'
        f'  if [ "$1" = --identity-file ]; then cp "$2" "{tmp_path}/seen"; stat -c %a "$2" > "{tmp_path}/mode"; fi\n'
        f"  shift\ndone\nexit {status}\n"
    )
    double.chmod(0o755)
    environment = {
        "HOME": str(tmp_path / "home"), "RUNNER_TEMP": str(tmp_path / "temp"), "MANIFESTS": ".",
        "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}", "RECONCILER_SSH": "ssh://me@cluster",
        "RECONCILER_KNOWN_HOSTS": "cluster ssh-ed25519 AAAA", "RECONCILER_SSH_KEY": KEY,
    }  # fmt: skip
    ran = subprocess.run(
        ["bash", "-eo", "pipefail", "-c", step["run"]], env=environment, timeout=30, check=False
    )
    assert ran.returncode == status
    assert (tmp_path / "seen").read_text() == f"{KEY}\n"
    assert (tmp_path / "mode").read_text() == "600\n"
    left = [path for name in ("home", "temp") for path in (tmp_path / name).rglob("*") if path.is_file()]
    assert [path for path in left if KEY in path.read_text()] == []
