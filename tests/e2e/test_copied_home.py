"""A home is copied beside a cluster that serves: whatever is started in the copy touches no process and no file of it."""

from __future__ import annotations

import itertools
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from reconciler.agent.system.machine import boot_id
from reconciler.agent.system.process import birth
from reconciler.bootstrap import origin

from .cluster import ROOT, Cluster, quickstart
from .emulated_macs.macs import FORMED_SECONDS, macs

pytestmark = [pytest.mark.e2e, pytest.mark.needs("linux")]

CHANGING = (".log", ".log.1", ".db", ".db-wal", ".db-shm", ".json.new", ".sock")
"""Ends of names of files that a cluster goes on writing to, or replaces, while it serves."""
GOING_ON = (
    "figures",
    "agent.lock",
    "figures.json",
    "usage.json",
    "state.json",
    "spare.json",
    "spare.log",
    "up.lock",
)


def _copied(made: Cluster) -> Path:
    other = made.home.with_name("copy")
    copied = subprocess.run(["cp", "-a", made.home, other], capture_output=True, text=True, check=False)
    # What runs there replaces its files meanwhile: cp tells of one that is gone when its turn comes, and copies all others.
    lost = [line for line in copied.stderr.splitlines() if "No such file or directory" not in line]
    assert lost == [], copied.stderr
    return other


def _copied_without_locks(made: Cluster) -> Path:
    other = _copied(made)
    for lock in (*other.glob("*.lock"), *other.glob("nodes/*/agent.lock")):
        lock.unlink()
    return other


def _restored(made: Cluster) -> Path:
    """As files come back from a backup program: no sockets, no locks, and from another machine."""
    other = made.home.with_name("copy")
    shutil.copytree(made.home, other, symlinks=True, ignore=lambda folder, names: {*_no_files(folder, names)})
    return other


def _no_files(folder: str, names: list[str]) -> Iterator[str]:
    return (name for name in names if Path(folder, name).is_socket() or name.endswith(".lock"))


WAYS: tuple[Callable[[Cluster], Path], ...] = (_copied, _copied_without_locks, _restored)
SERVICES = ("up", "controller", "gateway", "console")


def files_of(made: Cluster) -> dict[str, tuple[int, bytes]]:
    found = {}
    for path in made.files():
        steady = not path.name.endswith(CHANGING) and not set(path.parts) & set(GOING_ON)
        if steady and path.is_file() and "models" not in path.parts:
            found[str(path)] = (path.stat().st_ino, path.read_bytes())
    gateway = made.home / "gateway.json"  # its own gateway writes it whenever its routes change
    found[str(gateway)] = (0, b"%d" % json.loads(gateway.read_bytes())["pid"])
    return found


def start(home: Path, service: str) -> subprocess.CompletedProcess[str]:
    options = ["--serve"] if service == "console" else []
    command = [sys.executable, "-P", "-m", "reconciler", "--home", str(home), service, *options]
    return subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )


def start_agents(made: Cluster, copy: Path) -> list[subprocess.Popen[bytes]]:
    """Start what runs as the agents of the original, with the folders of the copy in place of its own."""
    started = []
    for pid, line in made.processes().items():
        if ".pyz serve" in line:
            words = Path(f"/proc/{pid}/cmdline").read_bytes().decode().split("\0")[:-1]
            own = [word.replace(str(made.home), str(copy)) for word in words if word != "--detach"]
            started.append(subprocess.Popen(own, stdin=subprocess.DEVNULL))
    return started


def _left_alone(log: Path) -> bool:
    return "is left alone" in log.read_text()


def ranks_of(made: Cluster) -> dict[int, str | None]:
    """Ranks, shims and agents: their pids, and what each has that no later process with its number has."""
    pids = {int(path.read_text()) for path in made.home.rglob("agent.lock")}
    for path in made.home.rglob("process.json"):
        pids |= {json.loads(path.read_text())["pid"]}
        pids |= {json.loads(path.with_name("state.json").read_text())["shim_pid"]}
    born = {pid: birth(pid, boot_id()) for pid in pids}
    assert all(born.values()), "all live"
    return born


@pytest.fixture(scope="module")
def served() -> Iterator[Cluster]:
    with quickstart() as made:
        yield made


@pytest.mark.parametrize(("state", "way"), [*itertools.product(("running", "ended"), WAYS)])
def test_nothing_that_is_started_in_a_copy_touches_the_original(
    served: Cluster, state: str, way: Callable[[Cluster], Path]
) -> None:
    if state == "running" and (served.up is None or served.up.poll() is not None):
        served.start("--any-port")
        served.wait_settled()
    if state == "ended" and served.up is not None and served.up.poll() is None:
        served.up.send_signal(signal.SIGTERM)
        served.up.wait(60)
    before, files = ranks_of(served), files_of(served)
    assert len(before) == 6, "two nodes"
    copy = way(served)
    try:
        for service in SERVICES:
            done = start(copy, service)
            assert done.returncode == 1
            assert f"{copy} is a copy of {served.home}, which is still there" in done.stdout + done.stderr
        agents = start_agents(served, copy) if state == "running" else []
        for log in copy.glob("nodes/*/agent.log") if agents else ():
            served.wait("the copy's agent", partial(_left_alone, log))
        for agent in agents:
            agent.terminate()
            agent.wait(60)
        assert ranks_of(served) == before
        assert {name: found for name, found in files_of(served).items() if name in files} == files
    finally:
        shutil.rmtree(copy)


@pytest.mark.timeout(900)
@pytest.mark.parametrize("machine", ["this machine", "another machine"])
def test_no_machine_that_is_reached_with_ssh_obeys_a_copy(tmp_path: Path, machine: str) -> None:
    with macs(tmp_path, "two-minis", "--nodes", "2") as made:
        made.wait_settled(FORMED_SECONDS)
        before = ranks_of(made)
        fences = {path: path.read_bytes() for path in made.home.rglob("fence.json")}
        assert fences
        copy = made.home.with_name("copy")
        shutil.copytree(
            made.home,
            copy,
            symlinks=True,
            ignore=lambda folder, names: {*_no_files(folder, names), "sandbox"},
        )
        if machine == "another machine":
            known = json.loads((copy / origin.NAME).read_text())
            (copy / origin.NAME).write_text(json.dumps({**known, "machine": "another", "place": "1:1"}))
        for service in SERVICES:
            done = start(copy, service)
            assert done.returncode == 1
            assert "Nothing was started, and nothing of the other was touched" in done.stdout + done.stderr
        assert ranks_of(made) == before
        assert {path: path.read_bytes() for path in made.home.rglob("fence.json")} == fences
        made.wait_settled()
        shutil.rmtree(copy)


def test_a_moved_home_goes_on_by_itself(served: Cluster) -> None:
    if served.up is not None and served.up.poll() is None:
        served.up.send_signal(signal.SIGTERM)
        served.up.wait(60)
    before, moved = served.home, served.home.with_name("moved")
    served.home.rename(moved)
    served.home = moved
    served.start("--any-port")
    served.wait_settled()
    assert json.loads((moved / origin.NAME).read_text())["path"] == str(moved)
    assert not before.exists()
