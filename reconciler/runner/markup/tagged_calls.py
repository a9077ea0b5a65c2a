"""Calls with a tag for each argument, whose value is written as it is, without quotes or escapes.

Qwen3-Coder and Nemotron 3, Step 3.5, Seed, GLM 4.5 and later, Hunyuan 3, Ling, Laguna, MiniMax M2, DeepSeek V3.2 and V4,
MiniCPM 5, Muse and Kimi K3 write so; the tags are those of their chat templates. A value is text where the tool's schema
says so, as in vLLM's ``tool_parsers/qwen3coder_tool_parser.py``. A closing tag ends a value only if another tag of the
format follows, so that a value may mention it.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Callable, Sequence

from .calls import Calls, takes_text, value_json
from .json_text import mended
from .reading import SPACE, Malformed, Reading, Sink, Text

CDATA, CDATA_END = "<![CDATA[", "]]>"


@dataclasses.dataclass(frozen=True)
class TaggedCalls:
    """``region`` ( ``call`` head ``head_ends`` ( ``value`` key ``value_begins`` … ``value_ends`` )* ``ends`` )* ``region_ends``."""

    call: str
    head_ends: Sequence[str]
    """What ends the name; those that are also ``value`` or ``ends`` are left unread."""
    value: str
    value_begins: str
    value_ends: str
    ends: str
    key: re.Pattern[str] = re.compile(r"(?P<key>[^\"]*)")
    """What stands between ``value`` and ``value_begins``, without the space around it; ``text`` says whether it is text."""
    name: re.Pattern[str] = re.compile(r"(?P<name>.*)", re.DOTALL)
    """What stands between ``call`` and ``head_ends``, likewise."""
    name_written: str = "{name}"
    """What models write between ``call`` and ``head_ends``."""
    key_written: str = "{key}"
    """What they write between ``value`` and ``value_begins``: ``{textual}`` is true or false, ``{type}`` that of JSON."""
    region: Sequence[str] = ()
    region_ends: Sequence[str] = ()
    lines: bool = False
    """Values stand on lines of their own."""
    bare: bool = False

    @property
    def starts(self) -> Sequence[str]:
        return self.region or (self.call,)

    @property
    def markers(self) -> Sequence[str]:
        tags = (self.call, self.value, self.value_begins, self.value_ends, self.ends)
        return (*self.region, *self.region_ends, *tags, *self.head_ends)

    def read(self, text: Text, calls: Calls) -> Reading[None]:
        before = calls.count
        if self.region:
            yield from text.expect(*self.region)
            yield from text.skip_space()
        while (yield from text.take(self.call)):
            yield from self._read_call(text, calls)
            yield from text.skip_space()
        if calls.count == before:
            raise Malformed("no call")
        if self.region_ends:
            yield from text.take(*self.region_ends)

    def _read_call(self, text: Text, calls: Calls) -> Reading[None]:
        written, ending = yield from text.until(*self.head_ends)
        if ending not in (self.value, self.ends):
            yield from text.expect(ending)
        head = self.name.fullmatch(written.strip())
        if head is None:
            raise Malformed(f"a head that names no tool: {written}")
        name = head["name"]
        calls.begin(name)
        calls.fragment("{")
        first = True
        yield from text.skip_space()
        while (yield from text.take(self.value)):
            written, _ = yield from text.until(self.value_begins)
            yield from text.expect(self.value_begins)
            found = self.key.fullmatch(written.strip())
            if found is None:
                raise Malformed(f"an argument without a name: {written}")
            key = found["key"].strip()
            calls.fragment(("" if first else ", ") + json.dumps(key, ensure_ascii=False) + ": ")
            said = found.groupdict().get("text")
            textual = said in ("true", "string") if said else takes_text(calls.schema_of(name, key))
            yield from self._read_value(text, calls.fragment, textual)
            first = False
            yield from text.skip_space()
        yield from text.expect(self.ends)
        calls.end()

    def _read_value(self, text: Text, sink: Sink, textual: bool) -> Reading[None]:
        if self.lines:
            yield from text.take("\r\n", "\n")
        quoted = yield from text.take(CDATA)
        ends = CDATA_END + self.value_ends if quoted else self.value_ends
        if textual:
            sink('"')
            yield from self._copy_value(text, ends, lambda part: sink(mended_text(part)), lambda: False)
            sink('"')
        else:
            parts: list[str] = []
            yield from self._copy_value(text, ends, parts.append, lambda: _within_string("".join(parts)))
            sink(value_json("".join(parts)))

    def _copy_value(self, text: Text, ends: str, sink: Sink, goes_on: Callable[[], bool]) -> Reading[None]:
        """Copy a value up to the tag that closes it, and read that. ``goes_on`` says whether what was copied has no end."""
        markers = (ends, "\n" + ends) if self.lines else (ends,)
        while True:
            marker = yield from text.copy_until(markers, sink)
            if not marker:
                raise Malformed("an argument has no end")
            yield from text.expect(marker)
            space = yield from text.while_in(SPACE)
            if (yield from text.at((self.value, self.ends))) and not goes_on():
                return
            sink(marker + space)


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
