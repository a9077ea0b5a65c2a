"""Finds the leftovers of an ended rank: processes of its own, and ports that they listen on.

On Linux a process belongs to a rank if it is in the rank's session, or was given its ``config.json``. So a rank's own
listener differs from a stranger that has taken the port since. macOS shows neither. There the process group counts, and
every listener, because a node has its machine to itself. No port is ever connected to: a rank of an earlier version would
take that for its neighbour.
"""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Iterator, List, NamedTuple, Optional, Sequence, Set, Tuple

from reconciler.agent.system import operating_system
from reconciler.wire.launch import CONFIG_VARIABLE
from reconciler.wire.node import Gone

_PS = ("ps", "-axo", "pid=,pgid=,stat=")
_NETSTAT = ("netstat", "-an", "-p", "tcp")
_LISTEN = "0A"
"""TCP_LISTEN in /proc/net/tcp (include/net/tcp_states.h)."""
_SHOWN = 4


class Ended(NamedTuple):
    """Facts about an ended rank."""

    pid: Optional[int]
    """None if it never had a process, or had it in an earlier boot."""
    reused: bool
    """True if another process has its pid: then its session is empty, because a pid in use by a session is not
    reused."""
    config: str
    """Absolute path of its ``config.json``."""
    ports: Tuple[int, ...]
    """Ports on which it should have listened, except those that another process had before it."""


def find(ended: Ended) -> Tuple[str, str]:
    """Return a value of ``Gone``, and a description for people."""
    if ended.pid is None:
        return Gone.YES, ""
    try:
        left = _find_on_linux(ended) if operating_system.is_linux() else _find_with_tools(ended)
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        return Gone.UNKNOWN, "it cannot be determined: {}".format(error)
    return (Gone.NO, ", ".join(left)) if left else (Gone.YES, "")


def _find_on_linux(ended: Ended) -> List[str]:
    pids = list(_processes_of(ended))
    if not pids:
        return []
    listened = {
        port
        for table in ("/proc/net/tcp", "/proc/net/tcp6")
        if Path(table).exists()
        for port in listeners_in_proc(Path(table).read_text("ascii"))
    }
    return _describe(pids, sorted(listened & set(ended.ports)))


def _processes_of(ended: Ended) -> Iterator[int]:
    mark = "{}={}".format(CONFIG_VARIABLE, ended.config).encode() + b"\0"
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        try:
            fields = operating_system.proc_stat(int(folder.name))
            if operating_system.has_ended(fields):
                continue
            in_session = int(fields[3]) == ended.pid and not ended.reused
            if in_session or mark in (folder / "environ").read_bytes() + b"\0":
                yield int(folder.name)
        except OSError:
            continue  # it has ended, or is another user's


def listeners_in_proc(table: str) -> Set[int]:
    """Return the ports with listeners, from ``/proc/net/tcp`` or ``tcp6`` (proc_pid_net(5))."""
    rows = [line.split() for line in table.splitlines()[1:]]
    return {int(row[1].rpartition(":")[2], 16) for row in rows if len(row) > 3 and row[3] == _LISTEN}


def _find_with_tools(ended: Ended) -> List[str]:
    pids = [] if ended.reused else members(operating_system.output(_PS), ended.pid or 0)
    return _describe(pids, sorted(listeners(operating_system.output(_NETSTAT)) & set(ended.ports)))


def members(table: str, group: int) -> List[int]:
    """Return the living processes of a process group, from ``ps -axo pid=,pgid=,stat=``."""
    rows = [line.split() for line in table.splitlines()]
    return [int(row[0]) for row in rows if len(row) == 3 and row[1] == str(group) and row[2][0] != "Z"]


def listeners(table: str) -> Set[int]:
    """Return the ports with listeners, from ``netstat -an -p tcp``: the fourth column ends with a dot and the port."""
    found = set()
    for row in (line.split() for line in table.splitlines()):
        port = row[3].rpartition(".")[2] if len(row) == 6 and row[5] == "LISTEN" else ""
        if port.isdigit():
            found.add(int(port))
    return found


def _describe(pids: Sequence[int], ports: Sequence[int]) -> List[str]:
    shown = ["process {}".format(pid) for pid in sorted(pids)[:_SHOWN]]
    more = ["{} more".format(len(pids) - _SHOWN)] if len(pids) > _SHOWN else []
    return shown + more + ["port {}".format(port) for port in ports]
