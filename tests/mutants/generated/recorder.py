"""Which lines of the product a process runs. Standard library only: ``hook`` loads it into whatever tests start."""

from __future__ import annotations

import inspect
import os
import sys
import threading
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any

FOLDER = "RECONCILER_REACHED"
"""The variable that names where processes write what they have run."""
ROOMS = ("planning", "execution", "store", "agent", "remote", "gateway", "runner")
"""Those that decide and act, from which bugs are drawn; the shim is part of the agent."""
CURRENT = "PYTEST_CURRENT_TEST"
"""Set by pytest; what a test starts inherits it."""
STALE_MAX = 2000
"""After so many lines of one function without a new one it is no longer followed: what runs in a circle is known."""
Tracer = Callable[[FrameType, str, Any], Any]


class Followed:
    """One function of the product, and what was run of it."""

    def __init__(self, file: str, code: CodeType, on_new: Callable[[str, int], None]) -> None:
        self.file = file
        self.left: set[int] = set()
        self._all = {line for _, _, line in code.co_lines() if line}
        self._on_new = on_new
        self.begin()

    def begin(self) -> None:
        """Forget what was run."""
        self.left = set(self._all)
        self._stale = 0

    @property
    def done(self) -> bool:
        """Whether there is no more to see."""
        return not self.left or self._stale > STALE_MAX

    def trace(self, frame: FrameType, event: str, _: Any) -> Tracer | None:
        """Note a line."""
        if frame.f_lineno in self.left:
            self.left.discard(frame.f_lineno)
            self._stale = 0
            self._on_new(self.file, frame.f_lineno)
        self._stale += 1
        return None if self.done else self.trace


class Recorder:
    """Follows all threads of a process that are begun after it."""

    def __init__(self, rooms: tuple[str, ...], on_new: Callable[[str, int], None]) -> None:
        self._rooms = tuple(f"/reconciler/{room}/" for room in rooms)
        self._on_new = on_new
        self._followed: dict[CodeType, Followed | None] = {}

    def start(self) -> None:
        """Follow this thread and those that come."""
        threading.settrace(self._call)
        sys.settrace(self._call)

    def begin(self) -> None:
        """Forget what was run."""
        for followed in tuple(self._followed.values()):
            if followed:
                followed.begin()

    def _call(self, frame: FrameType, event: str, _: Any) -> Tracer | None:
        code = frame.f_code
        try:
            followed = self._followed[code]
        except KeyError:
            followed = self._followed[code] = self._new(code)
        return None if followed is None or followed.done else followed.trace

    def _new(self, code: CodeType) -> Followed | None:
        """What follows a function of the rooms; what runs at an import belongs to no test."""
        name = code.co_filename
        at = max(name.rfind(room) for room in self._rooms)
        if at < 0 or not code.co_flags & inspect.CO_OPTIMIZED:
            return None
        return Followed(name[at + 1 :], code, self._on_new)


def record_process(rooms: tuple[str, ...]) -> None:
    """Write each line as it is reached, for the test that started this process: it may be killed at any time."""
    folder, opened = os.environ[FOLDER], dict[int, tuple[int, str]]()

    def on_new(file: str, line: int) -> None:
        pid = os.getpid()
        if pid not in opened:  # a fork has another test, and is asked for everything anew
            opened.clear()
            flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT
            test = os.environ.get(CURRENT, "").rpartition(" (")[0]
            opened[pid] = (os.open(f"{folder}/{pid}.lines", flags, 0o600), test)
            recorder.begin()
        descriptor, test = opened[pid]
        os.write(descriptor, f"{test}\t{file}\t{line}\n".encode())

    recorder = Recorder(rooms, on_new)
    recorder.start()
