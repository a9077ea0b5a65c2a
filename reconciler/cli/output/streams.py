"""Standard output and error as every terminal and locale can show them.

A terminal may have fewer characters than a text: those that it lacks become the nearest of ASCII. And it obeys control
characters, which logs, commits and machines may hold: those of others never reach it.
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
"""Control sequences, as ECMA-48 has them: CSI, the strings OSC, DCS, SOS, PM and APC, and those of two characters."""


_JOINERS = "\u200b\u200c\u200d\u2060\ufeff\u00ad\x7f"
"""Characters without a width, which do no harm."""


def shown(text: str) -> str:
    """Return a text of others as a terminal may have it: without control sequences and control characters, in its lines.

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
    """A stream to a terminal. Of all that it would obey it gets the colours and the erased lines of the product."""

    def write(self, text: str) -> int:
        """Write a text, which may have parts of others in it anywhere."""
        if text.isprintable():
            return super().write(text)
        parts = _OWN.split(text)
        return super().write("".join(part if at % 2 else shown(part) for at, part in enumerate(parts)))

    def erase_line(self) -> None:
        """Begin the present line once more."""
        super().write(_ERASE)


_OWN = re.compile(r"(\x1b\[(?:0|1|3[1-6])m)")
"""Bold, the colours of states, and the end of both."""
_ERASE = "\r\x1b[K"


def erase_line(stream: TextIO) -> None:
    """Begin the present line of a terminal once more."""
    if isinstance(stream, Terminal):
        stream.erase_line()
    else:
        stream.write(_ERASE)


def prepare() -> None:
    """Have both streams show what they can, raise for nothing that they cannot, and have a terminal obey nobody else."""
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
