"""Finds the cells of tables whose column title means a secret: the title is on another line. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable

_TITLE = re.compile(r"[\w .()/-]{1,40}")
_FRAME = re.compile(r"[\s|+:=-]+")
_QUOTED = r"\"(?:[^\"\n]|\"\")*\"|'[^'\n]*'"
_CELLS = tuple(
    re.compile(rf"(?:(?<=\A)|(?<={mark}))[ ]*({_QUOTED}|[^{mark}\n]*)(?={mark}|\Z)")
    for mark in (",", ";", "\t", r"\|")
)
"""A cell of a line, for each separator of cells. Without one, two blanks separate them."""
_ALIGNED = re.compile(r"(\S+(?: \S+)*)")


def cells(text: str, names: re.Pattern[str], shown: Callable[[str], str]) -> str:
    """Return a text in which ``shown`` has replaced each cell below a title that matches ``names`` as a whole."""
    lines = text.split("\n")
    at = 0
    while at < len(lines):
        found = _columns(lines[at], names)
        at += 1
        if found is None:
            continue
        form, count, secret = found
        while at < len(lines):
            line = lines[at]
            spans = [match.span(1) for match in form.finditer(line.rstrip("\r"))]
            if not (line.strip() and _FRAME.fullmatch(line)):
                if len(spans) != count or not line.strip():
                    break
                for index in reversed(secret):
                    start, end = spans[index]
                    line = line[:start] + shown(line[start:end]) + line[end:]
                lines[at] = line
            at += 1
    return "\n".join(lines)


def _columns(line: str, names: re.Pattern[str]) -> tuple[re.Pattern[str], int, list[int]] | None:
    """Return the cell pattern of a line of titles, their number, and the indexes of those that mean a secret; None for any
    other line."""
    line = line.rstrip("\r")
    if len(line) > 1000 or not names.search(line):
        return None
    for form in (*_CELLS, _ALIGNED):
        titles = [match[1].strip(" \t\"'") for match in form.finditer(line)]
        secret = [at for at, title in enumerate(titles) if names.fullmatch(title)]
        if len(titles) > 1 and secret and all(not title or _TITLE.fullmatch(title) for title in titles):
            return form, len(titles), secret
    return None
