"""Splits a file of YAML documents at its ``---`` lines into pieces, which can be joined again.

In YAML, ``---`` at the start of a line always starts a document, even in block scalars. The split therefore needs
no parser, a broken document does not hide the problems of others, and one document can be replaced without
touching the rest.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self

from reconciler.errors import Problem

from .syntax_errors import clip

FILE_BYTES_MAX = 1024 * 1024
DOCUMENTS_MAX = 4096

ENDINGS = (".yaml", ".yml", ".json")
"""The suffixes of files with manifests."""

LFS_POINTER = b"version https://git-lfs.github.com/spec/"

_MARKER = re.compile(r"^---(?:(?:[ \t]+#[^\n]*|[ \t\r]*)(?:\n|\Z)|(?=[ \t]))", re.MULTILINE)
_NOT_TEXT = re.compile(
    r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x84\x86-\x9f\ufeff\ufffe\uffff]|\r(?!\n)|[\x85\u2028\u2029]"
)
_LINE_BREAKS = "\r\x85\u2028\u2029"
"""Further line breaks of YAML. With them, line numbers in messages would differ from those in editors."""


class Beside(bytes):
    """The content of a file that is no manifest, whatever its name: a Job names it."""


class Absent(Beside):
    """In place of a file that a Job names and that cannot be taken: the reason, for people."""

    def __new__(cls, text: str) -> Self:
        return super().__new__(cls, text.encode("utf-8", "backslashreplace"))


@dataclass(frozen=True, slots=True)
class Piece:
    """One document, or comments and blank lines in place of one."""

    marker: str
    """The ``---`` line, or just ``---`` if the document begins on it; empty at the file's beginning."""
    body: str
    line: int
    column: int
    """Line in the file on which ``body`` begins, counted from 1."""


def counts(path: str) -> bool:
    """Return whether a file is read as manifests: by its ending, and if no name on its path begins with a dot."""
    return path.endswith(ENDINGS) and not any(part.startswith(".") for part in path.split("/"))


def split(text: str) -> list[Piece]:
    """Return the pieces of a file, at least one, in order."""
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
    return "".join(piece.marker + piece.body for piece in pieces)


def decode(file: str, content: bytes) -> str | Problem:
    """Return the text of a file, or the problem that makes it unreadable."""
    if not file.isprintable():
        return Problem(clip(file), 1, 1, "", "a file's name must be printable text")
    if len(content) > FILE_BYTES_MAX:
        return too_large(file, len(content))
    if content.startswith((b"\xff\xfe", b"\xfe\xff")):
        return Problem(file, 1, 1, "", "UTF-16 text; save the file as UTF-8")
    if content.startswith(LFS_POINTER):
        return Problem(file, 1, 1, "", "a pointer of Git LFS, not the file; commit the file itself")
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
    """Return the problem of a file whose ``size`` in bytes exceeds ``FILE_BYTES_MAX``."""
    return Problem(file, 1, 1, "", f"the file has {size} bytes, more than the limit of {FILE_BYTES_MAX}")


def _place(before: str) -> tuple[int, int]:
    return before.count("\n") + 1, len(before) - (before.rfind("\n") + 1) + 1
