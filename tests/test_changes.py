"""The first tier has the tests of processes of the rooms that a change touches."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.changes import EVERY_ROOM, changed_rooms, is_changed, rooms_of


@pytest.mark.parametrize(
    ("paths", "rooms"),
    [
        ([], set()),
        (["docs/testing.md", "README.md"], set()),
        (["reconciler/agent/ranks/shim.py", "tests/gateway/test_process.py"], {"agent", "gateway"}),
        (["reconciler/wire/frames.py"], EVERY_ROOM),
        (["reconciler/state/plan.py"], EVERY_ROOM),
        (["docs/a.md", "reconciler/errors.py"], EVERY_ROOM),
        (["tests/conftest.py"], EVERY_ROOM),
        (["pyproject.toml"], EVERY_ROOM),
    ],
)
def test_a_file_belongs_to_its_room_and_one_that_all_rest_on_to_every_room(
    paths: list[str], rooms: set[str]
) -> None:
    assert rooms_of(paths) == rooms


def test_a_test_is_changed_with_its_room() -> None:
    assert is_changed(frozenset(["agent"]), "tests/agent/ranks/test_hangs.py::test_a")
    assert not is_changed(frozenset(["agent"]), "tests/gateway/test_agent.py")
    assert not is_changed(frozenset(), "tests/test_start.py")
    assert is_changed(EVERY_ROOM, "tests/test_start.py")


def git(folder: Path, *words: str) -> None:
    author = ("-c", "user.name=ada", "-c", "user.email=ada@example.com")
    subprocess.run(("git", "-C", str(folder), *author, *words), check=True, capture_output=True)


def test_a_change_is_what_is_not_committed_and_what_the_upstream_lacks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("RECONCILER_CHANGED", raising=False)
    up, clone = tmp_path / "up", tmp_path / "clone"
    for path in ("reconciler/agent/a.py", "reconciler/store/a b.py", "reconciler/planning/a.py"):
        (up / path).parent.mkdir(parents=True)
        (up / path).write_text("a = 1\n")
    git(tmp_path, "init", "-q", "-b", "main", str(up))
    git(up, "add", ".")
    git(up, "commit", "-qm", "first")
    assert changed_rooms(up) == frozenset(), "it has no upstream"
    git(tmp_path, "clone", "-q", str(up), str(clone))
    assert changed_rooms(clone) == frozenset()
    (clone / "reconciler/store/a b.py").write_text("a = 2\n")
    (clone / "tests/gateway").mkdir(parents=True)
    (clone / "tests/gateway/test_new.py").touch()
    assert changed_rooms(clone) == {"store", "gateway"}
    (clone / "reconciler/agent/a.py").write_text("a = 2\n")
    git(clone, "commit", "-qam", "second")
    assert changed_rooms(clone) == {"agent", "store", "gateway"}
    monkeypatch.setenv("RECONCILER_CHANGED", "all")
    assert changed_rooms(clone) == EVERY_ROOM


def test_without_git_every_room_counts_as_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RECONCILER_CHANGED", raising=False)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    assert changed_rooms(tmp_path) == EVERY_ROOM
    monkeypatch.setenv("PATH", str(tmp_path))
    assert changed_rooms(tmp_path) == EVERY_ROOM
