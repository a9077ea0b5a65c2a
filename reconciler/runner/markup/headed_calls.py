"""Calls that are a head, which names the tool, and arguments as one JSON object.

Kimi K2, DeepSeek R1 to V3.1, Mistral since Small 3.2, Devstral, Functionary and Solar write so; the heads are those of
their chat templates. Salvaged as in vLLM's ``tool_parsers/kimi_k2_tool_parser.py`` and ``deepseekv3_tool_parser.py``: a
missing marker after the last call.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence

from .calls import Calls
from .json_calls import JsonCalls
from .json_text import copy_object
from .reading import Malformed, Reading, Text


@dataclasses.dataclass(frozen=True)
class HeadedCalls:
    """``section`` ( ``call`` head ``separators`` {…} ``ends`` )* ``section_ends``."""

    call: str
    separators: Sequence[str]
    """Strings that end a head."""
    ends: Sequence[str]
    """Strings that end a call; may be missing."""
    head: re.Pattern[str] = re.compile(r"(?P<name>.+)", re.DOTALL)
    """The whole head: ``name``, and ``id`` where the model gives one."""
    written: Sequence[tuple[str, str]] = ()
    """Texts before and after the arguments, for each way to write them, with ``{name}``, ``{number}`` and ``{id}``."""
    inner: Sequence[str] = ()
    """Markers within a head."""
    section: str = ""
    """The string that begins several calls; empty if each stands alone."""
    section_ends: Sequence[str] = ()
    listed: JsonCalls | None = None
    """The format if a list follows ``call``."""
    bare: bool = False

    @property
    def starts(self) -> Sequence[str]:
        return (self.section, self.call) if self.section else (self.call,)

    @property
    def markers(self) -> Sequence[str]:
        return (*self.starts, *self.separators, *self.ends, *self.section_ends, *self.inner)

    def read(self, text: Text, calls: Calls) -> Reading[None]:
        before = calls.count
        if self.section and (yield from text.take(self.section)):
            yield from text.skip_space()
        while (yield from text.take(self.call)):
            yield from text.skip_space()
            if self.listed and (yield from text.at(("[", "{"))):
                yield from self.listed.read_announced(text, calls)
            else:
                yield from self._read_call(text, calls)
            yield from text.skip_space()
        if calls.count == before:
            raise Malformed("no call")
        yield from text.take(*self.section_ends)

    def _read_call(self, text: Text, calls: Calls) -> Reading[None]:
        written, separator = yield from text.until(*self.separators)
        if separator != "{":
            yield from text.expect(separator)
        head = self.head.fullmatch(written.strip())
        if head is None:
            raise Malformed(f"a head that names no tool: {written}")
        calls.begin(head["name"], head.groupdict().get("id") or "")
        yield from text.skip_space()
        yield from copy_object(text, calls.fragment)
        yield from text.skip_space()
        yield from text.take(*self.ends)
        calls.end()
