"""Turns the text of an answer into its parts, for every family of models."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from .calls import Calls, Format
from .parts import Content, Part, Reasoning
from .reading import SPACE, Malformed, Reading, Text


@dataclasses.dataclass(frozen=True)
class Family:
    """The way in which a family of models writes answers."""

    name: str
    format: Format | None = None
    """The format of its tool calls; None: it writes none."""
    thinking: Sequence[tuple[str, str]] = ()
    """Pairs of strings that begin and end reasoning."""
    dropped: Sequence[str] = ()
    """Markers around content, which are no part of it."""

    @property
    def markers(self) -> Sequence[str]:
        """Return all strings that may be tokens without which an answer cannot be read."""
        pairs = [marker for pair in self.thinking for marker in pair]
        return (*pairs, *self.dropped, *(self.format.markers if self.format else ()))

    def read(self, reader: Reader) -> Reading[None]:
        text, calls = reader.text, reader.calls
        ends: dict[str, str] = dict(self.thinking)
        starts = tuple(self.format.starts) if self.format and calls else ()
        bare = calls is not None and self.format is not None and self.format.bare
        if reader.reasoning_ends:
            yield from _read_reasoning(self, reader, reader.reasoning_ends)
        while True:
            reader.boundary()
            if bare:
                bare = False  # an answer may begin with calls that no marker announces
                reader.content((yield from text.while_in(SPACE)))
                if (yield from text.peek()) == "{":
                    yield from read_calls(self, reader)
            space = yield from text.while_in(SPACE)
            if (yield from text.take(*ends.values())):
                continue  # what ends reasoning that was not begun: so some families say that they skip it
            if reader.formed and not (yield from text.at((*ends, *starts, *self.dropped))):
                reader.literally(space)
                yield from text.copy_until((), reader.literally)
                return
            reader.content(space)
            found = yield from text.copy_until((*ends, *starts, *self.dropped), reader.content)
            if not found:
                return
            if found in ends:
                yield from text.expect(found)
                yield from _read_reasoning(self, reader, ends[found])
            elif found in starts:
                yield from read_calls(self, reader)
            else:
                yield from text.expect(found)

    def opened(self, prompt: str) -> str:
        """Return the string that ends the reasoning that a prompt has begun; empty if it has begun none."""
        tail = prompt.rstrip(SPACE)
        return next((end for start, end in self.thinking if tail.endswith(start.rstrip(SPACE))), "")


class Reader:
    """The state of reading an answer."""

    def __init__(
        self, text: Text, calls: Calls | None, out: list[Part], reasoning_ends: str, formed: bool = False
    ) -> None:
        self.formed = formed
        """The content has a form: then it is everything after the reasoning and the calls at the beginning."""
        self.text = text
        self.calls = calls
        """None if the request offers no tools: then no text is a call."""
        self.reasoning_ends = reasoning_ends
        self._out = out
        self._space = ""
        self._visible = False
        self._reasoned = False

    def boundary(self) -> None:
        """Begin a stretch of content. One of white space alone is dropped: templates write it between parts."""
        self._space = ""
        self._visible = False

    def content(self, text: str) -> None:
        if not self._visible:
            self._space += text
            if not self._space.strip(SPACE):
                return
            text, self._space, self._visible = self._space, "", True
        self._out.append(Content(text))

    def reason(self, text: str) -> None:
        """Add to the reasoning, without white space at its beginning and its end."""
        text = self._space + text
        if not self._reasoned:
            text = text.lstrip(SPACE)
        kept = text.rstrip(SPACE)
        self._space = text[len(kept) :]
        if kept:
            self._reasoned = True
            self._out.append(Reasoning(kept))

    def reasoning_over(self) -> None:
        self._space = ""
        self._reasoned = False

    def literally(self, text: str) -> None:
        """Add text to the content, white space as well."""
        if text:
            self._visible = True
            self._out.append(Content(self._space + text))
            self._space = ""


class Parser:
    """Takes the text of one answer in pieces, cut anywhere, and gives its parts."""

    def __init__(
        self, family: Family, tools: Sequence[Mapping[str, Any]], prompt: str, formed: bool = False
    ) -> None:
        """``prompt`` is the end of the prompt's text, which may have begun the reasoning; ``formed`` says whether the content
        is held to a form."""
        self._text = Text()
        self._out: list[Part] = []
        calls = Calls(self._text, tools, self._out) if tools and family.format else None
        reader = Reader(self._text, calls, self._out, family.opened(prompt), formed)
        self._reading = family.read(reader)
        self._over = False

    def feed(self, text: str) -> list[Part]:
        """Return the parts that this text makes certain."""
        if self._text.passes(text):
            return self._taken()
        self._text.feed(text)
        return self._run()

    def end(self) -> list[Part]:
        """Return the parts that were held back, at the end of the answer."""
        self._text.ended = True
        return self._run()

    def _run(self) -> list[Part]:
        if not self._over:
            try:
                next(self._reading)
            except StopIteration:
                self._over = True
        return self._taken()

    def _taken(self) -> list[Part]:
        parts, self._out[:] = list(self._out), []
        return parts


def _read_reasoning(family: Family, reader: Reader, end: str) -> Reading[None]:
    text = reader.text
    starts = tuple(family.format.starts) if family.format and reader.calls else ()
    reader.reasoning_over()
    yield from text.while_in(SPACE)
    while (yield from text.take(*(start for start, its in family.thinking if its == end))):
        yield from text.while_in(SPACE)  # some begin twice
    if not reader.formed and (yield from text.at(family.dropped)):
        return  # content begins: there is no reasoning; a form holds it to its end
    while (found := (yield from text.copy_until((end, *starts), reader.reason))) in starts:
        if (yield from _read_draft(family, reader, found, end)):
            break
    else:
        yield from text.take(end)


def _read_draft(family: Family, reader: Reader, start: str, end: str) -> Reading[bool]:
    """Read what is a call if reasoning has no end of its own, and a draft if it has. Return whether it is a call."""
    text, calls = reader.text, reader.calls
    assert family.format is not None
    assert calls is not None
    parts, before = calls.aside(), calls.count
    text.draft()
    text.keep()
    try:
        yield from family.format.read(text, calls)
        text.keep()
    except Malformed:
        calls.withdraw()
    whole = calls.count > before and end not in text.drafted()
    quoted = whole and (yield from text.copy_until((end,), lambda part: None))
    written = text.drafted()
    text.draft_over()
    calls.onward()
    if not whole:
        text.push(written[len(start) :])
    if not whole or quoted:
        reader.reason(start if not whole else written)
        return False
    calls.add(parts)
    text.push(text.kept())
    return True


def read_calls(family: Family, reader: Reader) -> Reading[None]:
    """Read calls, or give back as content what turns out to be none."""
    assert family.format is not None
    assert reader.calls is not None
    reader.text.keep()
    try:
        yield from family.format.read(reader.text, reader.calls)
    except Malformed:
        reader.calls.withdraw()
        reader.literally(reader.text.kept())
