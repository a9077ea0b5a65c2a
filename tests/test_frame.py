"""The frame around the code: Makefile, constraints, generated schemas, changelog and documents agree."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import reconciler
from reconciler.cli.core.app import COMMANDS

pytestmark = pytest.mark.processes

ROOT = Path(__file__).parents[1]
TARGETS = ("help", "quickstart", "test", "check", "fuzz", "mutants", "mutants-generated", "schemas", "tiny")


@pytest.fixture(scope="module")
def project() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())


def make(*arguments: str, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["make", *arguments], cwd=cwd, capture_output=True, text=True, timeout=60, check=False
    )


def test_the_top_level_has_six_folders() -> None:
    listed = subprocess.run(
        ["git", "ls-tree", "-d", "--name-only", "HEAD"], cwd=ROOT, capture_output=True, text=True
    )
    folders = {name for name in listed.stdout.split() if not name.startswith(".")}
    assert folders == {"docs", "examples", "manifests", "reconciler", "schemas", "tests"}


def test_help_lists_every_target() -> None:
    listed = {line.split()[1] for line in make("help").stdout.splitlines()}
    assert listed >= set(TARGETS)


@pytest.mark.second_tier
@pytest.mark.parametrize("target", TARGETS)
def test_every_target_can_be_made_from_nothing_in_a_folder_with_a_space(target: str, tmp_path: Path) -> None:
    """What make would run is taken apart by a shell, not run: quoting survives every path and extra."""
    clone = tmp_path / "a clone"
    (clone / "examples/models/training").mkdir(parents=True)
    for name in (
        "Makefile",
        "pyproject.toml",
        "constraints.txt",
        "examples/models/training/requirements.txt",
    ):
        (clone / name).write_bytes((ROOT / name).read_bytes())
    planned = make("-n", target, cwd=clone)
    assert planned.returncode == 0, planned.stderr
    parsed = subprocess.run(
        ["/bin/sh", "-n"], input=planned.stdout, capture_output=True, text=True, check=False
    )
    assert parsed.stderr == ""


def test_a_python_that_is_too_old_is_refused_with_what_to_do(tmp_path: Path) -> None:
    old = tmp_path / "python3.10"
    old.write_text("#!/bin/sh\nexit 1\n")
    old.chmod(0o755)
    refused = make(".venv-never/dev", f"PYTHON={old}", "VENV=.venv-never")
    assert refused.returncode != 0
    assert "error: Python 3.11 or newer is needed" in refused.stderr
    assert not (ROOT / ".venv-never").exists()


def test_every_requirement_is_pinned_to_a_version_that_fits(project: dict[str, Any]) -> None:
    pins = {}
    for line in (ROOT / "constraints.txt").read_text().splitlines():
        if line and not line.startswith("#"):
            assert re.fullmatch(r"[\w.-]+==[\w.]+", line), f"expected name==version, got: {line}"
            name, version = line.split("==")
            pins[canonicalize_name(name)] = version
    extras = project["project"]["optional-dependencies"]
    wanted = [Requirement(text) for text in [*project["project"]["dependencies"], *extras["dev"]]]
    wrong = [
        str(need)
        for need in wanted
        if not need.specifier.contains(pins.get(canonicalize_name(need.name), "0"))
    ]
    assert wrong == []
    runtime = [Requirement(text) for text in extras["runtime"]]
    assert all(str(need.specifier).startswith("==") for need in runtime)


def test_schemas_are_those_of_the_kinds() -> None:
    command = [sys.executable, "-m", "reconciler.source.write_schemas", "schemas", "--check"]
    checked = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert (checked.returncode, checked.stdout) == (0, "")


def test_the_changelog_begins_with_this_version() -> None:
    newest = re.search(r"^## \[?([^\]\s]+)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert newest is not None
    assert newest[1] == reconciler.__version__


def test_decision_records_are_numbered_without_gaps() -> None:
    numbers = [int(path.name[:4]) for path in sorted((ROOT / "docs" / "decisions").glob("0*.md"))]
    assert numbers == list(range(1, len(numbers) + 1))


def blocks(document: str) -> str:
    """The shell blocks of a document."""
    return "\n".join(re.findall(r"```sh\n(.*?)```", (ROOT / document).read_text(), re.DOTALL))


@pytest.mark.parametrize("document", ["README.md", "CONTRIBUTING.md"])
def test_commands_in_documents_exist(document: str) -> None:
    text = blocks(document)
    unknown = {name for name in re.findall(r"^\s*make ([a-z-]+)", text, re.MULTILINE) if name not in TARGETS}
    unknown |= {
        name
        for name in re.findall(r"(?:^\s*|\$\()reconciler ([a-z]+)", text, re.MULTILINE)
        if name not in COMMANDS
    }
    assert unknown == set()
    assert subprocess.run(["/bin/sh", "-n"], input=text, text=True, check=False).returncode == 0


def test_ci_runs_the_readmes_own_command() -> None:
    assert "make test" in (ROOT / ".ci" / "run").read_text()
    assert "make test" in (ROOT / "README.md").read_text()
    assert (ROOT / ".ci" / "run").stat().st_mode & 0o111
