"""Tools of the system, run for whoever reads what they say: each with a bound on its time and on its words."""

from __future__ import annotations

import itertools
import os
import subprocess
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from reconciler.agent.system import tools
from reconciler.agent.system.tools import Tools
from reconciler.wire.tools import Ending, RunTool, ToolSaid
from tests.processes import gone

pytestmark = pytest.mark.processes

WAIT_SECONDS = 50.0
"""Less than a tool may take."""


class Bin:
    """A folder of scripts, and the tools in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.tools = Tools((str(folder),), {"home": str(folder), "node": "n1"})

    def script(self, name: str, body: str) -> Path:
        path = self.folder / name
        path.write_text(f"#!/bin/sh\n{body}\n")
        path.chmod(0o755)
        return path

    def run(self, *argv: str, seconds: float = 30.0, as_root: bool = False) -> ToolSaid:
        return self.tools.run(RunTool(argv, seconds, as_root))


@pytest.fixture
def bin_(tmp_path: Path) -> Bin:
    return Bin(tmp_path)


def test_a_tool_is_found_in_the_folders_and_all_that_it_says_comes_back(bin_: Bin) -> None:
    bin_.script("look", 'echo "$LC_ALL $1 $2"; echo oh >&2; exit 3')
    assert bin_.run("look", "{home}/x", "a-{node}") == ToolSaid(
        Ending.ENDED, 3, f"C {bin_.folder}/x a-n1\n", "oh\n"
    )
    assert bin_.run(str(bin_.folder / "look")).code == 3
    assert bin_.run("sh").ending == Ending.ABSENT


def test_a_tool_that_hangs_is_killed_with_what_it_has_started(
    bin_: Bin, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = bin_.folder / "begun"
    bin_.script(
        "hang",
        f"/bin/sleep 600 & echo $! > {bin_.folder}/child; echo $$ > {bin_.folder}/pid; : > {begun}; wait",
    )
    minutes = itertools.count(0, 60)
    passing_once_it_hangs = SimpleNamespace(monotonic=lambda: float(next(minutes) if begun.exists() else 0))
    monkeypatch.setattr(tools, "time", passing_once_it_hangs)
    assert bin_.run("hang", seconds=30.0).ending == Ending.LATE
    for name in ("pid", "child"):
        until_gone(int((bin_.folder / name).read_text()))


def until_gone(pid: int) -> None:
    deadline = time.monotonic() + WAIT_SECONDS
    while time.monotonic() < deadline:
        if gone(pid):
            return
        time.sleep(0.02)
    raise AssertionError(f"process {pid} lives on")


def test_a_tool_that_does_not_stop_talking_is_killed(bin_: Bin) -> None:
    bin_.script("talk", "exec /usr/bin/yes")
    assert bin_.run("talk").ending == Ending.ENDLESS


@pytest.mark.parametrize(("more", "ending"), [(0, Ending.ENDED), (1, Ending.ENDLESS)])
def test_a_tool_may_say_a_mebibyte_and_no_byte_more(bin_: Bin, more: int, ending: str) -> None:
    bin_.script("talk", f"/usr/bin/head -c {2**20 + more} /dev/zero")
    said = bin_.run("talk")
    assert (said.ending, len(said.stdout)) == (ending, 0 if more else 2**20)


def test_what_a_tool_leaves_behind_does_not_keep_its_answer(bin_: Bin) -> None:
    bin_.script("fork", f"/bin/sleep 600 & echo $! > {bin_.folder}/child; echo said")
    try:
        assert bin_.run("fork") == ToolSaid(Ending.ENDED, 0, "said\n")
    finally:
        os.kill(int((bin_.folder / "child").read_text()), 9)


def test_a_tool_that_was_killed_and_is_still_there_is_not_started_again(bin_: Bin) -> None:
    """As a process in state U: here another lives in its place."""
    path = str(bin_.script("verbs", "echo again"))
    unkillable = subprocess.Popen(["/bin/sleep", "600"])
    bin_.tools._stuck[path] = unkillable
    try:
        assert bin_.run("verbs").ending == Ending.STUCK
    finally:
        unkillable.kill()
        unkillable.wait()
    assert bin_.run("verbs").stdout == "again\n"


def test_root_is_asked_for_without_a_password(bin_: Bin) -> None:
    bin_.script("sudo", 'echo "sudo $*"')
    path = bin_.script("power", "exit 1")
    assert bin_.run("power", "-n", as_root=True).stdout == f"sudo -n {path} -n\n"
    (bin_.folder / "sudo").unlink()
    assert bin_.run("power", as_root=True).ending == Ending.ABSENT


def test_what_cannot_be_started_says_why(bin_: Bin) -> None:
    path = bin_.folder / "broken"
    path.write_text("#!/nowhere/interpreter\n")
    path.chmod(0o755)
    assert "No such file" in bin_.run("broken").problem
    assert bin_.run().ending == Ending.BARRED
    bin_.script("look", "exit 0")
    assert bin_.run("look", "a\0b").ending == Ending.BARRED


def test_the_end_of_the_agent_waits_for_no_tool(bin_: Bin) -> None:
    bin_.script("hang", f": > {bin_.folder}/begun; exec /bin/sleep 600")
    answer: list[ToolSaid] = []
    thread = threading.Thread(target=lambda: answer.append(bin_.run("hang", seconds=60.0)), daemon=True)
    thread.start()
    deadline = time.monotonic() + WAIT_SECONDS
    while not (bin_.folder / "begun").exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    bin_.tools.close()
    thread.join(WAIT_SECONDS)
    assert not thread.is_alive()
    assert answer[0].code != 0
    assert bin_.run("hang").ending == Ending.BARRED
