"""The output of a rank: bounded on disk, addressed by offsets that never change their meaning.

Output is cut into files named ``rank.<offset of the first byte>.log``. The two newest are kept, so an
offset stays valid over a rotation, and output that is too old is known to be gone.
"""

from __future__ import annotations

import codecs
import io
import os
import re
from pathlib import Path
from typing import List, Optional, Tuple

from reconciler.wire.log_lines import time_of
from reconciler.wire.node import Log

SEGMENT_BYTES_MAX = 8 * 1024 * 1024
SEGMENTS_KEPT = 2
READ_BYTES_MAX = 1024 * 1024
"""No piece is longer: with every byte escaped in JSON it still fits into a frame."""

_NAME = re.compile(r"rank\.(\d+)\.log\Z")


class RankLog:
    """The writing side, held by the shim alone."""

    def __init__(self, directory: Path, segment_bytes_max: int = SEGMENT_BYTES_MAX) -> None:
        self._directory = directory
        self._segment_bytes_max = segment_bytes_max
        self._start = 0
        self._size = 0
        self._stream = self._open(0)

    def _open(self, start: int) -> io.FileIO:
        path = self._directory / "rank.{}.log".format(start)
        return io.FileIO(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb")

    def write(self, chunk: bytes) -> None:
        """Append output. Raises ``OSError`` if the disk does not take it."""
        while chunk:
            if self._size >= self._segment_bytes_max:
                self._rotate()
            piece = chunk[: self._segment_bytes_max - self._size]
            written = self._stream.write(piece)
            self._size += written
            chunk = chunk[written:]

    def _rotate(self) -> None:
        start = self._start + self._size
        following = self._open(start)
        self._stream.close()
        self._stream, self._start, self._size = following, start, 0
        for _, path in segments(self._directory)[:-SEGMENTS_KEPT]:
            path.unlink()

    def close(self) -> None:
        self._stream.close()


def segments(directory: Path) -> List[Tuple[int, Path]]:
    """Return the files of a rank's output with their start offsets, oldest first."""
    found = []
    for path in directory.iterdir():
        match = _NAME.match(path.name)
        if match:
            found.append((int(match.group(1)), path))
    return sorted(found)


def read_log(directory: Path, bytes_max: int, offset: Optional[int]) -> Log:
    """Return text from ``offset``, or the last ``bytes_max`` bytes, with the offset of the next piece.

    An offset that is too old means the oldest available byte. Characters are never split.
    """
    files = segments(directory)
    if not files:
        return Log("", 0, 0, 0)
    wanted = min(max(bytes_max, 4), READ_BYTES_MAX)
    try:
        end = files[-1][0] + files[-1][1].stat().st_size
        start = end - wanted if offset is None else offset
        start = min(max(start, files[0][0]), end)
        content = _read(files, start, min(end, start + wanted))
    except FileNotFoundError:  # the shim has removed the oldest meanwhile
        return read_log(directory, bytes_max, offset)
    if offset is None:
        skipped = _continuation_bytes(content)
        content, start = content[skipped:], start + skipped
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    text = decoder.decode(content)
    unfinished: bytes = decoder.getstate()[0]
    size = len(content) - len(unfinished)
    return Log(text, start + size, start, size - (content.rfind(b"\n") + 1))


def _read(files: List[Tuple[int, Path]], start: int, end: int) -> bytes:
    pieces = []
    for first, path in files:
        with path.open("rb") as stream:
            stream.seek(max(0, start - first))
            pieces.append(stream.read(max(0, end - max(start, first))))
    return b"".join(pieces)


def _continuation_bytes(content: bytes) -> int:
    """Return how many bytes at the start belong to an earlier character: at most 3 in UTF-8."""
    count = 0
    while count < min(3, len(content)) and content[count] & 0xC0 == 0x80:
        count += 1
    return count


def last_line(directory: Path, bytes_max: int = 400) -> str:
    """Return the last non-empty line, for an end without another explanation; empty if that is a record of the rank's log,
    which begins with its time and is about earlier work of the rank."""
    lines = read_log(directory, bytes_max, None).text.strip().splitlines()
    return lines[-1].strip() if lines and time_of(lines[-1].strip()) is None else ""
