"""On a terminal: colours where they are wanted, one line that shows what goes on, and a real Ctrl-C."""

from __future__ import annotations

import os
import re
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from fcntl import ioctl
from pathlib import Path

import pytest

from tests.cli.conftest import Controller

pytestmark = pytest.mark.processes

ROOT = Path(__file__).parents[3]
WAIT_SECONDS = 60.0
COLUMNS = 60


@dataclass
class Terminal:
    """A pseudo-terminal of 60 columns with `reconciler` in its foreground."""

    descriptor: int
    process: subprocess.Popen[bytes]
    shown: str = ""

    def read_until(self, text: str) -> None:
        deadline = time.monotonic() + WAIT_SECONDS
        while text not in self.shown:
            assert time.monotonic() < deadline, self.shown
            self.shown += os.read(self.descriptor, 65536).decode()

    def read_to_the_end(self) -> int:
        while True:
            try:
                chunk = os.read(self.descriptor, 65536)
            except OSError:  # how Linux says that nobody has the other side open
                chunk = b""
            if not chunk:
                return self.process.wait(WAIT_SECONDS)
            self.shown += chunk.decode()


@contextmanager
def terminal(*arguments: str, environment: Mapping[str, str] | None = None) -> Iterator[Terminal]:
    ours, theirs = os.openpty()
    ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, COLUMNS, 0, 0))
    path = os.ttyname(theirs)
    # The first terminal that the leader of a session opens is the one whose Ctrl-C it gets.
    script = f'exec "$@" < {path} > {path} 2>&1'
    command = ["/bin/sh", "-c", script, "sh", sys.executable, "-m", "reconciler", *arguments]
    process = subprocess.Popen(
        command, cwd=ROOT, start_new_session=True, env={**os.environ, **(environment or {})}
    )
    made = Terminal(ours, process)
    try:
        while not made.shown:
            made.shown += os.read(ours, 65536).decode()
        os.close(theirs)
        yield made
    finally:
        if process.poll() is None:
            process.kill()
        process.wait(10)
        os.close(ours)


@pytest.mark.parametrize(("environment", "coloured"), [({"NO_COLOR": ""}, True), ({"NO_COLOR": "1"}, False)])
def test_errors_are_red_unless_no_color_is_set(
    environment: dict[str, str], coloured: bool, home: Path
) -> None:
    with terminal("--home", str(home), "get", "podz", environment=environment) as screen:
        assert screen.read_to_the_end() == 2
    assert ("\x1b[31m" in screen.shown) == coloured


@pytest.mark.parametrize(("environment", "coloured"), [({"NO_COLOR": ""}, True), ({"NO_COLOR": "1"}, False)])
def test_states_have_colours_unless_no_color_is_set(
    environment: dict[str, str], coloured: bool, home: Path, controller: Controller
) -> None:
    with terminal("--home", str(home), "get", "nodes", environment=environment) as screen:
        assert screen.read_to_the_end() == 0
    assert ("\x1b[32mTrue\x1b[0m" in screen.shown) == coloured


@pytest.mark.second_tier
def test_up_shows_what_goes_on_in_one_line_and_ctrl_c_ends_everything(home: Path) -> None:
    gateway = str(ROOT / "manifests" / "gateway.yaml")
    with terminal("--home", str(home), "up", "--any-port", "-f", gateway) as screen:
        screen.read_until("endpoint: http://")
        screen.read_until("RevisionApplied")  # events are asked for beside it
        os.write(screen.descriptor, b"\x03")
        assert screen.read_to_the_end() == 0
    shown = screen.shown.replace("\r\n", "\n")
    assert "starting the controller and the gateway ...\r\x1b[K" in shown
    lines = [
        line.removeprefix("\x1b[K") for line in shown.splitlines()
    ]  # what is erased ends with \r: a line, too
    events = [line for line in lines if re.match(r"\d\d:\d\d:\d\d\.", line)]
    assert events
    assert max(map(len, events)) <= COLUMNS
    assert "the controller was killed" not in shown
    assert shown.endswith("stopped\n")


@pytest.mark.second_tier
def test_a_hang_up_ends_up_in_order(home: Path) -> None:
    gateway = str(ROOT / "manifests" / "gateway.yaml")
    with terminal("--home", str(home), "up", "--any-port", "-f", gateway) as screen:
        screen.read_until("endpoint: http://")
        screen.process.send_signal(signal.SIGHUP)
        assert screen.read_to_the_end() == 0
    assert f"the next `reconciler --home {home} up` adopts them" in screen.shown


def test_warnings_and_open_incidents_stand_out(home: Path, controller: Controller) -> None:
    with terminal("--home", str(home), "events", environment={"NO_COLOR": ""}) as screen:
        assert screen.read_to_the_end() == 0
    assert "\x1b[33mWarning\x1b[0m" in screen.shown
    with terminal("--home", str(home), "events", "-w", environment={"NO_COLOR": ""}) as screen:
        screen.read_until("EpochAllocated")
    assert " \x1b[33m!\x1b[0m modeldeployment/tiny: RankExited" in screen.shown
