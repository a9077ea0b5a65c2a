"""Calls with a tag for each argument, whose value is written as it is, without quotes or escapes.

Qwen3-Coder and Nemotron 3, Step 3.5, Seed, GLM 4.5 and later, Hunyuan 3, Ling, Laguna, MiniMax M2, DeepSeek V3.2 and V4,
MiniCPM 5, Muse and Kimi K3 write so; the tags are those of their chat templates. A value is text where the tool's schema
says so (``values``). A closing tag ends a value only if another tag of the format follows, so that a value may mention it.

As in vLLM and llama.cpp, these mistakes are mended. The tag around calls is missing (Qwen3-Coder, DeepSeek). A
closing tag is missing before the next argument or at the end. Arguments are wrapped in one argument too many. Calls
are JSON between the tags, as LongCat writes them too.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Callable, Sequence
from typing import Any

from .calls import Calls
from .json_calls import JsonCalls
from .json_text import mended
from .reading import SPACE, Malformed, Reading, Sink, Text
from .values import TEXT, begins_other, kinds_of, typed, unquoted, value_json

CDATA, CDATA_END = "<![CDATA[", "]]>"
WRAPPERS = ("arguments", "input", "properties")
"""Names of an argument in which models wrap all others."""


@dataclasses.dataclass(frozen=True)
class TaggedCalls:
    """``region`` ( ``call`` head ``head_ends`` ( ``value`` key ``value_begins`` … ``value_ends`` )* ``ends`` )* ``region_ends``."""

    call: str
    head_ends: Sequence[str]
    """Strings that end the name. Those that are also ``value`` or ``ends`` are left unread."""
    value: str
    value_begins: str
    value_ends: str
    ends: str
    key: re.Pattern[str] = re.compile(r"(?P<key>[^\"]*)")
    """Matches the text between ``value`` and ``value_begins``, stripped. Its group ``text`` says whether the value is
    text."""
    name: re.Pattern[str] = re.compile(r"(?P<name>.*)", re.DOTALL)
    """Matches the text between ``call`` and ``head_ends``, stripped."""
    name_written: str = "{name}"
    """The text that models write between ``call`` and ``head_ends``."""
    key_written: str = "{key}"
    """The text that they write between ``value`` and ``value_begins``: ``{textual}`` is true or false, ``{type}`` a
    JSON type."""
    region: Sequence[str] = ()
    region_ends: Sequence[str] = ()
    lines: bool = False
    """Values stand on lines of their own."""
    bare: bool = False

    @property
    def starts(self) -> Sequence[str]:
        return (*self.region, self.call)

    @property
    def markers(self) -> Sequence[str]:
        tags = (self.call, self.value, self.value_begins, self.value_ends, self.ends)
        return (*self.region, *self.region_ends, *tags, *self.head_ends)

    def read(self, text: Text, calls: Calls) -> Reading[None]:
        before = calls.count
        announced = not self.region or bool((yield from text.take(*self.region)))
        yield from text.skip_space()
        if self.region and announced and (yield from text.at(("{", "["))):
            yield from JsonCalls().read_announced(text, calls)
        while (yield from text.take(self.call)):
            yield from text.skip_space()
            if (yield from text.at(("{", "["))):
                yield from JsonCalls(ends=(self.ends,)).read_announced(text, calls)
            else:
                yield from self._read_call(text, calls, announced)
            yield from text.skip_space()
        if calls.count == before:
            raise Malformed("no call")
        if self.region_ends:
            yield from text.take(*self.region_ends)

    def _read_call(self, text: Text, calls: Calls, announced: bool) -> Reading[None]:
        written, ending = yield from text.until(*self.head_ends)
        if ending not in (self.value, self.ends):
            yield from text.expect(ending)
        head = self.name.fullmatch(written.strip())
        if head is None or not (announced or calls.knows(head["name"])):
            raise Malformed(f"a head that names no tool: {written}")
        name = head["name"]
        calls.begin(name)
        calls.fragment("{")
        left, given = list(calls.declared(name)), set[str]()
        first = True
        yield from text.skip_space()
        while (yield from text.take(self.value)):
            key, said = yield from self._key(text)
            if key in given:
                raise Malformed(f"{key} is written twice")
            given.add(key)
            value = _Value(calls.schema_of(name, key), None if said is None else said in ("true", "string"))
            following = self._following(left, key, calls.names)
            own_line = yield from text.take(*(("\r\n", "\n") if self.lines else ()))
            following = dataclasses.replace(following, own_line=bool(own_line))
            if first and left and key in WRAPPERS and key not in left:
                yield from self._read_wrapped(text, calls, (name, key), value, following)
            else:
                calls.fragment(("" if first else ", ") + json.dumps(key, ensure_ascii=False) + ": ")
                yield from self._read_value(text, calls.fragment, value, following)
            left = [each for each in left if each != key]
            first = False
            yield from text.skip_space()
        if not (self.region_ends and (yield from text.at(self.region_ends))):
            yield from text.expect(self.ends)
        calls.end()

    def _key(self, text: Text) -> Reading[tuple[str, str | None]]:
        """Read the name of an argument, and its type if the model gives it."""
        written, _ = yield from text.until(self.value_begins)
        yield from text.expect(self.value_begins)
        found = self.key.fullmatch(written.strip())
        if found is None:
            raise Malformed(f"an argument without a name: {written}")
        return found["key"].strip(), found.groupdict().get("text")

    def _following(self, left: Sequence[str], key: str, tools: Sequence[str]) -> _Following:
        after_key = self.key_written.partition("{key}")[2] + self.value_begins
        after_name = self.name_written.partition("{name}")[2]
        return _Following(
            [self.value + each + after_key[0] for each in left if each != key],
            [self.call + each + after_name[:1] for each in tools],
        )

    def _read_wrapped(
        self, text: Text, calls: Calls, named: tuple[str, str], value: _Value, following: _Following
    ) -> Reading[None]:
        """Read an argument that no tool has, and that may be an object of all arguments."""
        name, key = named
        known = set(calls.declared(name))
        parts: list[str] = []
        yield from self._copy_value(text, (self.value_ends,), parts.append, lambda: False, following)
        yield from text.skip_space()
        written = "".join(parts)
        try:
            inner = json.loads(value_json(written))
        except RecursionError:
            inner = None
        if isinstance(inner, dict) and inner.keys() <= known and not (yield from text.at((self.value,))):
            calls.fragment(json.dumps(inner, ensure_ascii=False)[1:-1])
        else:
            calls.fragment(json.dumps(key, ensure_ascii=False) + ": " + value.json(written))

    def _read_value(self, text: Text, sink: Sink, value: _Value, following: _Following) -> Reading[None]:
        quoted = yield from text.take(CDATA)
        ends = (CDATA_END + self.value_ends, CDATA_END) if quoted else (self.value_ends,)
        if quoted:
            following = _Following((), ())
        if value.is_text((yield from text.peek())):
            sink('"')
            copy = self._copy_value(
                text, ends, lambda part: sink(mended_text(part)), lambda: False, following
            )
            yield from copy
            sink('"')
        else:
            parts: list[str] = []
            goes_on = lambda: _within_string("".join(parts))  # noqa: E731
            yield from self._copy_value(text, ends, parts.append, goes_on, following)
            sink(value.json("".join(parts)))

    def _copy_value(
        self, text: Text, ends: Sequence[str], sink: Sink, goes_on: Callable[[], bool], following: _Following
    ) -> Reading[None]:
        """Copy a value up to its closing tag, and read the tag. ``goes_on`` says whether the copied text is
        incomplete."""
        tags = (*ends, *following.arguments, *((self.ends,) if self.value_ends in ends else ()))
        line = "\n" if self.lines else ""
        markers = (*tags, *(line + tag for tag in tags))
        while True:
            marker = yield from text.copy_until(markers, sink)
            if not marker:
                raise Malformed("an argument has no end")
            tag = marker.removeprefix(line)
            alike = marker == line + tag or not following.own_line
            if tag in following.arguments and alike and not goes_on():
                yield from text.take(*filter(None, (line,)))
                return  # its closing tag is missing
            yield from text.expect(marker)
            space = yield from text.while_in(SPACE)
            if tag in ends:
                if (yield from text.at((self.value, self.ends, *self.region_ends))) and not goes_on():
                    return
            elif tag == self.ends:
                held: list[str] = []
                ours = (*ends, *(line + end for end in ends))
                if (yield from text.copy_until((*ours, *following.calls), held.append)) not in ours:
                    text.push(tag + space + "".join(held))
                    return  # no closing tag of this value has come
                space += "".join(held)
            if line and space.endswith(line):  # it may be that of the closing tag
                text.push(line)
                space = space.removesuffix(line)
            sink(marker + space)


@dataclasses.dataclass(frozen=True)
class _Following:
    """The texts that may follow a value whose closing tag is missing."""

    arguments: Sequence[str]
    """The beginnings of the declared arguments that are not written yet."""
    calls: Sequence[str]
    """The beginnings of calls."""
    own_line: bool = False
    """The value begins on a line of its own, so the text after it does too."""


@dataclasses.dataclass(frozen=True)
class _Value:
    """The facts about a value before it is read."""

    schema: Any
    said: bool | None
    """The model says that it is text, or that it is not; None if it says neither."""

    def is_text(self, first: str) -> bool:
        """Return whether the value is text, whatever comes after its first character."""
        if self.schema is None or self.said:
            return self.said is not False and "string" in kinds_of(self.schema)
        return (
            self.said is None and "string" in kinds_of(self.schema) and not begins_other(first, self.schema)
        )

    def json(self, written: str) -> str:
        """Return the JSON of a value as it was written."""
        if self.schema is None or "string" not in kinds_of(self.schema):
            return value_json(written)
        if self.said is False and kinds_of(self.schema) == TEXT:
            return unquoted(written)
        return typed(written, self.schema)


def _within_string(written: str) -> bool:
    """Return whether JSON ends within a string, so that a tag after it is a part of that."""
    try:
        json.loads(written)
    except json.JSONDecodeError as error:
        return error.msg.startswith("Unterminated string")
    except RecursionError:
        return False
    return False


def mended_text(part: str) -> str:
    """Return text as it stands within a JSON string."""
    return mended(part.replace("\\", "\\\\").replace('"', '\\"'))
