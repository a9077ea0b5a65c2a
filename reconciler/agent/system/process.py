"""Distinguishes a process from a later one with the same number, and ends process groups."""

from __future__ import annotations

import contextlib
import os
import subprocess
from typing import Dict, Iterable, List, Optional

from . import operating_system

STOPPED = "T"
"""State of a process that a signal has stopped; one that a debugger holds shows ``t`` on Linux."""
REAP_SECONDS = 1.0
"""Time to wait for a process after SIGKILL. One that the kernel holds is left to ``reap``."""
_left: List[subprocess.Popen[bytes]] = []
"""Own processes that SIGKILL has not ended in time."""


def birth(pid: int, boot_id: str) -> Optional[str]:
    """Return an identity that no other process has: the boot, and the time of its start; None if it is gone.

    Linux: field 22 of ``/proc/PID/stat`` (proc_pid_stat(5)); elsewhere ``ps -o lstart=``. A zombie counts as gone.
    """
    if not operating_system.is_linux():
        shown = operating_system.output(("ps", "-o", "stat=,lstart=", "-p", str(pid)), check=False)
        state, _, start = shown.strip().partition(" ")
        return None if not state or state.startswith("Z") else boot_id + " " + " ".join(start.split())
    try:
        fields = operating_system.proc_stat(pid)
    except (FileNotFoundError, ProcessLookupError):
        return None
    return None if operating_system.has_ended(fields) else boot_id + " " + fields[19].decode("ascii")


def states(pids: Iterable[int]) -> Dict[int, str]:
    """Return the state of each existing process, as one letter of ``ps``; empty if they cannot be read.

    Linux: field 3 of ``/proc/PID/stat`` (proc_pid_stat(5)), the state of the main thread; elsewhere the first letter of
    ``ps -o state=`` (ps(1) of macOS).
    """
    if not operating_system.is_linux():
        return states_by_ps(pids)
    found = {}
    for pid in pids:
        with contextlib.suppress(OSError):
            found[pid] = operating_system.proc_stat(pid)[0].decode("ascii", "replace")
    return found


def states_by_ps(pids: Iterable[int]) -> Dict[int, str]:
    """Return ``states`` without ``/proc``: one ``ps`` for all processes."""
    try:
        shown = operating_system.output(
            ("ps", "-o", "pid=,state=", "-p", ",".join(map(str, pids))), check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return {}
    rows = [line.split() for line in shown.splitlines()]
    return {int(row[0]): row[1][0] for row in rows if len(row) == 2 and row[0].isdigit()}


def signal_group(pid: int, number: int) -> None:
    """Send a signal to the process group of ``pid``, if there is one.

    macOS answers EPERM, not ESRCH, for a group with zombies only. The number 0 would mean the caller's own group, and 1
    every process of the machine (kill(2)): no rank has them, and no damaged file may.
    """
    if pid <= 1:
        return
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, number)


def signal_process(pid: int, number: int) -> None:
    """Send a signal to one process, unless it is gone. The number 0 would mean a group."""
    if pid <= 1:
        return
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


def end(process: subprocess.Popen[bytes]) -> Optional[int]:
    """Kill a process of one's own. Return its status; None if SIGKILL does not end it: nothing waits for it."""
    process.kill()
    try:
        return process.wait(REAP_SECONDS)
    except subprocess.TimeoutExpired:
        _left.append(process)
        return None


def reap() -> int:
    """Ask for the exits of the processes that were left. Return how many have not ended yet."""
    _left[:] = [process for process in _left if process.poll() is None]
    return len(_left)
