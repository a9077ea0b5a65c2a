"""The lock of a service: held as long as its process lives, and readable by others that look for the process.

The kernel releases a lock when its process ends for any reason. So the lock, and not the number in it, shows whether
the service runs.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import logging
import os
import shlex
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from io import FileIO
from pathlib import Path

from reconciler import __version__
from reconciler.wire.file_identity import FileIdentity

TAKE_OVER = "--take-over"
"""Option of a service that takes over from the running one."""
NOT_HANDED_OVER = 3
"""Exit status of a service that should take over, if the running one hands nothing over."""
log = logging.getLogger(__name__)

PS_SECONDS = 3.0


@dataclass(frozen=True, slots=True)
class Holder:
    """The process that holds a lock."""

    pid: int
    started_as: str
    """Its program, version and arguments; empty where an older version has not written them."""

    def __str__(self) -> str:
        return str(self.pid) if self.pid else "unknown"


def started_as(arguments: Sequence[str]) -> str:
    """Return program, version and arguments, which tell whether a running service is the one that would be started."""
    return shlex.join([sys.executable, str(Path(__file__).parents[1]), __version__, *arguments])


class Lock:
    """A lock that this process holds, will inherit from another process, or has handed over to one."""

    def __init__(self, path: Path, description: str, file: FileIO | None = None) -> None:
        """``file`` is open for appending, and locked; None if another process holds the lock. Raises ``OSError``."""
        self._path = path
        self._file = file
        self._words = f"{os.getpid()}\n{description}\n".encode()
        self.written = False
        """True if it names its holder."""
        at = str(path)
        self.identity = FileIdentity.at(at) if file is None else FileIdentity.held(at, file.fileno())

    def write(self) -> None:
        """Write down the holder, unless it is another process. Raises ``OSError``: then the lock names nobody."""
        if self._file is None:
            return
        self._file.truncate(0)
        if self._file.write(self._words) != len(self._words):  # half a number would name another process
            self._file.truncate(0)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self.written = True

    def fileno(self) -> int:
        """Return its descriptor. A process that has the descriptor holds the lock."""
        assert self._file is not None
        return self._file.fileno()

    def inherit(self, descriptor: int) -> None:
        """Hold it by a descriptor that another process has handed over, even if it cannot be written."""
        self._file = os.fdopen(descriptor, "ab+", buffering=0)
        try:
            self.write()
        except OSError as error:  # a full disk is no reason to stop serving
            log.warning("%s cannot be written, and does not say who holds it: %s", self._path, error)

    def let_go(self) -> None:
        """Close the descriptor, because another process holds the lock now and owns the file."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def give_back(self) -> None:
        """Show that this process ends in order, unless another process holds the lock."""
        if self._file is not None:
            self._file.truncate(0)


@contextlib.contextmanager
def held(path: Path, description: str) -> Iterator[tuple[Lock, None] | tuple[None, Holder]]:
    """Hold the lock at ``path`` for this process, or yield the process that holds it already."""
    with path.open("ab+", buffering=0) as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            yield None, _holder(path)
            return
        lock = Lock(path, description, file)
        lock.write()
        yield lock, None
        lock.give_back()  # not after an error: an empty lock was given back in order


@contextlib.contextmanager
def to_inherit(path: Path, description: str) -> Iterator[Lock]:
    """Yield the lock at ``path``, which another process holds and may hand over. Raises ``OSError`` if it is gone."""
    lock = Lock(path, description)
    try:
        yield lock
        lock.give_back()
    finally:
        lock.let_go()


def holder(path: Path) -> Holder | None:
    """Return the process that holds the lock at ``path``; None if there is none."""
    try:
        with path.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return _holder(path)
    except OSError:
        return None
    return None


def given_back(path: Path) -> bool:
    """Return whether the last holder of the lock at ``path`` has ended in order, as far as can be known."""
    try:
        return not path.read_bytes()
    except OSError:
        return False


def stopped_holder(path: Path) -> int:
    """Return the pid of the process that holds the lock at ``path``, if a signal has stopped it; else 0."""
    found = holder(path)
    return found.pid if found is not None and found.pid and process_state(found.pid) == "T" else 0


def process_state(pid: int) -> str:
    """Return the state of a process as one letter of ``ps``; empty if it is not known."""
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        if Path("/proc/self/stat").exists():  # proc_pid_stat(5), field 3; there may be no ps
            return Path(f"/proc/{pid}/stat").read_text("utf-8", "replace").rpartition(")")[2].split()[0]
        command = ("ps", "-o", "state=", "-p", str(pid))
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, timeout=PS_SECONDS, check=False
        )
        return done.stdout.decode("ascii", "replace").strip()[:1]
    return ""


def _holder(path: Path) -> Holder:
    """Return the holder that the lock names; a lock that was just taken names nobody yet."""
    number, _, description = path.read_text(encoding="utf-8").strip().partition("\n")
    return Holder(int(number) if number.isdecimal() else 0, description)
