"""What goes on between ssh's start and its first answer, with an ssh that takes its time over each step."""

from __future__ import annotations

import socket
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from reconciler.cli.contexts import away
from reconciler.cli.contexts.away import Away
from reconciler.cli.contexts.contexts_file import Context
from reconciler.errors import Unreachable

pytestmark = pytest.mark.processes

SLOW_SSH = f"""#!{sys.executable}
import socket, sys, time
forward = sys.argv[sys.argv.index("-L") + 1].split(":")[0]
listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
listener.bind(forward)
time.sleep(0.2)
{{then}}
"""


@pytest.fixture
def folder(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="r-") as made:
        monkeypatch.setenv("PATH", made, prepend=":")
        monkeypatch.setattr(tempfile, "tempdir", made)
        yield Path(made)


def ssh(folder: Path, then: str) -> Away:
    """Return a home that is reached by an ssh which makes its socket's file, and ``then`` does what is given."""
    (folder / "ssh").write_text(SLOW_SSH.format(then=then))
    (folder / "ssh").chmod(0o755)
    return Away(Context("studio", "/home/there", "ssh://there"))


def test_a_socket_that_does_not_listen_yet_is_waited_for(folder: Path) -> None:
    there = ssh(folder, "listener.listen(); print(flush=True); sys.stdin.read()")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.connect(str(there.socket()))
    there.close()


def test_an_ssh_that_ends_is_told_by_its_last_words(folder: Path) -> None:
    there = ssh(folder, "sys.exit('kex_exchange_identification: read: Connection reset by peer')")
    with pytest.raises(Unreachable, match="cannot be reached: kex_exchange_identification"):
        there.socket()
    there.close()


def test_an_ssh_that_says_nothing_is_not_waited_for_for_ever(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(away, "SECONDS_MAX", 0.5)
    there = ssh(folder, "sys.stdin.read()")
    with pytest.raises(Unreachable, match=r"has not let this user in after 0\.5 s"):
        there.socket()
    there.close()
    assert not list(folder.glob("rec-*"))
