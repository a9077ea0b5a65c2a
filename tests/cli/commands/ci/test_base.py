"""What was in force before a change: a folder, or the same folder at a revision."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from reconciler.cli.commands.ci.rehearse import files_of_base
from reconciler.errors import Invalid

pytestmark = pytest.mark.processes


def git(folder: Path, *words: str) -> None:
    identity = ("-c", "user.name=Ada", "-c", "user.email=ada@example.com", "-c", "commit.gpgsign=false")
    subprocess.run(["git", *identity, "-C", str(folder), *words], check=True, capture_output=True)


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A repository with a folder whose file was changed after the first commit, and is changed now."""
    (tmp_path / "home").mkdir()
    git(tmp_path, "init", "-q", "-b", "main")
    for text in ("one", "two"):
        (tmp_path / "home" / "a.yaml").write_text(text)
        git(tmp_path, "add", "-A")
        git(tmp_path, "commit", "-qm", text)
    (tmp_path / "home" / "a.yaml").write_text("now")
    return tmp_path


def test_a_revision_is_read_as_it_was(clone: Path) -> None:
    assert files_of_base(clone / "home", "HEAD") == {"a.yaml": b"two"}
    assert files_of_base(clone / "home", "HEAD~1") == {"a.yaml": b"one"}


def test_a_folder_is_read_as_it_is(clone: Path) -> None:
    assert files_of_base(clone / "elsewhere", str(clone / "home")) == {"a.yaml": b"now"}


def test_before_a_new_folder_there_was_nothing(clone: Path) -> None:
    (clone / "new").mkdir()
    (clone / "new" / "b.yaml").write_text("new")
    assert files_of_base(clone / "new", "HEAD") == {}


@pytest.mark.parametrize("base", ["nowhere", "--output=x", "0" * 40])
def test_what_is_neither_is_refused(clone: Path, base: str) -> None:
    with pytest.raises(Invalid, match="is neither a folder nor a revision"):
        files_of_base(clone / "home", base)
    assert not (clone / "home" / "x").exists()
