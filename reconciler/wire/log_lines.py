"""The beginning of the log lines of all processes, so that lines of several logs can be sorted.

``2026-11-21T10:00:00.123Z `` (RFC 3339, UTC), by the clock of the process's machine.
"""

from __future__ import annotations

import datetime
import logging
import re
from typing import Optional, TextIO

_STAMP = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}(?=Z )")


class Stamped(logging.Formatter):
    """Formats lines with their time, then ``rest``."""

    def __init__(self, rest: str) -> None:
        super().__init__("%(asctime)s " + rest)

    def formatTime(self, record: logging.LogRecord, datefmt: Optional[str] = None) -> str:  # noqa: N802
        at = datetime.datetime.fromtimestamp(record.created, datetime.timezone.utc)
        return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def log_to(stream: TextIO, rest: str = "%(message)s") -> None:
    """Write all log records from INFO on to a stream, with their times."""
    handler = logging.StreamHandler(stream)
    handler.setFormatter(Stamped(rest))
    logging.basicConfig(level=logging.INFO, handlers=[handler])


def time_of(line: str) -> Optional[datetime.datetime]:
    """Return the time at the beginning of a line; None if it belongs to the line before it."""
    match = _STAMP.match(line)
    try:
        return datetime.datetime.fromisoformat(match.group() + "+00:00") if match else None
    except ValueError:
        return None
