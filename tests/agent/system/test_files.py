"""Files of a node that only grow are bounded."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from reconciler.agent.system.files import prune


def test_the_oldest_files_go_when_there_is_too_much(tmp_path: Path) -> None:
    (tmp_path / "below").mkdir()
    for number in range(10):
        path = tmp_path / ("below" if number % 2 else ".") / f"{number}.so"
        path.write_bytes(b"x" * 100)
        os.utime(path, (number, number))
    prune(tmp_path, 1000)
    assert len([*tmp_path.rglob("*.so")]) == 10
    prune(tmp_path, 999)
    assert sorted(path.name for path in tmp_path.rglob("*.so")) == ["6.so", "7.so", "8.so", "9.so"]


def test_a_file_that_cannot_be_removed_keeps_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for age, name in enumerate(("newer", "older", "held")):
        (tmp_path / name).write_bytes(b"." * 400)
        os.utime(tmp_path / name, (1000 - age, 1000 - age))
    unlink = Path.unlink

    def held(path: Path) -> None:
        if path.name == "held":
            raise PermissionError("held")
        unlink(path)

    monkeypatch.setattr(Path, "unlink", held)
    prune(tmp_path, 1000)
    assert [path.name for path in tmp_path.iterdir()] == ["held"]
