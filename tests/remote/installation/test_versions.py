"""Versions in a home: which one is in use, which one to go back to, and which ones may go."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from reconciler.errors import Refused
from reconciler.remote.installation.versions import Versions


def made(root: Path, *names: str) -> Versions:
    for name in names:
        (root / name / "bin").mkdir(parents=True)
        (root / name / "bin" / "python").symlink_to(sys.executable)
    return Versions(root)


def test_a_version_is_in_use_and_one_may_be_gone_back_to(tmp_path: Path) -> None:
    versions = made(tmp_path, "1", "2")
    assert (versions.current, versions.previous) == (None, None)
    versions.use("1", None)
    versions.use("2", "1")
    assert (versions.current, versions.previous) == ("2", "1")


def test_after_going_back_there_is_nothing_to_go_back_to(tmp_path: Path) -> None:
    versions = made(tmp_path, "1", "2")
    versions.use("2", "1")
    versions.previous_store.write_bytes(b"store")
    versions.use("1", None)
    assert (versions.current, versions.previous) == ("1", None)
    assert not versions.previous_store.exists()


def test_a_version_without_an_interpreter_is_none(tmp_path: Path) -> None:
    versions = made(tmp_path, "1")
    versions.use("1", None)
    (tmp_path / "1" / "bin" / "python").unlink()
    assert versions.current is None


def test_what_nobody_uses_goes_and_what_a_process_was_started_from_stays(tmp_path: Path) -> None:
    versions = made(tmp_path, "1", "2", "3", "4")
    versions.use("4", "3")
    with subprocess.Popen([versions.python("2"), "-c", "import time; time.sleep(60)"]) as rank:
        versions.drop_unused()
        assert sorted(path.name for path in tmp_path.iterdir() if not path.is_symlink()) == ["2", "3", "4"]
        rank.kill()


def test_while_a_version_is_replaced_the_service_knows_who_does_it(tmp_path: Path) -> None:
    note = tmp_path / "switching"
    with Versions(tmp_path).switching():
        assert int(note.read_text()) == os.getpid()
    assert not note.exists()


def test_what_cannot_be_had_is_refused_with_the_words_of_uv(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("UV_OFFLINE", "1")
    missing = tmp_path / "mlx_reconciler-9-py3-none-any.whl"
    with pytest.raises(Refused, match=r"uv pip: (?s:.)*mlx_reconciler-9") as refused:
        Versions(tmp_path / "versions").make(f"mlx-reconciler @ {missing.as_uri()}")
    assert refused.value.code == "VersionUnavailable"
    assert list((tmp_path / "versions").iterdir()) == []
