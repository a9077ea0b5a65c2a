"""Makes lines for a page from any output of a rank. Pure."""

from __future__ import annotations

import re

LINE_CHARACTERS_MAX = 2000
_ESCAPES = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"  # colours, cursor
    r"|(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c)?"  # titles, links and other strings
    r"|\x1b[ -/]*[0-~]?"
)
"""Control sequences of terminals, as ECMA-48 names them."""
_UNSEEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2028\u2029\u2066-\u2069]")
"""Other characters that are not shown: control characters, and marks that change the direction of text."""


def plain(line: str) -> str:
    """Return a line as a person reads it: without control sequences; of a line that overwrites itself, the last state."""
    text = _ESCAPES.sub("", line).rstrip("\r").rpartition("\r")[2]
    return _UNSEEN.sub("", text)[:LINE_CHARACTERS_MAX]


class Splitter:
    """Splits what arrives in pieces into whole lines."""

    def __init__(self, rest: str = "") -> None:
        self._rest = rest

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
