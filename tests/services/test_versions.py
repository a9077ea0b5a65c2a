"""Versions in a home: which one is in use, which one to go back to, and which ones may go."""

from __future__ import annotations

import base64
import hashlib
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from reconciler.errors import Refused
from reconciler.services.versions import Versions, number


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
    versions = made(tmp_path, "1", "2", "2-abcd", "3", "4")
    versions.use("4", "3")
    words = [str(versions.python("2-abcd")), "-c", "import time; print(flush=True); time.sleep(60)"]
    with subprocess.Popen(words, stdout=subprocess.PIPE) as rank:
        assert rank.stdout is not None
        rank.stdout.readline()  # in the moment of its start the system shows no command line
        versions.drop_unused()
        assert sorted(path.name for path in tmp_path.iterdir() if not path.is_symlink()) == [
            "2-abcd",
            "3",
            "4",
        ]
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


# --- the same number, other contents ---------------------------------------------------------------


def wheel(folder: Path, version: str, content: str) -> str:
    """Write a wheel of the product's name with one module, and return what installs it."""
    folder.mkdir(exist_ok=True)
    path, information = (
        folder / f"mlx_reconciler-{version}-py3-none-any.whl",
        f"mlx_reconciler-{version}.dist-info",
    )
    module = f'__version__ = "{version}"\nCONTENT = "{content}"\n'
    files = {
        "reconciler/__init__.py": module,
        f"{information}/METADATA": f"Metadata-Version: 2.1\nName: mlx-reconciler\nVersion: {version}\n",
        f"{information}/WHEEL": "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    hashed = [
        (name, base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()))
        for name, text in files.items()
    ]
    record = [f"{name},sha256={digest.decode().rstrip('=')},{len(files[name])}" for name, digest in hashed]
    with zipfile.ZipFile(path, "w") as made:
        for name, text in {
            **files,
            f"{information}/RECORD": "\n".join([*record, f"{information}/RECORD,,", ""]),
        }.items():
            made.writestr(name, text)
    return f"mlx-reconciler @ {path.as_uri()}"


@pytest.fixture
def offline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UV_OFFLINE", "1")
    monkeypatch.setenv("UV_NO_CACHE", "1")


@pytest.mark.second_tier
@pytest.mark.usefixtures("offline")
@pytest.mark.parametrize("version", ["0.1.0", "0.1.0+g99c41627b5ae"])
def test_another_build_of_the_version_in_use_is_another_and_the_same_is_not(
    tmp_path: Path, version: str
) -> None:
    versions = Versions(tmp_path / "versions")
    versions.use(versions.make(wheel(tmp_path / "a", version, "old")), None)
    assert versions.current == version
    assert versions.make(wheel(tmp_path / "b", version, "old")) == version
    newer = versions.make(wheel(tmp_path / "c", version, "new"))
    assert (newer != version, number(newer)) == (True, version)
    versions.use(newer, version)
    ask = (versions.python(newer), "-P", "-c", "import reconciler; print(reconciler.CONTENT)")
    assert subprocess.run(ask, capture_output=True, text=True, check=True).stdout == "new\n"
    assert versions.make(wheel(tmp_path / "d", version, "new")) == newer
    assert versions.make(wheel(tmp_path / "e", version, "old")) == version


@pytest.mark.usefixtures("offline")
def test_builds_of_two_commits_are_two_versions(tmp_path: Path) -> None:
    versions = Versions(tmp_path / "versions")
    versions.use(versions.make(wheel(tmp_path / "a", "0.1.0", "old")), None)
    assert versions.make(wheel(tmp_path / "b", "0.1.0+g99c41627b5ae", "new")) == "0.1.0+g99c41627b5ae"
