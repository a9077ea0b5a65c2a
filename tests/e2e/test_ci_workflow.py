"""The workflow of `ci init`, step by step as a runner runs it: a pull request is validated, planned with recorded facts,
rehearsed on emulated Macs with real ranks, and gets its comment. `make ci-workflow` runs it.

Not as on a forge: `uses: actions/checkout` is a `git clone`; and pip is told by its environment to find packages in a
folder, where the product's wheel is, built here, beside the installed packages of this interpreter.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from reconciler import __version__
from reconciler.cli.commands.ci.templates import FORGES, Origin, workflow
from reconciler.facts.recorded import facts_of, written
from tests import wheels, worlds
from tests.forge import TOKEN, Forge, forge

from .runner import Runner

pytestmark = [pytest.mark.e2e, pytest.mark.nightly, pytest.mark.timeout(900)]

REPOSITORY = "lab/cluster"


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheels")
    wheels.build(folder)
    wheels.write_other_packages(folder)
    return folder


@pytest.fixture
def made() -> Iterator[Forge]:
    with forge() as running:
        running.repository = REPOSITORY
        yield running


@pytest.fixture
def short() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="w-") as folder:
        yield Path(folder)


def git(folder: Path, *words: str) -> str:
    identity = ("-c", "user.name=Ada", "-c", "user.email=ada@example.com", "-c", "commit.gpgsign=false")
    return subprocess.run(
        ["git", *identity, "-C", str(folder), *words], capture_output=True, text=True, check=True
    ).stdout.strip()


def repository(folder: Path, name: str, packages: Path) -> Path:
    """A cluster repository with the quickstart's manifests, the facts of its cluster, the product's wheel and the workflow."""
    folder.mkdir()
    git(folder, "init", "-q", "-b", "main")
    for path in (wheels.ROOT / "manifests").glob("*.yaml"):
        shutil.copy(path, folder)
    serving = worlds.two_nodes()
    serving.settle()
    desired = serving.desired()
    in_force = tuple(sorted(desired.objects()))
    facts = facts_of(desired, serving.observed(), serving.memory(), serving.now, in_force)
    (folder / ".reconciler").mkdir()
    (folder / ".reconciler" / "facts.json").write_text(json.dumps(written(facts, desired, __version__)))
    place = folder / FORGES[name].path
    place.parent.mkdir(parents=True)
    (wheel,) = packages.glob("mlx_reconciler-*.whl")
    (folder / "tools").mkdir()
    shutil.copy(wheel, folder / "tools")
    origin = Origin(wheel=f"tools/{wheel.name}", digest=hashlib.sha256(wheel.read_bytes()).hexdigest())
    place.write_text(workflow(name, __version__, origin))
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "The cluster")
    return folder


def changed(folder: Path, before: str, after: str) -> dict[str, Any]:
    """A pull request with one change; its event."""
    base = git(folder, "rev-parse", "main")
    git(folder, "checkout", "-q", "-B", "change", "main")
    (folder / "tiny.yaml").write_text((folder / "tiny.yaml").read_text().replace(before, after, 1))
    git(folder, "commit", "-qam", "A change")
    head = git(folder, "rev-parse", "HEAD")
    pull = {
        "number": 7,
        "head": {"sha": head, "repo": {"full_name": REPOSITORY}},
        "base": {"sha": base, "repo": {"full_name": REPOSITORY}},
    }
    return {"pull_request": pull, "repository": {"full_name": REPOSITORY}}


def runner(folder: Path, origin: Path, event: dict[str, Any], made: Forge, packages: Path) -> Runner:
    programs = folder / "bin"
    programs.mkdir(parents=True)
    (programs / "python3").symlink_to(Path(sys.base_prefix) / "bin" / Path(sys.executable).resolve().name)
    extra = {
        "PIP_FIND_LINKS": str(packages),
        "PIP_NO_INDEX": "1",
        "PATH": f"{programs}:/usr/local/bin:/usr/bin:/bin",
    }
    return Runner(folder / "run", origin, event, made.api, {"GITHUB_TOKEN": TOKEN}, extra=extra)


def told(one: Runner) -> str:
    return "\n".join(f"--- {step.name}: {step.status}\n{step.output}" for step in one.done)


@pytest.mark.parametrize("name", FORGES)
def test_a_change_that_is_fine_gets_one_comment_with_its_plan_and_its_rehearsal(
    name: str, made: Forge, packages: Path, short: Path
) -> None:
    origin = repository(short / "origin", name, packages)
    one = runner(short / "one", origin, changed(origin, "context: 2048", "context: 1024"), made, packages)
    assert one.run(one_path(origin, name)), told(one)
    print(told(one))
    (comment,) = made.comments
    for part in (
        "modeldeployment.reconciler/tiny valid",
        "with the facts of 1970-01-01T00:16:",
        "form tiny/0",
        "| apply the change | ok |",
        "| kill a rank on node-b | ok |",
    ):
        assert part in comment["body"], comment["body"]
    assert one.summary.strip() in comment["body"]
    assert TOKEN not in told(one)


def test_a_change_that_cannot_serve_fails_the_job_and_the_same_comment_says_why(
    made: Forge, packages: Path, short: Path
) -> None:
    origin = repository(short / "origin", "github", packages)
    made.add("<!-- reconciler: review -->\nof the push before")
    one = runner(short / "one", origin, changed(origin, "nodes: 2", "nodes: 5"), made, packages)
    assert not one.run(one_path(origin, "github"))
    (comment,) = made.comments
    assert "needs 5 nodes" in comment["body"], comment["body"]
    assert "| apply the change | FAILED |" in comment["body"], comment["body"]
    assert "of the push before" not in comment["body"]


def test_mistakes_end_the_job_early_and_the_comment_has_them(
    made: Forge, packages: Path, short: Path
) -> None:
    origin = repository(short / "origin", "github", packages)
    one = runner(short / "one", origin, changed(origin, "model: tiny", "model: ghost"), made, packages)
    assert not one.run(one_path(origin, "github"))
    assert {step.name: step.status for step in one.done}["Rehearse"] is None
    (comment,) = made.comments
    assert 'there is no Model "ghost"' in comment["body"]
    assert "::error file=tiny.yaml,line=" in told(one), "the forge marks the line"
    assert "### Rehearsal\n\nnot reached" in comment["body"]


def one_path(origin: Path, name: str) -> Path:
    return origin / FORGES[name].path
