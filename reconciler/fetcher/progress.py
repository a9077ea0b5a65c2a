"""Reports progress to the agent: a line for every change of activity, and regularly during a download."""

from __future__ import annotations

import json
import os
import time
from collections import deque

from reconciler.wire.codec import to_wire
from reconciler.wire.weights import FetchPhase, FileReport, Progress

TELL_SECONDS = 1.0
RATE_SECONDS = 30.0
"""Period over which the rate is measured."""


class ProgressReport:
    """Counts bytes and writes progress to a descriptor."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._phase = FetchPhase.LISTING
        self._file = ""
        self._done = 0
        self._total = 0
        self._written_at = 0.0
        self._came = 0
        """Bytes that were received or hashed since the start of the phase."""
        self._marks: deque[tuple[float, int]] = deque()

    def begin(self, phase: str, total: int, done: int = 0, file: str = "") -> None:
        if phase != self._phase:
            self._came = 0
            self._marks.clear()
        self._phase, self._total, self._done, self._file = phase, total, done, file
        self._mark()
        self._write(self._current())

    def add(self, size: int) -> None:
        """Count more bytes; a negative number if some have to be fetched again."""
        self._done += size
        self._came += max(0, size)
        if time.monotonic() - self._written_at >= TELL_SECONDS:
            self._mark()
            self._write(self._current())

    def end(self, files: tuple[FileReport, ...] = ()) -> None:
        self._write(Progress(FetchPhase.DONE, self._total, self._total, files=files))

    def fail(self, problem: str, text: str, files: tuple[FileReport, ...] = ()) -> None:
        now = self._current()
        self._write(
            Progress(
                FetchPhase.FAILED, now.done_bytes, now.total_bytes, 0.0, self._file, problem, text, files
            )
        )

    def _current(self) -> Progress:
        return Progress(self._phase, self._done, self._total, self._rate(), self._file)

    def _mark(self) -> None:
        now = time.monotonic()
        self._marks.append((now, self._came))
        while len(self._marks) > 2 and now - self._marks[0][0] > RATE_SECONDS:
            self._marks.popleft()

    def _rate(self) -> float:
        if not self._marks:
            return 0.0
        (since, before), (until, now) = self._marks[0], self._marks[-1]
        return (now - before) / (until - since) if until > since else 0.0

    def _write(self, progress: Progress) -> None:
        self._written_at = time.monotonic()
        os.write(self._descriptor, json.dumps(to_wire(progress)).encode() + b"\n")
