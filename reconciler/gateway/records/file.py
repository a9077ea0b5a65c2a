"""A log file with bounds: rotated by size and time, and kept for a while. Used by one thread of a gateway.

Two gateways write it while one finishes its answers after the other has taken over. They take turns through a lock on
the folder.
"""

from __future__ import annotations

import fcntl
import os
import re
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from reconciler.wire.clock import SLACK_SECONDS
from reconciler.wire.gateway import AccessLog

TURN_LOOKS, TURN_LOOK_SECONDS = 50, 0.02
"""The number of looks for the end of the other gateway's turn, which takes one write, and their interval."""


class RotatedFile:
    """``access.jsonl`` is written; ``access.jsonl.1`` was written before it, and so on. All have mode 0600."""

    def __init__(self, path: Path, bounds: AccessLog) -> None:
        self._path = path
        self.bounds = bounds

    def batches(self, lines: Iterable[bytes]) -> Iterator[list[bytes]]:
        """Divide lines into batches that fit into one file each. A longer line is a batch alone."""
        batch: list[bytes] = []
        size = 0
        for line in lines:
            if batch and size + len(line) > self.bounds.max_bytes:
                yield batch
                batch, size = [], 0
            batch.append(line)
            size += len(line)
        if batch:
            yield batch

    def append(self, text: bytes, now: float) -> None:
        """Append complete lines, all or none. ``now``: seconds since the Unix epoch. Raises ``OSError``."""
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with self._turn() as alone:
            if alone:
                self._rotate(len(text), now)
            self._append(text, alone)

    def _append(self, text: bytes, alone: bool) -> None:
        descriptor = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            before = os.fstat(descriptor).st_size
            try:
                self._write(descriptor, text)
            except OSError:
                if alone:
                    os.ftruncate(descriptor, before)  # a partial line would spoil the next one too
                raise
        finally:
            os.close(descriptor)

    @contextmanager
    def _turn(self) -> Iterator[bool]:
        """Lock the folder against other gateways, and yield whether that worked: a suspended gateway keeps its turn."""
        descriptor = os.open(self._path.parent, os.O_RDONLY | os.O_CLOEXEC)
        try:
            yield _locked(descriptor)
        finally:
            os.close(descriptor)

    def tidy(self, now: float) -> None:
        """Rotate the file if it is due, and remove files that were kept long enough. After a failure, the next call
        tries again."""
        with suppress(OSError), self._turn() as alone:
            if alone:
                self._tidy(now)

    def _tidy(self, now: float) -> None:
        with suppress(OSError):
            self._rotate(0, now)
        for number, file in self._rotated():
            with suppress(OSError):
                written_at = file.stat().st_mtime
                if number > self.bounds.keep_files or written_at + self.bounds.keep_seconds < now:
                    file.unlink()
                elif written_at > now + SLACK_SECONDS:  # the clock was ahead: count from now
                    os.utime(file, (now, now))

    def _write(self, descriptor: int, text: bytes) -> None:
        rest = memoryview(text)
        while rest:
            rest = rest[os.write(descriptor, rest) :]

    def _rotate(self, more: int, now: float) -> None:
        """Begin a new file if ``more`` bytes would be too many, or the file belongs to an earlier interval."""
        try:
            status = self._path.stat()
        except FileNotFoundError:
            return
        interval = self.bounds.rotate_seconds
        earlier = status.st_mtime // interval < now // interval or status.st_mtime > now + SLACK_SECONDS
        if not status.st_size or not (earlier or status.st_size + more > self.bounds.max_bytes):
            return
        for number, file in sorted(self._rotated(), reverse=True):
            if number > self.bounds.keep_files - 1:
                file.unlink(missing_ok=True)
            else:
                file.rename(self._numbered(number + 1))
        self._path.rename(self._numbered(1))

    def _rotated(self) -> list[tuple[int, Path]]:
        pattern = re.compile(re.escape(self._path.name) + r"\.([1-9][0-9]{0,5})")
        try:
            names = [path.name for path in self._path.parent.iterdir()]
        except OSError:
            return []
        found = [(pattern.fullmatch(name), name) for name in names]
        return [(int(match[1]), self._path.with_name(name)) for match, name in found if match]

    def _numbered(self, number: int) -> Path:
        return self._path.with_name(f"{self._path.name}.{number}")


def _locked(descriptor: int) -> bool:
    """Lock a folder until its descriptor is closed. Returns whether that was possible in time."""
    for look in range(TURN_LOOKS):
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            if look + 1 < TURN_LOOKS:
                time.sleep(TURN_LOOK_SECONDS)
    return False
