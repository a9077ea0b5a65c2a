"""Merges lines of several logs by time. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime

from reconciler.wire.log_lines import time_of

BEFORE_EVERYTHING = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Line:
    """One line of one log. ``at`` is its own time, or the time of the line that it continues."""

    source: str
    at: datetime
    text: str


@dataclass(slots=True)
class LineReader:
    """Splits the text of one log into lines, and gives each its time."""

    source: str
    at: datetime = BEFORE_EVERYTHING
    """The time of lines before the first one that has a time."""
    _rest: str = ""

    def feed(self, text: str) -> list[Line]:
        """Return the lines that are now complete."""
        *complete, self._rest = (self._rest + text).split("\n")
        return [self._line(part) for part in complete]

    def end(self) -> list[Line]:
        """Return the rest of the text, which does not end with a newline."""
        rest, self._rest = self._rest, ""
        return [self._line(rest)] if rest else []

    def _line(self, text: str) -> Line:
        self.at = time_of(text) or self.at
        return Line(self.source, self.at, text.rstrip("\r"))


@dataclass(frozen=True, slots=True)
class Wanted:
    """The wanted lines of a log: not older than ``since``, and of those the last ``tail``."""

    since: datetime = BEFORE_EVERYTHING
    tail: int | None = None

    def of(self, lines: list[Line]) -> list[Line]:
        young = [line for line in lines if line.at >= self.since]
        return young if self.tail is None else young[max(0, len(young) - self.tail) :]


@dataclass(slots=True)
class Merge:
    """Sorts lines by time. Lines that continue another stay behind it, because a log's times never go back here."""

    _latest: dict[str, datetime] = field(default_factory=dict)

    def merged(self, logs: Iterable[list[Line]]) -> list[Line]:
        """Return the lines of all logs by time; the lines of one log keep their order."""
        timed: list[tuple[datetime, Line]] = []
        for lines in logs:
            for line in lines:
                latest = max(line.at, self._latest.get(line.source, BEFORE_EVERYTHING))
                self._latest[line.source] = latest
                timed.append((latest, line))
        return [line for _, line in sorted(timed, key=lambda entry: entry[0])]
