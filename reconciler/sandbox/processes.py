"""Finds and ends the real processes of emulated machines, by their ``HOME``."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from .tools.call import Process

_PROC = Path("/proc")
_PS = ("/bin/ps", "-Eww", "-axo", "pid=,ppid=,command=")
_PS_SECONDS = 10
_LISTEN = "0A"
"""TCP_LISTEN in /proc/net/tcp (include/net/tcp_states.h)."""
ROUNDS = 50
"""The most rounds of finding and killing remaining processes: killed ones may just have started more."""
_ROUND_SECONDS = 0.1
RANK = re.compile(r"reconciler[.]runner")


def of(home: Path) -> tuple[Process, ...]:
    """Return living processes with this ``HOME``, without zombies."""
    return tuple(_from_proc(home) if (_PROC / "self" / "environ").exists() else _from_ps(home))


def _from_proc(home: Path) -> Iterator[Process]:
    mark = b"\0HOME=" + os.fsencode(home) + b"\0"
    for folder in _PROC.iterdir():
        if not folder.name.isdigit():
            continue
        with suppress(OSError, ValueError, IndexError):
            if mark not in b"\0" + (folder / "environ").read_bytes() + b"\0":
                continue
            content = (folder / "stat").read_bytes()
            fields = content[content.rindex(b")") + 2 :].split()
            if fields[0] not in (b"Z", b"X"):
                command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
                yield Process(int(folder.name), int(fields[1]), command.strip())


def _from_ps(home: Path) -> Iterator[Process]:
    """Yield processes on macOS, whose ``ps -E`` shows the environment after the command."""
    shown = subprocess.run(
        _PS, stdin=subprocess.DEVNULL, capture_output=True, timeout=_PS_SECONDS, check=False
    )
    for line in shown.stdout.decode("utf-8", "replace").splitlines():
        words = line.split(None, 2)
        if len(words) == 3 and f" HOME={home} " in f"{words[2]} ":
            yield Process(int(words[0]), int(words[1]), words[2])


def ports(processes: tuple[Process, ...]) -> tuple[int, ...]:
    """Return the TCP ports on which they listen; those of all processes if they cannot be distinguished."""
    inodes = set()
    for process in processes:
        with suppress(OSError):
            inodes |= {str(link.readlink()) for link in (_PROC / str(process.pid) / "fd").iterdir()}
    found = set()
    for table in ("tcp", "tcp6"):
        with suppress(OSError):
            rows = [line.split() for line in (_PROC / "net" / table).read_text("ascii").splitlines()[1:]]
            found |= {
                int(row[1].rpartition(":")[2], 16)
                for row in rows
                if row[3] == _LISTEN and f"socket:[{row[9]}]" in inodes
            }
    return tuple(sorted(found))


def kill_ranks(home: Path) -> tuple[int, ...]:
    """Kill the ranks of a machine with SIGKILL. Return their pids."""
    killed = tuple(each.pid for each in of(home) if RANK.search(each.command))
    for pid in killed:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return killed


async def kill_all(home: Path) -> int:
    """Kill all processes of a machine with SIGKILL. Return the number that were left after all rounds."""
    left = of(home)
    for _ in range(ROUNDS):
        if not left:
            return 0
        for each in left:
            with suppress(ProcessLookupError):
                os.kill(each.pid, signal.SIGKILL)
        await asyncio.sleep(_ROUND_SECONDS)
        left = of(home)
    return len(left)
