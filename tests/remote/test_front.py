"""The gateway of another machine is continued where it was stopped, and no other process with its number is touched."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from reconciler.agent.system.process import states
from reconciler.remote.nodes.front import _END, _KEEP
from reconciler.remote.runtime.gateway_file import gateway_file

pytestmark = [pytest.mark.processes, pytest.mark.needs("ps")]

SLEEPS = "import time; print('begun', flush=True); time.sleep(600)"


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "agents").mkdir()
    (tmp_path / "front").mkdir()
    (tmp_path / "agents" / "gateway-1.pyz").write_text(SLEEPS)
    (tmp_path / "front" / "gateway.json").write_text("{}")
    return tmp_path


def started(*words: object) -> subprocess.Popen[str]:
    process = subprocess.Popen(list(map(str, words)), stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    process.stdout.readline()
    return process


def keep(place: Path, script: str = _KEEP) -> str:
    words = (
        "/bin/sh",
        "-c",
        script,
        "keep",
        place / "front",
        place / "agents" / "gateway-1.pyz",
        "/bin/false",
    )
    return subprocess.run(
        list(map(str, words)), capture_output=True, text=True, timeout=60, check=True
    ).stdout


def until_state(pid: int, letters: str) -> None:
    deadline = time.monotonic() + 30
    while states([pid]).get(pid, "gone")[0] not in letters:
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_a_gateway_that_is_stopped_is_continued(place: Path) -> None:
    with started(sys.executable, "-I", place / "agents" / "gateway-1.pyz", place / "front") as gateway:
        (place / "front" / "gateway.lock").write_text(f"{gateway.pid}\n")
        os.kill(gateway.pid, signal.SIGSTOP)
        until_state(gateway.pid, "T")
        assert keep(place) == "{}"
        until_state(gateway.pid, "SR")
        gateway.kill()


@pytest.mark.parametrize("script", [_KEEP, _END])
def test_another_process_with_the_number_in_a_copied_lock_is_left_alone(place: Path, script: str) -> None:
    with started(sys.executable, "-c", SLEEPS, place / "elsewhere" / "front") as stranger:
        (place / "front" / "gateway.lock").write_text(f"{stranger.pid}\n")
        os.kill(stranger.pid, signal.SIGSTOP)
        until_state(stranger.pid, "T")
        keep(place, script)
        assert states([stranger.pid])[stranger.pid] == "T"
        stranger.kill()


def test_the_file_has_every_module_that_a_gateway_imports(tmp_path: Path) -> None:
    file = tmp_path / "gateway.pyz"
    file.write_bytes(gateway_file().content)
    script = (
        "import importlib, pkgutil, sys; sys.path.insert(0, sys.argv[1]); import reconciler.gateway, reconciler.bootstrap.front\n"
        "assert reconciler.__file__.startswith(sys.argv[1])\n"
        "for each in pkgutil.walk_packages(reconciler.gateway.__path__, 'reconciler.gateway.'): importlib.import_module(each.name)\n"
        "import reconciler.bootstrap.gateway, reconciler.remote.relay\n"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-c", script, str(file)], capture_output=True, timeout=60, check=False
    )
    assert done.stderr.decode() == ""
