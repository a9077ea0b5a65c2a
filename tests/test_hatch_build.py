"""A build says what it was built from: a release its number, anything else the commit or the content too."""

from __future__ import annotations

import re
import subprocess
import tarfile
import zipfile
from pathlib import Path

import pytest

from hatch_build import version
from tests import wheels

pytestmark = pytest.mark.processes

COMMIT, DIGEST = "[0-9a-f]{12}", "[0-9a-f]{12}"


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """As little of the product as has a version."""
    root = tmp_path / "tree"
    (root / "reconciler").mkdir(parents=True)
    (root / "reconciler" / "__init__.py").write_text('__version__ = "0.3.0"\n')
    return root


def git(root: Path, *words: str) -> None:
    identity = ("-c", "user.name=Ada", "-c", "user.email=ada@example.com", "-c", "commit.gpgsign=false")
    subprocess.run(["git", "-C", str(root), *identity, *words], check=True, capture_output=True, timeout=30)


@pytest.fixture
def clone(tree: Path) -> Path:
    git(tree, "init", "-q")
    git(tree, "add", "-A")
    git(tree, "commit", "-qm", "One")
    return tree


def change(root: Path, text: str = "x = 1\n") -> None:
    (root / "reconciler" / "more.py").write_text(text)


def test_a_commit_that_is_no_release_is_named(clone: Path) -> None:
    assert re.fullmatch(rf"0\.3\.0\+g{COMMIT}", version(clone))
    before = version(clone)
    change(clone)
    git(clone, "add", "-A")
    git(clone, "commit", "-qm", "Two")
    assert version(clone) != before


def test_a_release_has_its_number_alone(clone: Path) -> None:
    git(clone, "tag", "v0.2.0")
    assert version(clone) != "0.3.0"
    git(clone, "tag", "v0.3.0")
    assert version(clone) == "0.3.0"
    change(clone)
    assert re.fullmatch(rf"0\.3\.0\+g{COMMIT}\.d{DIGEST}", version(clone)), "what differs from it is none"


def test_changes_that_are_in_no_commit_are_told_apart(clone: Path) -> None:
    found = {version(clone)}
    for text in ("x = 1\n", "x = 2\n"):
        change(clone, text)
        found.add(version(clone))
    assert len(found) == 3
    (clone / "reconciler" / "more.py").unlink()
    assert version(clone) in found
    (clone / "notes.txt").write_text("not in a wheel")
    assert version(clone) in found


def test_without_git_the_content_is_named(tree: Path) -> None:
    before = version(tree)
    assert re.fullmatch(rf"0\.3\.0\+d{DIGEST}", before)
    assert version(tree) == before
    change(tree)
    assert version(tree) != before


def test_a_tree_within_another_repository_has_not_its_commit(tree: Path) -> None:
    git(tree.parent, "init", "-q")
    git(tree.parent, "add", "-A")
    git(tree.parent, "commit", "-qm", "Of somebody else")
    assert re.fullmatch(rf"0\.3\.0\+d{DIGEST}", version(tree))


def test_a_source_archive_has_the_version_that_it_was_made_as(clone: Path) -> None:
    (clone / "PKG-INFO").write_text(
        "Metadata-Version: 2.4\nName: mlx-reconciler\nVersion: 0.3.0+g0123456789ab\n"
    )
    assert version(clone) == "0.3.0+g0123456789ab"


def test_the_package_in_a_wheel_states_the_version_of_the_wheel(tmp_path: Path) -> None:
    source = wheels.tree_of_version(tmp_path / "source", "0.3.0")
    (source / "PKG-INFO").unlink()
    made = wheels.build(tmp_path, source)
    found = re.fullmatch(rf"mlx_reconciler-(0\.3\.0\+d{DIGEST})-py3-none-any\.whl", made.name)
    assert found is not None
    with zipfile.ZipFile(made) as wheel:
        names = wheel.namelist()
        assert names.count("reconciler/__init__.py") == 1
        assert f'__version__ = "{found[1]}"' in wheel.read("reconciler/__init__.py").decode()
        assert [name for name in names if "hatch_build" in name] == []


def test_a_wheel_is_built_from_a_source_archive_as_well(tmp_path: Path) -> None:
    wheels.hatchling("sdist", tmp_path, wheels.tree_of_version(tmp_path / "source", "0.3.0"))
    with tarfile.open(tmp_path / "mlx_reconciler-0.3.0.tar.gz") as archive:
        archive.extractall(tmp_path, filter="data")
    made = wheels.build(tmp_path, tmp_path / "mlx_reconciler-0.3.0")
    assert made.name == "mlx_reconciler-0.3.0-py3-none-any.whl"
