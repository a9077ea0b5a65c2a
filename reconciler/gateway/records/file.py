"""A log file with bounds: rotated by size and time, and kept for a while. Used by one thread."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from reconciler.wire.generation import AccessLog


class RotatedFile:
    """``access.jsonl`` is written; ``access.jsonl.1`` was written before it, and so on. All have mode 0600."""

    def __init__(self, path: Path, bounds: AccessLog) -> None:
        self._path = path
        self.bounds = bounds

    def batches(self, lines: Iterable[bytes]) -> Iterator[list[bytes]]:
        """Divide lines into batches, each of which fits into one file, unless it is a single line."""
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
        self._rotate(len(text), now)
        descriptor = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            before = os.fstat(descriptor).st_size
            try:
                self._write(descriptor, text)
            except OSError:
                os.ftruncate(descriptor, before)  # a part of a line would spoil the next one too
                raise
        finally:
            os.close(descriptor)

    def tidy(self, now: float) -> None:
        """Rotate what is due, and remove what was kept for long enough. A failure is left to the next time."""
        with suppress(OSError):
            self._rotate(0, now)
        for number, file in self._rotated():
            with suppress(OSError):
                if number > self.bounds.keep_files or file.stat().st_mtime + self.bounds.keep_seconds < now:
                    file.unlink()

    def _write(self, descriptor: int, text: bytes) -> None:
        rest = memoryview(text)
        while rest:
            rest = rest[os.write(descriptor, rest) :]

    def _rotate(self, more: int, now: float) -> None:
        """Begin a new file if so many bytes more would be too many, or the file is of an earlier interval."""
        try:
            status = self._path.stat()
        except FileNotFoundError:
            return
        interval = self.bounds.rotate_seconds
        earlier = status.st_mtime // interval < now // interval
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
