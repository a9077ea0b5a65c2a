"""Processes that nothing ends: a debugger holds them at their exit, as a deadlock in the kernel would.

Neither SIGKILL nor its own exit ends a process that its debugger stops at its exit (``PTRACE_EVENT_EXIT`` of
ptrace(2)). It keeps its memory, files and connections, and its parent gets no notice, until the debugger releases it.
Linux only. If ``kernel.yama.ptrace_scope`` is 1, processes have to allow it (``emulated``).
"""

from __future__ import annotations

import ctypes
import errno
import logging
import os
import queue
import sys
import threading
from concurrent.futures import Future
from contextlib import suppress

from reconciler.errors import Invalid

_CONT, _SEIZE, _LISTEN = 7, 0x4206, 0x4208
_OPTION_EXIT, _EVENT_EXIT, _EVENT_STOP = 0x40, 6, 128
"""From linux/ptrace.h."""
_WALL = 0x40000000
"""``__WALL`` of waitpid(2): also for traced processes that are no children."""
LOOK_SECONDS = 0.02
"""The longest delay of a signal to a held process."""
HOLD_SECONDS = 10.0
"""Time limit for taking hold of a process."""
log = logging.getLogger(__name__)


class Holder:
    """Holds processes until ``release``. A separate thread traces them; its end releases them."""

    def __init__(self) -> None:
        self._over = threading.Event()
        self._wanted: queue.SimpleQueue[tuple[int, Future[None]]] = queue.SimpleQueue()
        self._pids: set[int] = set()
        self._thread = threading.Thread(target=self._follow, name="held processes", daemon=True)
        self._thread.start()

    def hold(self, pid: int) -> None:
        """Hold a process at its exit from now on; do nothing if it is gone. Raises ``Invalid`` if that is
        impossible."""
        if sys.platform != "linux":
            raise Invalid("ranks that nothing ends can be emulated on Linux only")
        if self._over.is_set():
            return
        done: Future[None] = Future()
        self._wanted.put((pid, done))
        done.result(HOLD_SECONDS)

    def release(self) -> None:
        self._over.set()
        self._thread.join(HOLD_SECONDS)

    def _follow(self) -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        while not self._over.wait(LOOK_SECONDS):
            with suppress(queue.Empty):
                while True:
                    self._seize(libc, *self._wanted.get_nowait())
            for pid in tuple(self._pids):
                self._pass_on(libc, pid)

    def _seize(self, libc: ctypes.CDLL, pid: int, done: Future[None]) -> None:
        if pid in self._pids or not _ptrace(libc, _SEIZE, pid, _OPTION_EXIT):
            self._pids.add(pid)
            done.set_result(None)
            return
        number = ctypes.get_errno()
        if number == errno.ESRCH:
            done.set_result(None)
        else:
            done.set_exception(Invalid(f"process {pid} cannot be held: {os.strerror(number)} (ptrace)"))

    def _pass_on(self, libc: ctypes.CDLL, pid: int) -> None:
        """Pass a signal that the debugger got first on to the process; leave a process stopped at its exit."""
        try:
            found, status = os.waitpid(pid, os.WNOHANG | _WALL)
        except ChildProcessError:
            self._pids.discard(pid)
            return
        if not found or not os.WIFSTOPPED(status):
            return
        event = status >> 16
        if event == _EVENT_EXIT:
            log.info("process %d is held at its exit", pid)
        elif event == _EVENT_STOP:
            _ptrace(libc, _LISTEN, pid, 0)
        else:
            _ptrace(libc, _CONT, pid, os.WSTOPSIG(status))


def _ptrace(libc: ctypes.CDLL, request: int, pid: int, data: int) -> int:
    return int(libc.ptrace(ctypes.c_long(request), ctypes.c_long(pid), None, ctypes.c_void_p(data)))
