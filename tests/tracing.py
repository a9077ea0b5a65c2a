"""A debugger of three lines: it stops one thread of a process, which no signal continues.

Linux only (ptrace(2)). Where ``kernel.yama.ptrace_scope`` is 1 or more this needs the rights of root.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress

PTRACE_SEIZE, PTRACE_INTERRUPT = 0x4206, 0x4207
"""From linux/ptrace.h."""
WALL = 0x40000000
"""``__WALL`` of waitpid(2): also for what is traced and no child."""


@contextmanager
def main_thread_held(pid: int) -> Iterator[None]:
    """Within the block the main thread stands still, and all other threads run.

    A process that is killed meanwhile stays a zombie, of which its parent hears nothing, until the end.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
    libc.ptrace.restype = ctypes.c_long
    for request in (PTRACE_SEIZE, PTRACE_INTERRUPT):
        if libc.ptrace(request, pid, None, None):
            raise OSError(ctypes.get_errno(), f"ptrace {request:#x} of process {pid}")
    try:
        yield
    finally:
        _reap(pid)


def _reap(pid: int) -> None:
    with suppress(ChildProcessError):
        while not os.WIFSIGNALED(os.waitpid(pid, WALL)[1]):
            continue
