"""Distinguishes a process from a later one with the same number, and ends process groups."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Dict, Iterable, List, Optional

from . import operating_system

STOPPED = "T"
"""State of a process that a signal has stopped; one that a debugger holds shows ``t`` on Linux."""
_PS_SECONDS = 10
REAP_SECONDS = 1.0
"""Time to wait for a process after SIGKILL. One that the kernel holds is left to ``reap``."""
_left: List[subprocess.Popen[bytes]] = []
"""Own processes that SIGKILL has not ended in time."""


def birth(pid: int, boot_id: str) -> Optional[str]:
    """Return an identity that no other process has: the boot, and the time of its start; None if it is gone.

    Linux: field 22 of ``/proc/PID/stat`` (proc_pid_stat(5)); elsewhere ``ps -o lstart=``. A zombie counts as gone.
    """
    if operating_system.is_linux():
        return _birth_from_proc(pid, boot_id)
    shown = subprocess.run(
        [operating_system.tool("ps"), "-o", "stat=,lstart=", "-p", str(pid)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        env={"LC_ALL": "C"},
        timeout=10,
        check=False,
    )
    state, _, start = shown.stdout.decode("ascii", "replace").strip().partition(" ")
    return None if not state or state.startswith("Z") else boot_id + " " + " ".join(start.split())


def _birth_from_proc(pid: int, boot_id: str) -> Optional[str]:
    try:
        content = Path("/proc/{}/stat".format(pid)).read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return None
    fields = content[content.rindex(b")") + 2 :].split()
    if fields[0] in (b"Z", b"X"):
        return None
    return boot_id + " " + fields[19].decode("ascii")


def states(pids: Iterable[int]) -> Dict[int, str]:
    """Return the state of each existing process, as one letter of ``ps``; empty if they cannot be read.

    Linux: field 3 of ``/proc/PID/stat`` (proc_pid_stat(5)), the state of the main thread; elsewhere the first letter of
    ``ps -o state=`` (ps(1) of macOS).
    """
    if operating_system.is_linux():
        return _states_from_proc(pids)
    return states_by_ps(pids)


def _states_from_proc(pids: Iterable[int]) -> Dict[int, str]:
    found = {}
    for pid in pids:
        try:
            content = Path("/proc/{}/stat".format(pid)).read_bytes()
        except OSError:
            continue
        found[pid] = content[content.rindex(b")") + 2 :][:1].decode("ascii", "replace")
    return found


def states_by_ps(pids: Iterable[int]) -> Dict[int, str]:
    """Return ``states`` without ``/proc``: one ``ps`` for all processes."""
    try:
        shown = subprocess.run(
            [operating_system.tool("ps"), "-o", "pid=,state=", "-p", ",".join(map(str, pids))],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            env={"LC_ALL": "C"},
            timeout=_PS_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return {}
    rows = [line.split() for line in shown.stdout.decode("ascii", "replace").splitlines()]
    return {int(row[0]): row[1][0] for row in rows if len(row) == 2 and row[0].isdigit()}


def signal_group(pid: int, number: int) -> None:
    """Send a signal to the process group of ``pid``, if there is one.

    macOS answers EPERM, not ESRCH, for a group with zombies only.
    """
    try:
        os.killpg(pid, number)
    except (ProcessLookupError, PermissionError):
        return


def signal_process(pid: int, number: int) -> None:
    """Send a signal to one process, unless it is gone."""
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return


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
