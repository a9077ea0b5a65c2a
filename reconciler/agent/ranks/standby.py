"""The standby process: a shim and its rank's process, which have finished their imports and wait for the next rank.

Both take longer to start than everything else between the end of a group and the next one's weights. A spare is no
rank: it has no directory, no port and no weights. It ends with the agent that it belongs to, whose end of the socket
between them closes then.
"""

from __future__ import annotations

import os
import select
import signal
import socket
import subprocess
from pathlib import Path
from typing import BinaryIO, Sequence

from . import child, shim
from .directory import RankDirectory

_PATH_BYTES_MAX = 4096


class StandbyShim:
    """The agent's end."""

    def __init__(self, command: Sequence[str], like: Path, log: Path) -> None:
        """Start one with ``command``, and with the program of the rank whose directory is ``like``. Raises ``OSError``."""
        self._control, theirs = socket.socketpair()
        with theirs, log.open("wb") as errors:
            self.process = subprocess.Popen(
                [*command, "--control", str(theirs.fileno()), "--like", str(like)],
                stdin=subprocess.DEVNULL,
                stdout=errors,
                stderr=errors,
                pass_fds=(theirs.fileno(),),
                start_new_session=True,
            )

    def become(self, rank: Path, listener: socket.socket, errors: BinaryIO) -> bool:
        """Make its process the shim of the rank in the directory ``rank``. Return whether it still runs."""
        with self._control:
            try:
                socket.send_fds(self._control, [os.fsencode(rank)], [listener.fileno(), errors.fileno()])
            except OSError:
                return False
        return True

    def close(self) -> None:
        """Let the unused standby process end soon."""
        self._control.close()


def run(control: int, like: Path) -> int:
    """Run as a standby process until there is a rank for it, then as its shim. Return the exit status."""
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    program = shim.read_program(RankDirectory(like))
    waiting = child.start_standby(*program)
    with socket.socket(fileno=control) as agent:
        agent.set_inheritable(False)
        select.select([agent.fileno(), waiting.progress], [], [])
        rank, descriptors, _, _ = (
            socket.recv_fds(agent, _PATH_BYTES_MAX, 2) if waiting.progress_closed() else (b"", [], 0, None)
        )
    if not rank:
        waiting.end_unused()
        return 0
    listener, errors = descriptors
    for target in (1, 2):
        os.dup2(errors, target)
    os.close(errors)
    os.set_inheritable(listener, False)
    shim.run(Path(os.fsdecode(rank)), socket.socket(fileno=listener), shim.Standby(program, waiting))
    return 0
