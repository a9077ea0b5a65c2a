"""Makes lines for a page from any output of a rank, and finds those that have all words. Pure: typed words are never a
pattern."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime

from reconciler.wire.log_lines import time_of

LINE_CHARACTERS_MAX = 2000
_ESCAPES = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"  # colours, cursor
    r"|(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c)?"  # titles, links and other strings
    r"|\x1b[ -/]*[0-~]?"
)
"""Control sequences of terminals, as ECMA-48 names them."""
_UNSEEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2028\u2029\u2066-\u2069]")
"""Other characters that are not shown: control characters, and marks that change the direction of text."""
QUERY_CHARACTERS_MAX = 200
STAMP_CHARACTERS = len("2026-11-21T10:00:00.123Z ")
Parts = tuple[tuple[str, bool], ...]
"""A text in pieces, each with True if it is to be marked."""


def plain(line: str) -> str:
    """Return a line as a person reads it: without control sequences; of a line that overwrites itself, the last state."""
    text = _ESCAPES.sub("", line).rstrip("\r").rpartition("\r")[2]
    return _UNSEEN.sub("", text)[:LINE_CHARACTERS_MAX]


class Splitter:
    """Splits what arrives in pieces into whole lines."""

    def __init__(self) -> None:
        self._rest = ""

    def feed(self, text: str) -> list[str]:
        """Return the lines that are complete now. A line that is too long to be shown is cut, even without its end."""
        *complete, rest = (self._rest + text).split("\n")
        self._rest = rest[-LINE_CHARACTERS_MAX:]
        return [plain(line) for line in complete]


def whole_lines(text: str, begins_within: bool) -> tuple[list[str], str]:
    """Return the whole lines at the end of a log, and the text after the last of them. ``begins_within``: the text begins
    within a line, which is left out."""
    if begins_within:
        text = text.partition("\n")[2]
    *complete, rest = text.split("\n")
    return [plain(line) for line in complete], rest


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
