"""The thread that writes lines. A slow or full disk costs lines, and never a request's time."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence

import orjson

from .entry import stamp
from .file import RotatedFile

log = logging.getLogger(__name__)

WAITING_BYTES_MAX = 16 * 1024 * 1024
"""The most bytes that wait for a disk that takes nothing: some 50,000 lines."""
GATHER_SECONDS = 0.05
"""Lines of this period are written together."""
TIDY_SECONDS = 60.0
LAST_LINES_SECONDS = 2.0


class Writer:
    """Appends lines to a file, from a thread of its own. ``now``: seconds since the Unix epoch."""

    def __init__(self, file: RotatedFile, now: Callable[[], float]) -> None:
        self.dropped = 0
        """Lines that were lost because the disk took none."""
        self._told = 0
        """The number of losses that the log itself reports."""
        self.file = file
        self._now = now
        self._lock = threading.Lock()
        self._lines: deque[bytes] = deque()
        self._bytes = 0
        self._more = threading.Event()
        self._closing = threading.Event()
        self._problem = ""
        self._thread = threading.Thread(target=self._run, name="access log", daemon=True)
        self._thread.start()

    def put(self, line: bytes) -> None:
        """Queue a line, or drop it. Never waits for the disk."""
        with self._lock:
            if self._bytes + len(line) > WAITING_BYTES_MAX:
                self.dropped += 1
                return
            self._lines.append(line)
            self._bytes += len(line)
        if not self._more.is_set():
            self._more.set()

    def end(self) -> None:
        """Write the last lines, and stop taking lines."""
        self._closing.set()
        self._more.set()

    def close(self) -> None:
        """Do the same, and wait for at most ``LAST_LINES_SECONDS``."""
        self.end()
        self._thread.join(LAST_LINES_SECONDS)

    def _run(self) -> None:
        tidied_at = -TIDY_SECONDS
        while not self._closing.is_set():
            if time.monotonic() - tidied_at >= TIDY_SECONDS:
                tidied_at = time.monotonic()
                self.file.tidy(self._now())
            if self._more.wait(TIDY_SECONDS):
                self._closing.wait(GATHER_SECONDS)
                self._more.clear()
                self._write_waiting()
        self._write_waiting()

    def _write_waiting(self) -> None:
        with self._lock:
            lines, self._lines = self._lines, deque()
        for batch in self.file.batches(lines):
            self._write(batch)

    def _write(self, lines: Sequence[bytes]) -> None:
        """Write some lines. If that fails, they are lost; the next successful write reports the number of losses."""
        now, lost = self._now(), self.dropped - self._told
        note = orjson.dumps({"time": stamp(now), "dropped": lost}, option=orjson.OPT_APPEND_NEWLINE)
        text = b"".join(lines)
        problem = ""
        try:
            self.file.append(note + text if lost else text, now)
            self._told += lost
        except OSError as error:
            problem = str(error)
        with self._lock:
            self._bytes -= len(text)
            self.dropped += len(lines) if problem else 0
        if problem and problem != self._problem:
            log.error("the access log loses lines: %s", problem)
        self._problem = problem
