"""Answers that are several messages, each with a head that says what it is.

gpt-oss (harmony: ``<|channel|>analysis<|message|>…<|end|><|start|>assistant…``), Muse (`` to=self<|message|>…<|eom|>``) and
Functionary 3.2 (``>>>name``, a line break and the arguments) write so. Of harmony, the format's own description
(github.com/openai/harmony, docs/format.md) says where a recipient may stand: in the role or in the channel.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Sequence

from .answer import Family, Reader, read_calls
from .calls import Calls
from .json_text import copy_object
from .reading import Malformed, Reading

_CHANNEL = re.compile(r"<\|channel\|>\s*(\w+)")
_RECIPIENT = re.compile(r"to=(?:functions\.)?([^\s<]+)")

Route = Callable[[str], str | None]
"""From a head to ``content``, ``reasoning`` or the name of a tool; None for a head that is none."""


@dataclasses.dataclass(frozen=True)
class Channels(Family):
    """``begins`` head ``message`` body ``ends``, again and again; the prompt may end within a head."""

    begins: Sequence[str] = ()
    message: str = ""
    ends: Sequence[str] = ()
    route: Route = lambda head: "content"

    @property
    def markers(self) -> Sequence[str]:
        return (*super().markers, *self.begins, self.message, *self.ends, "<|channel|>", "<|constrain|>")

    def read(self, reader: Reader) -> Reading[None]:
        text = reader.text
        while (yield from text.peek()):
            text.keep()
            yield from text.take(*self.begins)
            try:
                head, _ = yield from text.until(self.message)
            except Malformed:
                reader.literally(text.kept())
                return
            route = self.route(head)
            if route is None or not (route in ("content", "reasoning") or reader.calls):
                reader.literally(text.kept())
                yield from self._read_content(reader)
            else:
                yield from text.expect(self.message)
                reader.boundary()
                yield from self._read_body(reader, route)
            yield from text.take(*self.ends)

    def _read_body(self, reader: Reader, route: str) -> Reading[None]:
        text = reader.text
        if route == "content":
            yield from self._read_content(reader)
        elif route == "reasoning":
            reader.reasoning_over()
            yield from text.copy_until(self._stops, reader.reason)
            reader.reasoning_over()
        elif self.format and (yield from text.at(self.format.starts)):
            yield from read_calls(self, reader)
            yield from self._read_content(reader)
        else:
            yield from self._read_call(reader, route)

    @property
    def _stops(self) -> Sequence[str]:
        return (*self.ends, *self.begins)

    def _read_content(self, reader: Reader) -> Reading[None]:
        stops = () if reader.formed else self._stops
        yield from reader.text.copy_until(stops, reader.literally if reader.formed else reader.content)

    def _read_call(self, reader: Reader, name: str) -> Reading[None]:
        calls = reader.calls
        assert calls is not None
        try:
            yield from _read_arguments(reader, calls, name, self._stops)
        except Malformed:
            calls.withdraw()
            reader.literally(reader.text.kept())
            yield from self._read_content(reader)


def _read_arguments(reader: Reader, calls: Calls, name: str, stops: Sequence[str]) -> Reading[None]:
    text = reader.text
    calls.begin(name)
    yield from text.skip_space()
    yield from copy_object(text, calls.fragment)
    yield from text.skip_space()
    if (yield from text.peek()) and not (yield from text.at(stops)):
        raise Malformed("more than arguments")
    calls.end()


def harmony_route(head: str) -> str | None:
    recipient = next((each for each in _RECIPIENT.findall(head) if each != "assistant"), None)
    if recipient:
        return str(recipient)
    channels = _CHANNEL.findall(head)  # of a head that begins twice the last one counts
    if not channels:
        return None
    return "reasoning" if channels[-1] == "analysis" else "content"


def muse_route(head: str) -> str | None:
    recipient = _RECIPIENT.search(head)
    if recipient is None:
        return "content" if not head.strip() else None
    return {"self": "reasoning", "user": "content"}.get(recipient[1], recipient[1])


def functionary_route(head: str) -> str | None:
    name = head.strip()
    if name == "all":
        return "content"
    return name if re.fullmatch(r"[\w.-]+", name) else None
