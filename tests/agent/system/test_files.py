"""Files of a node: those that only grow are bounded, and those that are written are whole or absent."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from reconciler.agent.system.files import prune, read_json, tail, write_json


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
    prune(tmp_path, 399)
    assert len([*tmp_path.rglob("*.so")]) == 1


def test_no_more_go_than_leave_half(tmp_path: Path) -> None:
    for number in range(10):
        (tmp_path / str(number)).write_bytes(b"x" * 100)
        os.utime(tmp_path / str(number), (number, number))
    prune(tmp_path, 800)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["6", "7", "8", "9"]


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


def test_what_is_written_replaces_what_was_there_and_is_its_owner_s_alone(tmp_path: Path) -> None:
    path = tmp_path / "kept.json"
    for value in ({"one": [1, "x" * 1000]}, {"two": 2}):
        write_json(path, value)
        assert read_json(path, 10_000) == value
    assert [each.name for each in tmp_path.iterdir()] == ["kept.json"]
    assert path.stat().st_mode & 0o777 == 0o600


def test_json_is_read_up_to_its_bound_and_what_is_no_number_in_it_is_null(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text('{"limit": [0.5, Infinity, NaN]}')
    size = path.stat().st_size
    assert read_json(path, size) == {"limit": [0.5, None, None]}
    with pytest.raises(ValueError, match=f"config.json has more than {size - 1} bytes"):
        read_json(path, size - 1)


def test_of_a_long_file_the_end_is_read(tmp_path: Path) -> None:
    path = tmp_path / "agent.log"
    assert tail(path, 10) == ""
    path.write_text("first\nsecond\n")
    assert (tail(path, 7), tail(path, 100)) == ("second\n", "first\nsecond\n")
