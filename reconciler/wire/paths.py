"""The paths of a node's Unix sockets: short names in one short directory.

macOS limits the path of a Unix socket to 104 bytes including its terminating zero (``sun_path`` in ``sys/un.h``), and
names of deployments are long: socket names are therefore digests.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from .launch import RankId

SOCKET_PATH_BYTES_MAX = 103
"""The longest path of a Unix socket on macOS, without its terminating zero."""

WORK = "work"
"""Name of the working directory in the place of a job's rank. It belongs to the user that runs the program."""
_DIGITS = 12
RANK_SOCKET = r"r-[0-9a-f]{12}\.sock\Z"
"""Pattern of a rank's socket name."""
MARKED = " marked"
"""Follows the socket's name, to have the relay print ``RELAY_MARK`` first. Relays of older agents refuse it."""
RELAY_MARK = b"\nreconciler-relay\n"
"""Ends the output of a login shell's start-up files; the rank's bytes follow."""


def agent_socket(run_directory: str, node: str) -> str:
    """Return the socket on which the agent of a node answers. Raises ``ValueError`` if it is too long."""
    return _socket(run_directory, "a", node)


def shim_socket(run_directory: str, id: RankId) -> str:
    """Return the socket on which the shim of a rank answers its agent. Raises ``ValueError`` as above."""
    return _socket(run_directory, "s", str(id))


def rank_socket(run_directory: str, id: RankId) -> str:
    """Return the socket on which rank 0 of a group answers the gateway. Raises ``ValueError`` as above."""
    return _socket(run_directory, "r", str(id))


def taking_socket(run_directory: str, node: str, path: str) -> str:
    """Return the socket on which the fetcher of a node takes weights from another. Raises ``ValueError`` as above."""
    return _socket(run_directory, "t", "{}/{}".format(node, path))


def giving_socket(run_directory: str, node: str, path: str) -> str:
    """Return the socket on which a node gives its weights to others. Raises ``ValueError`` as above."""
    return _socket(run_directory, "g", "{}/{}".format(node, path))


def jobs_root(uid: int) -> str:
    """Return the folder of an agent's user in which jobs of other users have their places (mode 0711)."""
    return "/var/tmp/reconciler-jobs-{}".format(uid)


def job_place(rank_directory: str, user: str, uid: int) -> str:
    """Return the folder with the working directory of a job's rank. It belongs to the agent's user, ``uid``. For ``user``,
    another user, it is outside of the agent's home."""
    if not user:
        return rank_directory
    digest = hashlib.sha256(os.fsencode(rank_directory)).hexdigest()[: 2 * _DIGITS]
    return str(Path(jobs_root(uid)) / digest)


def _socket(run_directory: str, kind: str, name: str) -> str:
    digest = hashlib.sha256(name.encode()).hexdigest()[:_DIGITS]
    path = str(Path(run_directory) / "{}-{}.sock".format(kind, digest))
    length = len(os.fsencode(path))
    if length > SOCKET_PATH_BYTES_MAX:
        raise ValueError(
            "the socket path {} has {} bytes, the most is {}: choose a shorter RECONCILER_HOME, or for a node over SSH a"
            " user whose home has a shorter path".format(path, length, SOCKET_PATH_BYTES_MAX)
        )
    return path
