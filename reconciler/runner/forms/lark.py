"""Grammars as llguidance reads them, in its dialect of Lark. Pure.

Facts from llguidance 1.9.1, ``docs/syntax.md``: special tokens are no text, and are written by their ids; a rule that is lazy
ends where it first can; names of terminals are upper case. Its lexer never goes back: a text that may contain what
follows it must be lazy.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

ANYTHING = r"(?s:.*)"
NOTHING = '""'
CHARACTERS_MAX = 8 * 1024 * 1024
"""Characters of one grammar, in which definitions are repeated for each argument that may refer to them."""
JSON_STYLE: Mapping[str, Any] = {
    "whitespace_flexible": False,
    "item_separator": ", ?",
    "key_separator": ": ?",
}
"""White space within JSON: a space at most, and only after a comma or a colon, so that no model writes it for ever."""


class TooLarge(ValueError):
    """The grammar would be longer than ``CHARACTERS_MAX``."""


class Grammar:
    """Rules, as they are added. An expression is the right side of a rule, or a part of it. Raises ``TooLarge``."""

    def __init__(self, special: Mapping[str, int]) -> None:
        """``special`` are the ids of the tokens that are no text, by what they are called."""
        self._special = special
        self._names: dict[tuple[str, str], str] = {}
        """The name of each rule, by its options and its body."""
        self._written = 0
        names = sorted(special, key=len, reverse=True)
        self._splitter = re.compile(f"({'|'.join(map(re.escape, names))})") if names else None

    def text(self, start: str) -> str:
        """Return the grammar of an expression."""
        rules = (f"{name}{options}: {body}" for (options, body), name in self._names.items())
        return "\n".join(["%llguidance {}", f"start: {start}", *rules, ""])

    def rule(self, body: str) -> str:
        return self._named(body, "r", "")

    def terminal(self, body: str) -> str:
        """Return the name of a terminal: a text that is matched as one."""
        return self._named(body, "T", "")

    def lazy(self, body: str) -> str:
        """Return the name of a text that ends where it first can."""
        return self._named(body, "z", "[lazy]")

    def _named(self, body: str, prefix: str, options: str) -> str:
        self._written += len(body)
        if self._written > CHARACTERS_MAX:
            raise TooLarge(f"it takes a grammar of more than {CHARACTERS_MAX} characters")
        return self._names.setdefault((options, body), f"{prefix}{len(self._names)}")

    def pieces(self, marker: str) -> list[str | int]:
        """Return a marker as text and special tokens."""
        if self._splitter is None:
            return [marker] if marker else []
        return [self._special.get(part, part) for part in self._splitter.split(marker) if part]

    def literal(self, marker: str) -> str:
        """Return exactly this text, with its special tokens."""
        return sequence(*map(piece, self.pieces(marker)))

    def until(self, marker: str, never: Sequence[str] = ()) -> str:
        """Return any text up to a marker and with it, in which there is none of ``never``.

        A marker with special tokens is found as plain text too, because the reader of answers sees no difference.
        """
        body = self.terminal(without(*never))
        plain = self.lazy(f"{body} {quoted(marker)}")
        pieces = self.pieces(marker)
        at = next((at for at, part in enumerate(pieces) if isinstance(part, int)), None)
        if at is None:
            return plain
        before = "".join(part for part in pieces[:at] if isinstance(part, str))
        text = self.terminal(f"{body} {quoted(before)}") if before else body
        with_special = sequence(text, *map(piece, pieces[at:]))
        return choice(plain, with_special)

    def json(self, schema: Mapping[str, Any]) -> str:
        """Return JSON that a schema describes."""
        styled = {**schema, "x-guidance": JSON_STYLE}
        return self.rule("%json " + json.dumps(styled, ensure_ascii=True))


def piece(part: str | int) -> str:
    return f"<[{part}]>" if isinstance(part, int) else quoted(part)


def quoted(text: str) -> str:
    """Return a text as a string."""
    return json.dumps(text, ensure_ascii=False)


def escaped(text: str) -> str:
    """Return a regular expression of exactly this text."""
    return "".join(f"\\x{{{ord(c):x}}}" if not c.isprintable() or c == "/" else re.escape(c) for c in text)


def regex(expression: str) -> str:
    """Return the body of a terminal that matches a regular expression."""
    found, escaping = [], False
    for character in expression:
        bare = {"/": "\\/", "\n": "\\n"}.get(character, character)
        found.append(bare if not escaping else character)
        escaping = character == "\\" and not escaping
    return f"/{''.join(found)}/"


def without(*texts: str) -> str:
    """Return the body of a terminal: any text that has none of these in it."""
    return " & ".join(
        [regex(ANYTHING), *(f"~{regex(ANYTHING + escaped(text) + ANYTHING)}" for text in texts)]
    )


def sequence(*parts: str) -> str:
    return " ".join(part for part in parts if part) or NOTHING


def choice(*parts: str) -> str:
    distinct = list(dict.fromkeys(parts))
    return distinct[0] if len(distinct) == 1 else "(" + " | ".join(distinct) + ")"


def many(part: str, least: int = 0) -> str:
    return f"({part}){'+' if least else '*'}"


def maybe(part: str) -> str:
    return f"({part})?"


GAP = maybe(regex(r"\n{1,2}"))
"""Line breaks between parts that stand on lines of their own."""
