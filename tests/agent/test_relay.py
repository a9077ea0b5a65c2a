"""What the gateway's key runs on a machine: a way to one rank's socket, and to nothing else."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from reconciler.agent import relay
from reconciler.agent.relay import EXIT_REFUSED, ORIGINAL_COMMAND
from reconciler.wire.paths import MARKED, RELAY_MARK

NAME = "r-0123456789ab.sock"
SECONDS = 60.0


@pytest.fixture
def run_directory() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="r-") as made:
        yield Path(made)


@pytest.fixture
def rank(run_directory: Path) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(run_directory / NAME))
        listener.listen()
        listener.settimeout(SECONDS)
        yield listener


def relaying(run_directory: Path, name: str = NAME) -> subprocess.Popen[bytes]:
    """As sshd starts it."""
    body = "import os, sys; from reconciler.agent import relay; sys.exit(relay.run(sys.argv[1], os.environ))"
    return subprocess.Popen(
        [sys.executable, "-c", body, str(run_directory)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, ORIGINAL_COMMAND: name},
    )


def test_both_directions_are_relayed_until_the_rank_ends(run_directory: Path, rank: socket.socket) -> None:
    content = os.urandom(300_000)
    with relaying(run_directory) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        connection, _ = rank.accept()
        with connection:
            process.stdin.write(b"asked")
            process.stdin.flush()
            assert connection.recv(5, socket.MSG_WAITALL) == b"asked"
            sending = threading.Thread(target=connection.sendall, args=(content,))
            sending.start()
            assert process.stdout.read(len(content)) == content
            sending.join()
        assert process.stdout.read() == b""
        assert process.wait(SECONDS) == 0, "though its input has not ended"


def test_the_mark_comes_before_the_rank_s_first_byte_where_it_is_asked_for(
    run_directory: Path, rank: socket.socket
) -> None:
    with relaying(run_directory, NAME + MARKED) as process:
        connection, _ = rank.accept()
        with connection:
            connection.sendall(b"hello")
            assert process.stdout is not None
            assert process.stdout.read(len(RELAY_MARK) + 5) == RELAY_MARK + b"hello"


def test_a_relay_ends_with_its_session(run_directory: Path, rank: socket.socket) -> None:
    with relaying(run_directory) as process:
        connection, _ = rank.accept()
        with connection:
            connection.settimeout(SECONDS)
            process.communicate(b"the last words", timeout=SECONDS)
            assert process.returncode == 0
            assert connection.recv(100) == b"the last words"
            assert connection.recv(100) == b""


@pytest.mark.parametrize(
    "name",
    ["", "/etc/passwd", "../" + NAME, f"{NAME}/x", "r-0123456789ab.sock\n", "a-0123456789ab.sock", "x" * 500],
)
def test_only_a_rank_s_socket_is_named(
    run_directory: Path, rank: socket.socket, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    assert relay.run(str(run_directory), {ORIGINAL_COMMAND: name}) == EXIT_REFUSED
    said = capsys.readouterr().err
    assert said.startswith("relay: expected the name of a rank's socket, got ")
    assert len(said) < 150


def test_without_a_command_nothing_is_relayed(run_directory: Path) -> None:
    assert relay.run(str(run_directory), {}) == EXIT_REFUSED


def test_a_file_in_the_place_of_a_socket_is_refused(
    run_directory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (run_directory / NAME).touch()
    assert relay.run(str(run_directory), {ORIGINAL_COMMAND: NAME}) == EXIT_REFUSED
    assert capsys.readouterr().err == f"relay: {NAME} is not a socket of this user\n"


def test_a_socket_of_another_user_is_refused(
    run_directory: Path, rank: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: mine + 1)
    assert relay.run(str(run_directory), {ORIGINAL_COMMAND: NAME}) == EXIT_REFUSED


def test_a_rank_that_is_not_there_is_named(run_directory: Path) -> None:
    for words in ("No such file or directory", "Connection refused"):
        with relaying(run_directory) as process:
            _, said = process.communicate(timeout=SECONDS)
        assert (process.returncode, said.decode()) == (os.EX_UNAVAILABLE, f"relay: {NAME}: {words}\n")
        with socket.socket(socket.AF_UNIX) as gone, contextlib.suppress(OSError):
            gone.bind(str(run_directory / NAME))
