"""Measures the current use of a machine and its ranks: memory, and processor time."""

from __future__ import annotations

import dataclasses
import os
import re
import subprocess
import time
from pathlib import Path
from typing import Dict, Iterable, Optional

from reconciler.wire.node import Load

from . import operating_system

_SECONDS = 5
_PRESSURES = {"1": "normal", "2": "warn", "4": "critical"}
"""``kern.memorystatus_vm_pressure_level``: the values of DISPATCH_MEMORYPRESSURE in <dispatch/source.h>."""
_FREE_PAGES = ("free", "inactive", "speculative", "purgeable")
"""Kinds of pages that macOS can free without writing to disk."""


@dataclasses.dataclass(frozen=True)
class Usage:
    """Use of one process. ``cpu_seconds`` counts from its start."""

    cpu_seconds: float
    resident_bytes: int


@dataclasses.dataclass(frozen=True)
class Measured:
    """Use of the machine, and of the requested processes that exist."""

    load: Load
    processes: Dict[int, Usage]


@dataclasses.dataclass(frozen=True)
class RankUsage:
    """The use of a rank between two measurements, and its counters at the last."""

    cores: float = 0.0
    resident_bytes: int = 0
    tokens_per_second: float = 0.0
    at: Optional[float] = None
    cpu_seconds: float = 0.0
    tokens: int = 0

    def next(self, now: float, usage: Usage, tokens: int) -> RankUsage:
        """Return the use after another measurement at ``now``, by a monotonic clock."""
        cores = rate = 0.0
        if self.at is not None and now > self.at:
            cores = max(0.0, usage.cpu_seconds - self.cpu_seconds) / (now - self.at)
            rate = max(0, tokens - self.tokens) / (now - self.at)
        return RankUsage(
            round(cores, 2), usage.resident_bytes, round(rate, 1), now, usage.cpu_seconds, tokens
        )


def measure(pids: Iterable[int]) -> Measured:
    """Measure now. It takes a few milliseconds on macOS, where tools have to be run."""
    wanted = tuple(pids)
    if operating_system.is_linux():
        processes = {pid: usage for pid in wanted for usage in [_from_proc(pid)] if usage is not None}
        free, pressure = _available(Path("/proc/meminfo").read_text("ascii")), ""
    else:
        asked = ("ps", "-o", "pid=,rss=,time=", "-p", ",".join(map(str, wanted)))
        processes = _from_ps(_output(*asked)) if wanted else {}
        free = from_vm_stat(_output("vm_stat"))
        level = _output("sysctl", "-n", "kern.memorystatus_vm_pressure_level")
        pressure = _PRESSURES.get(level.strip(), "")
    return Measured(Load(time.time(), free, pressure, round(os.getloadavg()[0], 2)), processes)


def _available(meminfo: str) -> Optional[int]:
    """Parse ``MemAvailable`` of proc_meminfo(5)."""
    found = re.search(r"^MemAvailable:\s+(\d+) kB$", meminfo, re.MULTILINE)
    return int(found.group(1)) * 1024 if found else None


def _from_proc(pid: int) -> Optional[Usage]:
    """Parse fields 14, 15 and 24 of ``/proc/PID/stat`` (proc_pid_stat(5))."""
    try:
        fields = operating_system.proc_stat(pid)
    except OSError:
        return None
    ticks = int(fields[11]) + int(fields[12])
    return Usage(ticks / os.sysconf("SC_CLK_TCK"), int(fields[21]) * os.sysconf("SC_PAGE_SIZE"))


def _from_ps(shown: str) -> Dict[int, Usage]:
    rows = [line.split() for line in shown.splitlines()]
    return {
        int(row[0]): Usage(seconds_of(row[2]), int(row[1]) * 1024)
        for row in rows
        if len(row) == 3 and row[0].isdigit() and row[1].isdigit()
    }


def seconds_of(shown: str) -> float:
    """Parse ``ps -o time=``: ``[[dd-]hh:]mm:ss[.cc]``; macOS shows minutes beyond sixty instead of hours."""
    days, _, clock = shown.rpartition("-")
    seconds = 0.0
    for part in clock.split(":"):
        seconds = 60 * seconds + float(part)
    return 86400 * int(days or 0) + seconds


def from_vm_stat(shown: str) -> Optional[int]:
    """Return the available bytes: the page size is in the first line, and differs between Macs."""
    size = re.search(r"page size of (\d+) bytes", shown)
    pages = [re.search(r"^Pages {}:\s+(\d+)\.$".format(kind), shown, re.MULTILINE) for kind in _FREE_PAGES]
    if size is None or not any(pages):
        return None
    return int(size.group(1)) * sum(int(found.group(1)) for found in pages if found)


def _output(*command: str) -> str:
    """Return the output of a tool; empty if it cannot be run."""
    try:
        return operating_system.output(command, _SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
