"""The text around documents in a stream of YAML: directives, and the marks of a document's end. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator

_MARKS = re.compile(r"^(?:%|\.\.\.(?=[ \t\r\n]|\Z))", re.MULTILINE)
_END = re.compile(r"\.\.\.[ \t]*(?:#.*)?\r?\Z")
_VERSION = re.compile(r"%YAML[ \t]+1\.[0-9]+[ \t]*(?:#.*)?\r?\Z")
Flaw = tuple[int, int, str]
"""Line and column, from 0, and a message."""


def without_marks(text: str) -> tuple[str, list[Flaw]]:
    """Return the text with blank lines in place of directives and of the ends of documents without content, and the
    flaws in these. Every line stays where it is."""
    if not _MARKS.search(text):
        return text, []
    flaws: list[Flaw] = []
    return "\n".join(_lines(text, flaws)), flaws


def _lines(text: str, flaws: list[Flaw]) -> Iterator[str]:
    content, directive = False, False
    for number, line in enumerate(text.split("\n")):
        bare = line.strip()
        if _END.match(line):
            yield line if content else ""
            content = False
        elif not content and line.startswith("%"):
            directive = True
            if not _VERSION.match(line):
                flaws.append((number, 0, _meaning(line)))
            yield ""
        else:
            if bare and not bare.startswith("#") and not content:
                content = True
                if directive:
                    flaws.append((number, 0, 'expected a document; a new one begins with "---"'))
                    directive = False
            yield line


def _meaning(line: str) -> str:
    if line.startswith("%YAML"):
        return "a version of YAML that is not read; expected %YAML 1.1 or %YAML 1.2, or no such line"
    if line.startswith("%TAG"):
        return "a %TAG directive; tags are not read: remove it"
    return 'a line that begins with "%"; put text in quotes, and remove other directives than %YAML'
