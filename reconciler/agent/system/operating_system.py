"""The system that this machine runs, by its own ``uname``, and the place of its tools.

Tools are in the system's folders, unless the agent was started with other folders: then their tools describe the machine.
"""

from __future__ import annotations

import functools
import os
import subprocess
from pathlib import Path
from typing import List, NamedTuple, Sequence, Tuple

FOLDERS = ("/usr/bin", "/usr/sbin", "/bin", "/sbin", "/usr/libexec/ApplicationFirewall")
"""Folders of the system's own tools; other folders of a login shell may contain anything."""
EMULATED = "emulated"
"""A file of this name next to the tools says that they only answer as such a machine would."""
TOOL_SECONDS = 10
"""Longest time for a tool."""
_folders: Tuple[str, ...] = FOLDERS


class System(NamedTuple):
    """The system's names, as in ``uname``."""

    sysname: str
    nodename: str
    release: str
    machine: str


def use(folders: Tuple[str, ...]) -> None:
    """Use the tools in these folders from now on. Called once, before any tool runs."""
    global _folders
    _folders = folders
    uname.cache_clear()
    tool.cache_clear()


@functools.lru_cache(maxsize=None)
def uname() -> System:
    """Return the machine's system. Raises ``OSError`` or ``subprocess.SubprocessError`` if a configured tool fails."""
    own = os.uname()
    if _folders == FOLDERS:
        return System(own.sysname, own.nodename, own.release, own.machine)
    words = [output(("uname", option)).strip() for option in ("-s", "-n", "-r", "-m")]
    return System(*words)


def output(command: Sequence[str], seconds: float = TOOL_SECONDS, check: bool = True) -> str:
    """Return the output of one of the system's tools. Raises ``OSError``, or ``subprocess.SubprocessError`` if it takes
    longer or, with ``check``, if it fails."""
    done = subprocess.run(
        [tool(command[0]), *command[1:]],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={"LC_ALL": "C"},
        timeout=min(seconds, TOOL_SECONDS),
        check=check,
    )
    return done.stdout.decode("utf-8", "replace")


def proc_stat(pid: int) -> List[bytes]:
    """Return the fields of ``/proc/PID/stat`` from the third on, the state (proc_pid_stat(5)). Raises ``OSError``."""
    content = Path("/proc/{}/stat".format(pid)).read_bytes()
    return content[content.rindex(b")") + 2 :].split()


def has_ended(fields: List[bytes]) -> bool:
    """Return whether a process has ended, from ``proc_stat``. Other threads may outlive the first, whose state it shows."""
    return fields[0] in (b"Z", b"X") and int(fields[17]) < 2


def is_linux() -> bool:
    """Return whether there is a ``/proc`` to read instead of running tools."""
    return uname().sysname == "Linux"


def is_mac() -> bool:
    return uname().sysname == "Darwin"


@functools.lru_cache(maxsize=None)
def tool(name: str) -> str:
    """Return the absolute path of a tool; for a missing one, a path at which it could be."""
    places = [Path(folder) / name for folder in (*_folders, *FOLDERS)]
    return next((str(place) for place in places if os.access(place, os.X_OK)), "/usr/bin/" + name)


def emulated() -> bool:
    """Return whether the configured tools are those of an emulated machine."""
    return any((Path(folder) / EMULATED).exists() for folder in _folders)
