"""Finds lines of a log that have all words, as plain text: typed words are never a pattern. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from reconciler.wire.log_lines import time_of

from .lines import plain

QUERY_CHARACTERS_MAX = 200
STAMP_CHARACTERS = len("2026-11-21T10:00:00.123Z ")
Parts = tuple[tuple[str, bool], ...]
"""A text in pieces, each with True if it is to be marked."""


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a log. ``begin``: its first byte in the output. ``time``: its own, or the time of the line that it continues;
    None if no line before it has one."""

    begin: int
    text: str
    time: datetime | None

    @property
    def said(self) -> str:
        """The text without the time at its beginning."""
        return self.text[STAMP_CHARACTERS:] if time_of(self.text) else self.text


def words_of(query: str) -> tuple[str, ...]:
    """Return the words that a line needs, each once."""
    return tuple(dict.fromkeys(query[:QUERY_CHARACTERS_MAX].casefold().split()))


def lines_of(text: str, begin: int) -> list[Line]:
    """Return the lines of a piece of output that begins at a byte: whole ones, and the last one, which may be incomplete."""
    found = []
    at, time = begin, None
    for number, line in enumerate(text.split("\n")):
        shown = plain(line)
        time = time_of(shown) or time
        if shown and (number or not begin):  # the first one may be only the end of a line
            found.append(Line(at, shown, time))
        at += len(line.encode()) + 1
    return found


def has_all(text: str, words: tuple[str, ...]) -> bool:
    """Return whether a text has every word, in any case."""
    folded = text.casefold()
    return all(word in folded for word in words)


def marked(text: str, words: tuple[str, ...]) -> Parts:
    """Return a text in pieces, with each occurrence of a word marked."""
    folded, origin = "", []  # a character may fold to two
    for place, each in enumerate(text):
        one = each.casefold()
        folded += one
        origin += [place] * len(one)
    on = bytearray(len(text))
    for word in words:
        start = folded.find(word)
        while start >= 0:
            for place in range(origin[start], origin[start + len(word) - 1] + 1):
                on[place] = True
            start = folded.find(word, start + len(word))
    pieces: list[tuple[str, bool]] = []
    begin = 0
    for end in range(1, len(text) + 1):
        if end == len(text) or on[end] != on[begin]:
            pieces.append((text[begin:end], bool(on[begin])))
            begin = end
    return tuple(pieces)


def nearest(lines: list[Line], at: int, words: tuple[str, ...]) -> int | None:
    """Return the index of the line with all words that begins nearest to a byte; None if none has them. The byte may be
    slightly off if the output is not UTF-8."""
    found = [number for number, line in enumerate(lines) if has_all(line.text, words)]
    return min(found, key=lambda number: abs(lines[number].begin - at), default=None)
