"""Processes from the outside: what they have used, what state they are in, and how they are held still."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

HAS_PROC = sys.platform == "linux"
"""Elsewhere ``ps`` says it, which a Debian need not have."""
TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


class Process(NamedTuple):
    """One row of ``ps``."""

    pid: int
    parent: int
    """The process that it came from, or that has taken it over."""
    state: str
    """One letter, of the main thread."""
    command: str
    """Its words, with a blank between two; empty of one that is about to end."""


def listed() -> list[Process]:
    """Return every process that there is."""
    if HAS_PROC:
        pids = (int(name) for name in os.listdir("/proc") if name.isdigit())  # noqa: PTH208
        return [found for pid in pids if (found := _from_proc(pid))]
    rows = (row.split(None, 3) for row in _ps("-A", "-ww", "-o", "pid=,ppid=,state=,args=").splitlines())
    return [Process(int(row[0]), int(row[1]), row[2][0], row[3] if len(row) > 3 else "") for row in rows]


def _ps(*words: str) -> str:
    return subprocess.run(("ps", *words), capture_output=True, text=True, check=False, timeout=60).stdout


def _from_proc(pid: int) -> Process | None:
    fields = stat_fields(pid)
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return None
    if not fields:
        return None
    return Process(pid, int(fields[1]), fields[0], " ".join(map(os.fsdecode, words)).strip())


def _found(pid: int) -> Process | None:
    return _from_proc(pid) if HAS_PROC else next((each for each in listed() if each.pid == pid), None)


def stat_fields(pid: int) -> list[str]:
    """What /proc/PID/stat says after the name, from its third field (the state) on; empty of one that is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


def state(pid: int) -> str:
    """One letter, of the main thread; empty when there is no such process."""
    found = _found(pid)
    return found.state if found else ""


def gone(pid: int) -> bool:
    """Whether it has ended, also where nobody has asked for its exit yet."""
    return state(pid) in ("", "Z")


def parent_of(pid: int) -> int:
    """The process that it came from, or that has taken it over; 0 where it is gone."""
    found = _found(pid)
    return found.parent if found else 0


def session_of(pid: int) -> int:
    """The process that leads its session; 0 where it is gone."""
    try:
        return os.getsid(pid)
    except ProcessLookupError:
        return 0


def command_of(pid: int) -> str:
    """Its command line; empty when it is gone."""
    found = _found(pid)
    return found.command if found else ""


def descendants(pid: int) -> list[int]:
    """A process and all that came of it, parents first."""
    children: dict[int, list[int]] = {}
    for each in listed():
        children.setdefault(each.parent, []).append(each.pid)
    found = [pid]
    for parent in found:
        found += children.get(parent, [])
    return found


def cpu_seconds(pids: Iterable[int]) -> float:
    """User and system time of these processes so far (fields 14 and 15 of /proc/PID/stat); 0 of one that is gone."""
    if not HAS_PROC:
        times = _ps("-o", "time=", "-p", ",".join(map(str, pids))).split()  # minutes:seconds
        return sum(60 * float(minutes) + float(seconds) for minutes, seconds in (t.split(":") for t in times))
    return sum(int(ticks) for pid in pids for ticks in stat_fields(pid)[11:13]) / TICKS_PER_SECOND


def resident_bytes(pid: int) -> int:
    """Memory of a process that is in RAM (field 2 of /proc/PID/statm); raises OSError of one that is gone."""
    if not HAS_PROC:
        return int(_ps("-o", "rss=", "-p", str(pid)) or 0) * 1024
    return int(Path(f"/proc/{pid}/statm").read_text("ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")


@contextlib.contextmanager
def standing_still(*pids: int) -> Iterator[None]:
    """Processes that get no time of the machine within the block; they may be gone after it."""
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)
