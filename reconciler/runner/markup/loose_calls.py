"""Calls that look like those of a programming language: ``[f(a='x', b=1)]`` and ``call:f{a:<q>x<q>,b:1}``.

LFM2 and Llama 4 write the first, as Python; Gemma and Function Gemma the second, with a marker for a quote. Read as
mlx-lm's ``tool_parsers/pythonic.py`` and ``gemma4.py`` read them, but strings may have line breaks and markup in them.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Callable, Sequence

from .calls import Calls
from .json_text import DEPTH_MAX, NUMBER
from .reading import SPACE, Malformed, Reading, Text

_ZEROS = re.compile(r"0+[1-9]\d*")
"""A number that begins with zeros, such as that of a month."""
_WORDS = {"true": "true", "false": "false", "null": "null", "none": "null"}
_ENDS = " \t\r\n,:=()[]{}<"
_AFTER = (",", ":", ")", "]", "}")
"""Characters that may follow a string."""
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "\n": "", "b": "\b", "f": "\f", "0": "\0", "a": "\a", "v": "\v"}
_DIGITS = {"x": 2, "u": 4, "U": 8}


@dataclasses.dataclass(frozen=True)
class LooseCalls:
    """``starts`` calls ``ends``, each call ``before`` name ``opens`` ( key ``equals`` value , )* ``closes``."""

    starts: Sequence[str]
    ends: Sequence[str]
    before: str = ""
    opens: str = "("
    closes: str = ")"
    equals: str = "="
    quote: str = ""
    """The marker that stands for a quote; empty where strings are Python's."""
    listed: bool = True
    bare: bool = False

    @property
    def markers(self) -> Sequence[str]:
        return (*self.starts, *self.ends, *filter(None, (self.quote,)))

    def read(self, text: Text, calls: Calls) -> Reading[None]:
        yield from text.take(*self.starts)
        yield from text.skip_space()
        listed = self.listed and (yield from text.take("["))
        while True:
            yield from text.skip_space()
            yield from self._read_call(text, calls)
            yield from text.skip_space()
            if not (yield from text.take(",")):
                break
        if listed:
            yield from text.expect("]")
        yield from text.skip_space()
        yield from text.take(*self.ends)

    def _read_call(self, text: Text, calls: Calls) -> Reading[None]:
        if self.before:
            yield from text.take(self.before, ":")
        name = yield from _word(text)
        yield from text.expect(self.opens)
        calls.begin(name)
        calls.fragment("{")
        first = True
        yield from text.skip_space()
        while not (yield from text.take(self.closes)):
            if not first:
                yield from text.expect(",")
                yield from text.skip_space()
            key = yield from self._key(text)
            yield from text.skip_space()
            yield from text.expect(self.equals)
            value = yield from self._value(text, DEPTH_MAX)
            calls.fragment(("" if first else ", ") + json.dumps(key, ensure_ascii=False) + ": " + value)
            first = False
            yield from text.skip_space()
        if self.listed:
            yield from text.skip_space()
            if (yield from text.peek()) and not (yield from text.at((",", "]", *self.ends))):
                raise Malformed("more than calls")
        calls.end()

    def _key(self, text: Text) -> Reading[str]:
        quoted = yield from self._string(text)
        return (yield from _word(text)) if quoted is None else quoted

    def _value(self, text: Text, depth: int) -> Reading[str]:
        """Read a value; return its JSON."""
        if not depth:
            raise Malformed("nested too deeply")
        yield from text.skip_space()
        quoted = yield from self._string(text)
        if quoted is not None:
            return json.dumps(quoted, ensure_ascii=False)
        opened = yield from text.take("[", "(", "{")
        if opened == "{":
            return (yield from self._braces(text, depth - 1))
        if opened:
            closer = "]" if opened == "[" else ")"
            return "[" + (yield from self._items(text, closer, lambda: self._value(text, depth - 1))) + "]"
        word = yield from _word(text)
        if word.lower() in _WORDS:
            return _WORDS[word.lower()]
        if NUMBER.fullmatch(word):
            return word
        if _ZEROS.fullmatch(word):
            return word.lstrip("0")
        try:
            return json.dumps(json.loads(word), allow_nan=False)
        except ValueError:
            if self.quote and word:
                return json.dumps(word, ensure_ascii=False)
            raise Malformed(f"expected a value, got {word}") from None

    def _braces(self, text: Text, depth: int) -> Reading[str]:
        """Read an object, or a set of texts, which is a list."""
        members: list[str] = []
        is_set = False
        yield from text.skip_space()
        while not (yield from text.take("}")):
            key = json.dumps((yield from self._key(text)), ensure_ascii=False)
            yield from text.skip_space()
            if not members:
                is_set = not self.quote and bool((yield from text.at((",", "}"))))
            if not is_set:
                yield from text.expect(":")
                key += ": " + (yield from self._value(text, depth))
            members.append(key)
            yield from text.skip_space()
            if not (yield from text.take(",")):
                yield from text.expect("}")
                break
            yield from text.skip_space()
        return ("[%s]" if is_set else "{%s}") % ", ".join(members)

    def _items(self, text: Text, closer: str, read: Callable[[], Reading[str]]) -> Reading[str]:
        items: list[str] = []
        yield from text.skip_space()
        while not (yield from text.take(closer)):
            items.append((yield from read()))
            yield from text.skip_space()
            if not (yield from text.take(",")):
                yield from text.expect(closer)
                break
            yield from text.skip_space()
        return ", ".join(items)

    def _string(self, text: Text) -> Reading[str | None]:
        if self.quote:
            if not (yield from text.take(self.quote)):
                return None
            inner, _ = yield from text.until(self.quote)
            yield from text.expect(self.quote)
            return inner
        quote = yield from text.take("'''", '"""', "'", '"')
        if not quote:
            return None
        parts: list[str] = []
        while True:
            inner, found = yield from text.until(quote, "\\")
            parts.append(inner)
            yield from text.expect(found)
            if found != quote:
                parts.append((yield from _escape(text)))
                continue
            space = yield from text.while_in(SPACE)
            if len(quote) > 1 or not (yield from text.peek()) or (yield from text.at(_AFTER)):
                return "".join(parts)
            parts.append(quote + space)  # a quote within the string, which should have a backslash


def _escape(text: Text) -> Reading[str]:
    character = yield from text.next()
    if character in _DIGITS:
        digits = ""
        while len(digits) < _DIGITS[character]:
            digits += yield from text.next()
        try:
            return chr(int(digits, 16))
        except ValueError:
            raise Malformed("expected hexadecimal digits") from None
    return _ESCAPES.get(character, character if character in "\\'\"" else "\\" + character)


def _word(text: Text) -> Reading[str]:
    """Read up to what cannot be part of a name or a number."""
    found: list[str] = []
    while (character := (yield from text.peek())) and character not in _ENDS:
        found.append((yield from text.next()))
    return "".join(found)
