"""The forced command of a gateway's key: connects an SSH channel to the socket of one rank, and nothing else.

``sshd`` runs it instead of the requested command, which it puts into ``SSH_ORIGINAL_COMMAND``. That has to be the
name of a rank's socket; `` marked`` after it asks for ``RELAY_MARK`` before the rank's first byte, because the login shell
that starts the relay may print. At most 64 KiB are buffered in each direction: a side that does not read holds up the other
one, by the flow control of SSH and of the socket.
"""

from __future__ import annotations

import os
import re
import socket
import stat
import sys
import threading
from pathlib import Path
from typing import Callable, Mapping

from reconciler.wire.paths import MARKED, RANK_SOCKET, RELAY_MARK

ORIGINAL_COMMAND = "SSH_ORIGINAL_COMMAND"
EXIT_REFUSED = 77
"""The requested path is no rank's socket of this user (``EX_NOPERM`` in sysexits.h)."""
EXIT_NOBODY = 69
"""There is no such socket, or nobody listens on it (``EX_UNAVAILABLE``)."""
_CHUNK = 64 * 1024
_CONNECT_SECONDS = 5.0
_STDIN, _STDOUT = 0, 1


def run(run_directory: str, environment: Mapping[str, str]) -> int:
    """Relay until either side ends. Returns the exit status only if there is nothing to relay."""
    requested = environment.get(ORIGINAL_COMMAND, "")
    marked = requested.endswith(MARKED)
    requested = requested[: -len(MARKED)] if marked else requested
    try:
        connection = _connect(run_directory, requested)
    except ValueError as error:
        sys.stderr.write("relay: {}\n".format(error))
        return EXIT_REFUSED
    except OSError as error:
        sys.stderr.write("relay: {}: {}\n".format(requested, error.strerror or error))
        return EXIT_NOBODY
    if marked:
        _write_all(RELAY_MARK)
    _splice(connection)
    return 0


def _connect(run_directory: str, name: str) -> socket.socket:
    """Connect to a rank's socket. Raises ``ValueError`` for a forbidden name, ``OSError`` if the connection fails."""
    if not re.match(RANK_SOCKET, name):
        raise ValueError("expected the name of a rank's socket, got {!r}".format(name[:80]))
    path = Path(run_directory) / name
    found = path.lstat()
    if not stat.S_ISSOCK(found.st_mode) or found.st_uid != os.geteuid():
        raise ValueError("{} is not a socket of this user".format(name))
    connection = socket.socket(socket.AF_UNIX)
    connection.settimeout(_CONNECT_SECONDS)
    connection.connect(str(path))
    connection.settimeout(None)
    return connection


def _splice(connection: socket.socket) -> None:
    """Copy in both directions until one of them ends. That ends the process, even while the other is at work."""
    over = threading.Event()

    def copy(read: Callable[[], bytes], write: Callable[[bytes], object]) -> None:
        try:
            chunk = read()
            while chunk:
                write(chunk)
                chunk = read()
        except OSError:
            pass  # the other side is gone, and so is the output for it
        over.set()

    directions = (
        (lambda: os.read(_STDIN, _CHUNK), connection.sendall),
        (lambda: connection.recv(_CHUNK), _write_all),
    )
    for direction in directions:
        threading.Thread(target=copy, args=direction, daemon=True).start()
    over.wait()
    os._exit(0)


def _write_all(chunk: bytes) -> None:
    left = memoryview(chunk)
    while left:
        left = left[os.write(_STDOUT, left) :]
