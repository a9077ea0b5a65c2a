"""JSON, copied while it is being written, and mended where models are known to break it.

Mended: control characters within strings (models write line breaks into code), a backslash before a character that needs
none, and Python's ``True``, ``False`` and ``None``. Everything else that is not JSON is ``Malformed``.
"""

from __future__ import annotations

import json
import re
from typing import Any

from .reading import SPACE, Malformed, Reading, Sink, Text

DEPTH_MAX = 64
"""The deepest nesting; the gateway takes no deeper one back in the next turn."""
NUMBER = re.compile(r"-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?")
_WORD = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+-._")
_WORDS = {
    "true": "true",
    "false": "false",
    "null": "null",
    "True": "true",
    "False": "false",
    "None": "null",
}
_HEX = frozenset("0123456789abcdefABCDEF")


def copy_object(text: Text, sink: Sink) -> Reading[None]:
    """Copy an object without its last brace, which the caller adds once the call around it is complete."""
    if (yield from text.peek()) != "{":
        raise Malformed("expected an object")
    held: list[str] = []

    def delayed(part: str) -> None:
        if held:
            sink(held.pop())
        if part == "}":
            held.append(part)
        else:
            sink(part)

    yield from copy_value(text, delayed)


def copy_value(text: Text, sink: Sink) -> Reading[None]:
    """Copy one value. Its last bracket or quote is a part of its own."""
    yield from text.skip_space()
    closers: list[str] = []
    while True:
        closers_before = len(closers)
        yield from _copy_one(text, sink, closers)
        if len(closers) > closers_before:
            continue  # a list or an object was opened, and its first value is next
        while closers:
            _copy_space(sink, (yield from text.while_in(SPACE)))
            character = yield from text.expect(",", closers[-1])
            sink(character)
            if character == ",":
                if closers[-1] == "}":
                    yield from _copy_key(text, sink)
                break
            closers.pop()
        if not closers:
            return


def _copy_one(text: Text, sink: Sink, closers: list[str]) -> Reading[None]:
    """Copy a string, number or word, an empty list or object, or what opens one that is not empty."""
    _copy_space(sink, (yield from text.while_in(SPACE)))
    character = yield from text.peek()
    if character == '"':
        yield from copy_string(text, sink)
    elif character in ("{", "["):
        yield from text.next()
        sink(character)
        _copy_space(sink, (yield from text.while_in(SPACE)))
        closer = "}" if character == "{" else "]"
        if (yield from text.take(closer)):
            sink(closer)
            return
        if len(closers) >= DEPTH_MAX:
            raise Malformed("nested too deeply")
        closers.append(closer)
        if closer == "}":
            yield from _copy_key(text, sink)
    else:
        word = yield from text.while_in(_WORD)
        if word not in _WORDS and not NUMBER.fullmatch(word):
            raise Malformed("expected a value")
        sink(_WORDS.get(word, word))


def _copy_key(text: Text, sink: Sink) -> Reading[None]:
    _copy_space(sink, (yield from text.while_in(SPACE)))
    yield from copy_string(text, sink)
    _copy_space(sink, (yield from text.while_in(SPACE)))
    sink((yield from text.expect(":")))


def _copy_space(sink: Sink, space: str) -> None:
    if space:
        sink(space)


def copy_string(text: Text, sink: Sink) -> Reading[None]:
    """Copy a string with its quotes."""
    sink((yield from text.expect('"')))
    while True:
        marker = yield from text.copy_until(('"', "\\"), lambda part: sink(mended(part)))
        if not marker:
            raise Malformed("a string has no end")
        yield from text.next()
        if marker == '"':
            sink('"')
            return
        sink((yield from _escape(text)))


def _escape(text: Text) -> Reading[str]:
    character = yield from text.next()
    if character in '"\\/bfnrt':
        return "\\" + character
    if character == "u":
        digits = ""
        while len(digits) < 4:
            digits += yield from text.next()
        if not _HEX.issuperset(digits):
            raise Malformed("expected four hexadecimal digits")
        return "\\u" + digits
    return character if character == "'" else "\\\\" + mended(character)


def mended(part: str) -> str:
    """Return text within a JSON string with its control characters escaped."""
    if part.isprintable():
        return part
    return "".join(json.dumps(c)[1:-1] if c < " " else c for c in part)


def read_string(text: Text) -> Reading[str]:
    """Read a string; return what it stands for."""
    parts: list[str] = []
    yield from copy_string(text, parts.append)
    return str(json.loads("".join(parts)))


def read_value(text: Text) -> Reading[Any]:
    """Read any value; return what it stands for."""
    parts: list[str] = []
    yield from copy_value(text, parts.append)
    return json.loads("".join(parts))
