"""What commands of the version before wrote into the manifests stays valid, and is taken back by the commands here."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from reconciler.source.yaml.documents import load
from reconciler.state.overlay import overlay
from tests.cli.conftest import Cli
from tests.previous import unpack

from .test_manifests import git
from .test_writing import log


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


def nodes(home: Path) -> dict[str, dict[str, object]]:
    bodies = yaml.safe_load_all(git(home, "show", "main:nodes.yaml"))
    return {body["metadata"]["name"]: body["spec"] for body in bodies}


@pytest.mark.second_tier
def test_a_home_that_the_version_before_has_stopped_is_started_and_used_again(
    cli: Cli, earlier: Path
) -> None:
    files = git(earlier, "ls-tree", "--name-only", "main").split()
    contents = {file: git(earlier, "show", f"main:{file}").encode() for file in files}
    manifests = [document.manifest for document in load(contents)]
    assert list(overlay(manifests, (), 0.0).manifests) == manifests, (
        "its wishes are valid, and nothing is laid over them"
    )
    assert all(spec["drain"] for spec in nodes(earlier).values())
    started = cli("start")
    assert started.code == 0, started.err
    assert nodes(earlier)["node-a"] == {"local": {}, "unschedulable": True}, "it was cordoned before the stop"
    assert nodes(earlier)["node-b"] == {"local": {}}
    assert cli("uncordon", "node-a", "node-b").out.splitlines() == [
        "node/node-a uncordoned",
        "node/node-b already uncordoned",
    ]
    assert nodes(earlier)["node-a"] == {"local": {}}
    assert log(earlier) == [], "there was nothing to undo beside main"
    assert "restartedAt: '20" in git(earlier, "show", "main:tiny.yaml")
