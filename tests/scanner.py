"""A stranger on the network: connects to every port that some processes listen on, again and again, and holds on."""

from __future__ import annotations

import contextlib
import json
import os
import select
import socket
import struct
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

HELD_MAX = 400
"""Connections that it holds at a time, so that it has descriptors left itself."""
PAUSE_SECONDS = 0.002
LOOK_SECONDS = 0.1
"""How often it looks for new processes."""
NETLINK_SOCK_DIAG, SOCK_DIAG_BY_FAMILY, TCP_LISTEN, REQUEST_DUMP = 4, 20, 10, 0x301


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
        while not self._over.wait(PAUSE_SECONDS):
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
    return {address for inode, address in _listeners() if inode in inodes}


def _listeners() -> Iterator[tuple[str, tuple[str, int]]]:
    """Inode and address of every socket of the machine that listens for TCP over IPv4 (sock_diag(7)): the kernel's list
    of those alone, where /proc/net/tcp has all connections that ended lately as well."""
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_SOCK_DIAG) as asking:
        question = struct.pack("=BBBxI48x", socket.AF_INET, socket.IPPROTO_TCP, 0, 1 << TCP_LISTEN)
        asking.send(
            struct.pack("=IHHII", 16 + len(question), SOCK_DIAG_BY_FAMILY, REQUEST_DUMP, 1, 0) + question
        )
        while True:
            answer = asking.recv(1 << 16)
            while answer:
                length, kind = struct.unpack_from("=IH", answer)
                if kind != SOCK_DIAG_BY_FAMILY:
                    return
                (port,) = struct.unpack_from(">H", answer, 20)
                (inode,) = struct.unpack_from("=I", answer, 84)
                yield str(inode), (socket.inet_ntoa(answer[24:28]), port)
                answer = answer[(length + 3) & ~3 :]


def _sockets(pid: int) -> set[str]:
    """Inodes of a process's sockets."""
    found = set()
    with contextlib.suppress(OSError):
        for entry in Path(f"/proc/{pid}/fd").iterdir():
            with contextlib.suppress(OSError):
                found.add(str(entry.readlink()).removeprefix("socket:[").removesuffix("]"))
    return found


def main() -> None:
    """``python -m tests.scanner HOME``: scan what runs for a home but its gateway, until standard input ends; then print
    how many connections were made, to how many ports."""
    home = sys.argv[1]
    found = _Processes(home.encode())
    with Scanner(lambda: found.pids) as scanner:
        found.look_until_standard_input_ends()
    print(json.dumps({"connections": scanner.connected, "ports": len(scanner.ports)}))


class _Processes:
    """The processes of a home, looked for now and then, beside the look at their ports."""

    def __init__(self, home: bytes) -> None:
        self.pids: list[int] = []
        self._home = home

    def look_until_standard_input_ends(self) -> None:
        while not select.select([sys.stdin], [], [], LOOK_SECONDS)[0]:
            self.pids = [int(each.name) for each in Path("/proc").glob("[0-9]*") if self._is_one(each)]

    def _is_one(self, process: Path) -> bool:
        with contextlib.suppress(OSError):
            words = (process / "cmdline").read_bytes()
            mine = self._home in words or self._home in (process / "environ").read_bytes()
            return mine and b"\0gateway\0" not in words and int(process.name) != os.getpid()
        return False


if __name__ == "__main__":
    main()
