"""Telling a process from a later one that was given the same number, and ending process groups."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Optional


def birth(pid: int, boot_id: str) -> Optional[str]:
    """What a process has in common with no other: the boot and the time of its start. None when gone.

    Linux: field 22 of ``/proc/PID/stat`` (proc_pid_stat(5)); elsewhere ``ps -o lstart=``. A process that
    has ended and only waits to be reaped counts as gone.
    """
    if os.uname().sysname == "Linux":
        return _birth_from_proc(pid, boot_id)
    shown = subprocess.run(
        ["/bin/ps", "-o", "stat=,lstart=", "-p", str(pid)],
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


def signal_group(pid: int, number: int) -> None:
    """Send a signal to the process group that ``pid`` leads; nothing when there is none left.

    macOS answers EPERM, not ESRCH, for a group of which only zombies are left.
    """
    try:
        os.killpg(pid, number)
    except (ProcessLookupError, PermissionError):
        return


def signal_process(pid: int, number: int) -> None:
    """Send a signal to one process; nothing when it is gone."""
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return
