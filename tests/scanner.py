"""A stranger on the network: connects to every port that some processes listen on, again and again, and holds on."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Iterable
from pathlib import Path

HELD_MAX = 400
"""Connections that it holds at a time, so that it has descriptors left itself."""
LISTENS = "0A"
"""TCP_LISTEN in /proc/net/tcp."""


class Scanner:
    """Runs within ``with``. Only ports of the processes that ``pids`` returns are ever connected to."""

    def __init__(self, pids: Callable[[], Iterable[int]]) -> None:
        self.connected = 0
        """How many connections it has made."""
        self.ports: set[int] = set()
        """The ports that it has found."""
        self._pids = pids
        self._held: list[socket.socket] = []
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="scanner")

    def __enter__(self) -> Scanner:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()
        for connection in self._held:
            connection.close()

    def _run(self) -> None:
        while not self._over.wait(0.001):
            for host, port in listening(self._pids()):
                with contextlib.suppress(OSError):
                    self._held.append(socket.create_connection((host, port), timeout=1.0))
                    self.connected += 1
                    self.ports.add(port)
            for connection in self._held[:-HELD_MAX]:
                connection.close()
            del self._held[:-HELD_MAX]


def listening(pids: Iterable[int]) -> set[tuple[str, int]]:
    """Addresses at which these processes listen for TCP now."""
    inodes = {inode for pid in pids for inode in _sockets(pid)}
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return {_address(row[1]) for row in rows if row[3] == LISTENS and row[9] in inodes}


def _sockets(pid: int) -> set[str]:
    """Inodes of a process's sockets."""
    found = set()
    with contextlib.suppress(OSError):
        for entry in Path(f"/proc/{pid}/fd").iterdir():
            with contextlib.suppress(OSError):
                found.add(str(entry.readlink()).removeprefix("socket:[").removesuffix("]"))
    return found


def _address(text: str) -> tuple[str, int]:
    """Address in the form of /proc/net/tcp, whose hosts are little-endian."""
    host, port = text.split(":")
    return socket.inet_ntoa(bytes.fromhex(host)[::-1]), int(port, 16)
