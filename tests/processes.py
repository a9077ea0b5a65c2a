"""Processes from the outside: what they have used, what state they are in, and how they are held still."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterable, Iterator
from pathlib import Path

TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


def stat_fields(pid: int) -> list[str]:
    """What /proc/PID/stat says after the name, from its third field (the state) on; empty of one that is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


def state(pid: int) -> str:
    """One letter, of the main thread; empty when there is no such process."""
    return "".join(stat_fields(pid)[:1])


def gone(pid: int) -> bool:
    """Whether it has ended, also where nobody has asked for its exit yet."""
    return state(pid) in ("", "Z")


def parent_of(pid: int) -> int:
    """The process that it came from, or that has taken it over; 0 where it is gone."""
    fields = stat_fields(pid)
    return int(fields[1]) if fields else 0


def cpu_seconds(pids: Iterable[int]) -> float:
    """User and system time of these processes so far (fields 14 and 15 of /proc/PID/stat); 0 of one that is gone."""
    return sum(int(ticks) for pid in pids for ticks in stat_fields(pid)[11:13]) / TICKS_PER_SECOND


def resident_bytes(pid: int) -> int:
    """Memory of a process that is in RAM (field 2 of /proc/PID/statm); raises OSError of one that is gone."""
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
