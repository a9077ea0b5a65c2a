"""A file of YAML documents as the pieces between its ``---`` lines, which together are the file again.

YAML reads ``---`` at the start of a line as the start of a document wherever it stands, in block scalars
too; so this split needs no parser, one broken document does not hide the others' problems, and one document
can be replaced without touching the rest.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from reconciler.errors import Problem

from .syntax_errors import clip

FILE_BYTES_MAX = 1024 * 1024
DOCUMENTS_MAX = 4096

_MARKER = re.compile(r"^---(?:(?:[ \t]+#[^\n]*|[ \t\r]*)(?:\n|\Z)|(?=[ \t]))", re.MULTILINE)
_NOT_TEXT = re.compile(
    r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x84\x86-\x9f\ufeff\ufffe\uffff]|\r(?!\n)|[\x85\u2028\u2029]"
)
_LINE_BREAKS = "\r\x85\u2028\u2029"
"""YAML ends lines with these as well: what an editor shows as line 3 would be another one in messages."""


@dataclass(frozen=True, slots=True)
class Piece:
    """One document, or the comments and blank lines where one could be."""

    marker: str
    """The ``---`` line, or just ``---`` when the document begins on it; empty for the file's beginning."""
    body: str
    line: int
    column: int
    """Where ``body`` begins in the file, counted from 1."""


def split(text: str) -> list[Piece]:
    """The pieces of a file, at least one, in order."""
    pieces: list[Piece] = []
    marker, start, line = "", 0, 1
    for match in _MARKER.finditer(text):
        body = text[start : match.start()]
        pieces.append(_piece(marker, body, line))
        line = pieces[-1].line + body.count("\n")
        marker, start = match[0], match.end()
    pieces.append(_piece(marker, text[start:], line))
    return pieces


def _piece(marker: str, body: str, line: int) -> Piece:
    if not marker or marker.endswith("\n"):
        return Piece(marker, body, line + (1 if marker else 0), 1)
    return Piece(marker, body, line, 1 + len(marker))


def join(pieces: Iterable[Piece]) -> str:
    """The file that ``split`` would take apart like this."""
    return "".join(piece.marker + piece.body for piece in pieces)


def decode(file: str, content: bytes) -> str | Problem:
    """The text of a file, or why it is not text that can be read."""
    if not file.isprintable():
        return Problem(clip(file), 1, 1, "", "a file's name must be printable text")
    if len(content) > FILE_BYTES_MAX:
        return too_large(file, len(content))
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        line, column = _place(content[: error.start].decode("utf-8"))
        return Problem(file, line, column, "", "not UTF-8 text")
    text = text.removeprefix("\ufeff")
    if match := _NOT_TEXT.search(text):
        line, column = _place(text[: match.start()])
        breaks = match[0] in _LINE_BREAKS
        words = (
            " as the end of a line; end lines with LF or CRLF" if breaks else "; only printable text is read"
        )
        return Problem(file, line, column, "", f"the character U+{ord(match[0]):04X}{words}")
    return text


def too_large(file: str, size: int) -> Problem:
    """The problem of a file of ``size`` bytes that is beyond ``FILE_BYTES_MAX``."""
    return Problem(file, 1, 1, "", f"the file has {size} bytes, the most is {FILE_BYTES_MAX}")


def _place(before: str) -> tuple[int, int]:
    return before.count("\n") + 1, len(before) - (before.rfind("\n") + 1) + 1
