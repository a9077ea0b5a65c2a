"""Standard output and error as every terminal and locale can show them.

A terminal may lack characters of a text: they become the nearest ones of ASCII. And it obeys control characters, which may
be in logs, in commits and in the output of machines: only the product's own reach it.
"""

from __future__ import annotations

import codecs
import io
import re
import sys
import unicodedata
from typing import TextIO

_NEAREST = {
    "…": "...", "—": "-", "–": "-", "→": "->", "←": "<-", "↔": "<->", "×": "x", "·": "-", "•": "*", "✓": "ok", "✗": "x",
    "“": '"', "”": '"', "„": '"', "‘": "'", "’": "'", "≥": ">=", "≤": "<=", "°": " deg", "µ": "u", "μ": "u",
    "█": "#", "▓": "#", "▒": "#", "░": ".", "═": "=", "║": "|", "●": "*", "○": "o", "▲": "^", "▼": "v", "▶": ">",
}  # fmt: skip
_SEQUENCES = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]|[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)?|[ -/]*[0-~])|\x9b[0-?]*[ -/]*[@-~]"
)
"""Control sequences of ECMA-48: CSI, the strings OSC, DCS, SOS, PM and APC, and those of two characters."""


_JOINERS = "\u200b\u200c\u200d\u2060\ufeff\u00ad\x7f"
"""Harmless characters without a width."""


def shown(text: str) -> str:
    """Return a text of others that is safe for a terminal: without control sequences and control characters.

    Tabs and line ends stay. Characters that reverse or hide others become U+FFFD.
    """
    if text.isprintable():
        return text
    return "".join(
        letter if letter.isprintable() or letter in "\n\t" else _instead(letter)
        for letter in _SEQUENCES.sub("", text)
    )


def _instead(letter: str) -> str:
    if letter.isspace():
        return " " if letter != "\r" else ""
    return "" if letter < " " or letter in _JOINERS else "\ufffd"


class Terminal(io.TextIOWrapper):
    """A stream to a terminal. The only control sequences that reach it are the product's colours and erased lines."""

    def write(self, text: str) -> int:
        """Write a text that may contain texts of others anywhere."""
        if text.isprintable():
            return super().write(text)
        parts = _OWN.split(text)
        return super().write("".join(part if at % 2 else shown(part) for at, part in enumerate(parts)))

    def erase_line(self) -> None:
        super().write(_ERASE)


_OWN = re.compile(r"(\x1b\[(?:0|1|3[1-6])m)")
"""Bold, the colours of states, and the end of both."""
_ERASE = "\r\x1b[K"


def erase_line(stream: TextIO) -> None:
    """Erase the present line of a terminal."""
    if isinstance(stream, Terminal):
        stream.erase_line()
    else:
        stream.write(_ERASE)


def prepare() -> None:
    """Prepare both streams: show as much as they can, never raise for the rest, and let a terminal obey only the product."""
    codecs.register_error("nearest", _nearest)
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="nearest")
            if stream.isatty():
                setattr(sys, name, Terminal(stream.buffer, stream.encoding, "nearest", line_buffering=True))


def _nearest(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeEncodeError)
    lacking = error.object[error.start : error.end]
    return "".join(map(_letter, lacking)), error.end


def _letter(letter: str) -> str:
    if found := _NEAREST.get(letter):
        return found
    if "─" <= letter <= "╿":  # lines of boxes
        return "|" if letter in "│┃┆┇┊┋" else "-" if letter in "─━┄┅┈┉" else "+"
    plain = unicodedata.normalize("NFKD", letter).encode("ascii", "ignore").decode()
    return plain or "?"
