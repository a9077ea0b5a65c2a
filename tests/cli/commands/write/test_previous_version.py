"""What commands of the version before committed is in force here, and is taken back by the commands here."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from reconciler.admission.overlay import overlay
from reconciler.resources import Node
from reconciler.resources.operation import Operation
from reconciler.source.yaml.documents import load
from tests.cli.conftest import Cli
from tests.previous import unpack

from .test_manifests import git
from .test_writing import log, operations


@pytest.fixture
def earlier(home: Path, tmp_path: Path) -> Path:
    """A home in which the version before has cordoned a node, asked for a restart, and stopped everything."""
    before = unpack(tmp_path / "before")
    home.mkdir(parents=True, exist_ok=True)
    for arguments in (
        ("apply", "-f", str(before / "manifests")),
        ("cordon", "node-a"),
        ("rollout", "restart", "deployment/tiny"),
        ("stop",),  # which ends with an error, because no controller runs that would empty the nodes
    ):
        done = subprocess.run(
            [sys.executable, "-m", "reconciler", "--home", str(home), *arguments],
            env={**os.environ, "PYTHONPATH": str(before)}, cwd=home, capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        assert done.returncode == 0 or arguments == ("stop",), done.stderr
    return home


def bodies(home: Path) -> list[object]:
    files = git(home, "ls-tree", "--name-only", "operations").split()
    return [yaml.safe_load(git(home, "show", f"operations:{file}")) for file in files]


@pytest.mark.second_tier
def test_what_the_version_before_has_committed_is_in_force_and_is_taken_back(cli: Cli, earlier: Path) -> None:
    files = [
        name for name in git(earlier, "ls-tree", "--name-only", "main").split() if name.endswith(".yaml")
    ]
    manifests = [
        each.manifest for each in load({f: git(earlier, "show", f"main:{f}").encode() for f in files})
    ]
    before = operations(earlier)
    verbs = {"stop", "cordon", "restart"}
    assert {spec["verb"] for spec in before.values()} == verbs
    asked = tuple(Operation.model_validate(each, strict=False) for each in bodies(earlier))
    laid = {
        each.metadata.name: each
        for each in overlay(manifests, asked, 0.0).manifests
        if isinstance(each, Node)
    }
    assert all(node.spec.drain for node in laid.values())
    assert laid["node-a"].spec.unschedulable
    started = cli("start")
    assert started.code == 0, started.err
    assert {spec["verb"] for spec in operations(earlier).values()} == verbs - {"stop"}
    uncordoned = cli("uncordon", "node-a", "node-b")
    assert uncordoned.out.splitlines()[:2] == ["node/node-a uncordoned", "node/node-b already uncordoned"]
    assert {spec["verb"] for spec in operations(earlier).values()} == {"restart"}
    assert len(log(earlier)) == 5, "three of the version before, and two of this one"
