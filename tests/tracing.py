"""A debugger of three lines: it stops one thread of a process, which no signal continues.

Linux only (ptrace(2)). Where ``kernel.yama.ptrace_scope`` is 1 or more this needs the rights of root.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

PTRACE_SEIZE, PTRACE_INTERRUPT = 0x4206, 0x4207
"""From linux/ptrace.h."""
WALL = 0x40000000
"""``__WALL`` of waitpid(2): also for what is traced and no child."""
ROOT = Path(__file__).parents[1]
HOLDER_SECONDS = 20.0
HOLDS = """
import sys
from reconciler.sandbox.held import Holder
holder = Holder()
holder.hold(int(sys.argv[1]))
print("held", flush=True)
sys.stdin.read()
holder.release()
"""


@contextmanager
def main_thread_held(pid: int) -> Iterator[None]:
    """Within the block the main thread stands still, and all other threads run.

    A process that is killed meanwhile stays a zombie, of which its parent hears nothing, until the end.
    """
    with _threads_held([pid]):
        yield


@contextmanager
def other_threads_held(pid: int) -> Iterator[None]:
    """Within the block all threads but the main one stand still."""
    with _threads_held(sorted({int(task.name) for task in Path(f"/proc/{pid}/task").iterdir()} - {pid})):
        yield


@contextmanager
def _threads_held(threads: Sequence[int]) -> Iterator[None]:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
    libc.ptrace.restype = ctypes.c_long
    for thread in threads:
        for request in (PTRACE_SEIZE, PTRACE_INTERRUPT):
            if libc.ptrace(request, thread, None, None):
                raise OSError(ctypes.get_errno(), f"ptrace {request:#x} of thread {thread}")
    try:
        yield
    finally:
        for thread in threads:
            _reap(thread)


@contextmanager
def held(pid: int) -> Iterator[None]:
    """Within the block nothing ends a process, as if its kernel held it at its exit.

    Another process holds it: to a parent that is its debugger too, its exit would look like its end.
    """
    command = [sys.executable, "-c", HOLDS, str(pid)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT) as holding:
        assert holding.stdin is not None
        assert holding.stdout is not None
        assert holding.stdout.readline() == b"held\n"
        try:
            yield
        finally:
            holding.stdin.close()
            holding.wait(HOLDER_SECONDS)


def _reap(pid: int) -> None:
    with suppress(ChildProcessError):
        while not os.WIFSIGNALED(os.waitpid(pid, WALL)[1]):
            continue
