"""What the agent's command says before there is an agent, and how an agent is held by its session."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from reconciler.agent import entry, serving
from reconciler.agent.serving import EXIT_FENCED, EXIT_USAGE
from reconciler.agent.system import operating_system
from reconciler.wire.node import HeldBy
from tests.agent.bench import soon


@pytest.fixture(autouse=True)
def _nothing_of_this_process_is_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operating_system, "use", lambda folders: None)
    monkeypatch.setattr("os.umask", lambda mask: 0)


def ask(home: Path, token: int, *more: str) -> int:
    with tempfile.TemporaryDirectory(prefix="r-") as run:  # short enough for a socket
        folders = {"--directory": home, "--models": home, "--run-directory": run, "--python": "python3"}
        given = [word for name, folder in folders.items() for word in (name, str(folder))]
        return entry.main(["serve", "--node", "node-a", *given, "--ask", "--token", str(token), *more])


@pytest.mark.parametrize(
    ("kept", "token", "status", "said"),
    [
        ("", 3, 0, ""),
        ('{"version": 1, "token": 3}', 3, 0, ""),
        ('{"version": 1, "token": 3}', 4, 0, ""),
        ('{"version": 1, "token": 3}', 0, 0, ""),
        ('{"version": 1, "token": 3}', 2, EXIT_FENCED, "token 2 is older than 3"),
        ('{"version": 1, "token": "x"}', 4, 1, "expected an object with the number 'token'"),
        ("{", 4, 1, "fence.json"),
    ],
)
def test_an_agent_may_be_started_with_a_token_that_is_not_older_than_the_last_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], kept: str, token: int, status: int, said: str
) -> None:
    if kept:
        (tmp_path / "fence.json").write_text(kept)
    assert ask(tmp_path, token) == status
    assert said in capsys.readouterr().err


def test_a_directory_that_cannot_be_is_said_before_anything_else(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    assert ask(tmp_path / "file" / "below", 0) == EXIT_USAGE == os.EX_USAGE
    assert "Not a directory" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("given", "folders"),
    [([], operating_system.FOLDERS), (["--tools", "/a:/b"], ("/a", "/b"))],
    ids=["the system's", "others"],
)
def test_tools_are_taken_from_the_folders_that_the_command_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: list[str], folders: tuple[str, ...]
) -> None:
    used: list[tuple[str, ...]] = []
    monkeypatch.setattr(operating_system, "use", used.append)
    assert ask(tmp_path, 0, *given) == 0
    assert used == [folders]


def test_a_repair_is_watched_by_a_process_that_is_no_agent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(signal, "signal", lambda *_: None)  # it ignores some in its own process
    places = ("--directory", str(tmp_path), "--models", str(tmp_path), "--tools", "/a:/b")
    assert entry.main(["repair", *places]) == 0
    assert [path.name for path in tmp_path.iterdir()] == ["repair.lock"], "it looked for a repair"


@pytest.fixture
def session() -> Iterator[int]:
    """The end of a session from which this process's standard input comes."""
    own, hang_up = os.dup(0), signal.getsignal(signal.SIGHUP)
    read, write = os.pipe()
    os.dup2(read, 0)
    os.close(read)
    yield write
    os.dup2(own, 0)
    os.close(own)
    signal.signal(signal.SIGHUP, hang_up)


async def test_an_agent_outlives_its_session_and_says_so_once(session: int) -> None:
    ends: list[str] = []
    agent: Any = SimpleNamespace(end_with_session=lambda: ends.append(HeldBy.LEFT))
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, fault: ends.append(str(fault)))
    serving._watch_session(loop, agent)
    os.write(session, b"typed")
    await asyncio.sleep(0.01)
    assert ends == []
    os.close(session)
    os.kill(os.getpid(), signal.SIGHUP)
    await soon(lambda: ends)
    await asyncio.sleep(0.01)
    assert ends == [HeldBy.LEFT]
    assert not loop.remove_reader(0), "the end of its input is read once"


def test_a_session_hears_that_the_agent_serves_and_nothing_after_that() -> None:
    program = """
import os
from reconciler.agent.serving import confirm_to_session
from tests.agent.bench import SOON_SECONDS, soon
before = len(os.listdir("/dev/fd"))
confirm_to_session()
for descriptor in (1, 2):
    os.write(descriptor, b"more")
os._exit(len(os.listdir("/dev/fd")) - before)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, timeout=60, check=True)
    assert (done.stdout, done.stderr) == (b"serving\n", b"")


def test_an_agent_in_the_background_keeps_nothing_of_who_started_it() -> None:
    program = """
import os
from reconciler.agent.serving import _detach
on_ready = _detach()
os.write(2, b"before it serves\\n")
os.dup2(2, 9)
on_ready()
for descriptor in (1, 2):
    os.write(descriptor, b"more")
os.write(9, b"reads %r" % os.read(0, 100))
os._exit(0)
"""
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, input=b"typed", capture_output=True, timeout=60, check=True)
    assert (done.stdout, done.stderr) == (b"", b"before it serves\nreads b''")
