"""The agent as one file."""

from __future__ import annotations

import importlib.util
import io
import stat
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from reconciler.remote.runtime.agent_file import build_bundle, write_bundle
from tests.agent.bench import Bench


def test_the_same_sources_give_the_same_bytes_whether_or_not_python_has_compiled_them(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    build = build_bundle.__wrapped__
    monkeypatch.setattr(sys, "pycache_prefix", str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    anew = build()
    assert list(tmp_path.iterdir()) == []
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    assert build() == anew
    assert any(tmp_path.rglob("*.pyc"))
    assert build() == anew


def test_the_file_holds_agent_and_wire_and_nothing_else() -> None:
    content, _ = build_bundle()

    names = zipfile.ZipFile(io.BytesIO(content)).namelist()

    assert names == sorted(names)
    assert {
        "__main__.py",
        "reconciler/__init__.py",
        "reconciler/agent/entry.py",
        "reconciler/wire/node.py",
    } <= set(names)
    rooms = {tuple(name.split("/")[:2]) for name in names if name.count("/") > 1}
    assert rooms == {("reconciler", "agent"), ("reconciler", "wire")}


def test_the_file_is_written_once_and_its_name_says_what_is_in_it(tmp_path: Path) -> None:
    path = write_bundle(tmp_path / "agents")
    written = path.stat().st_mtime_ns

    assert path.name == f"agent-{build_bundle()[1]}.pyz"
    assert path.read_bytes() == build_bundle()[0]
    assert write_bundle(tmp_path / "agents") == path
    assert path.stat().st_mtime_ns == written
    assert list(path.parent.iterdir()) == [path]
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700, "agents run what is in it"


def test_it_runs_compiled_where_the_python_is_the_same_and_from_source_elsewhere(tmp_path: Path) -> None:
    def origin(bundle: Path) -> str:
        program = f"import sys; sys.path.insert(0, {str(bundle)!r}); import reconciler.agent as a; print(a.__file__)"
        command = [sys.executable, "-I", "-S", "-c", program]
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
        return Path(done.stdout.strip()).name

    path = write_bundle(tmp_path)
    assert origin(path) == "__init__.pyc"
    other = tmp_path / "other.pyz"
    other.write_bytes(path.read_bytes().replace(importlib.util.MAGIC_NUMBER, b"\x00\x00\r\n"))
    assert origin(other) == "__init__.py"


async def test_files_of_other_versions_go_unless_an_agent_runs_from_them() -> None:
    bench = Bench.make()
    try:
        await bench.agent()
        (used,) = (bench.home / "agents").iterdir()
        older = used.with_name("agent-000000000000.pyz")
        used.rename(older)  # as if this version had come after the agent's start
        unused = used.with_name("agent-111111111111.pyz")
        unused.write_bytes(b"")
        newest = write_bundle(used.parent)
        assert sorted(used.parent.iterdir()) == sorted([older, newest])
        await bench.kill_agent()
        write_bundle(used.parent)
        assert [*used.parent.iterdir()] == [newest]
    finally:
        await bench.close()


def test_the_file_runs_without_the_project(tmp_path: Path) -> None:
    shown = subprocess.run(
        [sys.executable, "-I", "-S", str(write_bundle(tmp_path)), "serve", "--help"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )

    assert "run the agent" in shown.stdout or "--run-directory" in shown.stdout
