"""Text that comes in pieces, read as if all of it were there.

Readers are generators: each ``yield`` waits for more text. So a format is written as a plain recursive descent, and its
result cannot depend on where the pieces were cut.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Sequence, Set
from typing import TypeVar

T = TypeVar("T")
Reading = Generator[None, None, T]
"""A reader that returns ``T`` and yields whenever it needs more text, or to know that there is no more."""
Sink = Callable[[str], None]

SPACE = " \t\r\n"


class Malformed(Exception):
    """The text is not in the format that was expected here."""


class Text:
    """The text that has come and was not read yet."""

    def __init__(self) -> None:
        self._left = ""
        self._position = 0
        self._read: list[str] = []
        self._drafted: list[str] | None = None
        self._passing: tuple[Set[str], Sink] | None = None
        """While ``copy_until`` waits for text: the first characters of its markers, and the sink for other text."""
        self.ended = False
        """No more text will come."""

    def passes(self, text: str) -> bool:
        """Pass this text on if reading it would do no more than that. Return whether it was passed on."""
        if self._passing is None:
            return False
        firsts, sink = self._passing
        if not firsts.isdisjoint(text):
            return False
        if text:
            sink(text)
            self._record(text)
        return True

    def feed(self, text: str) -> None:
        self._left = self._left[self._position :] + text
        self._position = 0

    def keep(self) -> None:
        """Keep the text that is read from here on, for ``kept``."""
        self._read = []

    def kept(self) -> str:
        """Return the text that was read since ``keep``."""
        return "".join(self._read)

    def draft(self) -> None:
        """Keep the text that is read from here on separately, for ``drafted``."""
        self._drafted = []

    def drafted(self) -> str:
        """Return the text that was read since ``draft``."""
        return "".join(self._drafted or ())

    def draft_over(self) -> None:
        self._drafted = None

    def peek(self) -> Reading[str]:
        """Return the next character without reading it; empty at the end."""
        while self._position == len(self._left):
            if self.ended:
                return ""
            yield
        return self._left[self._position]

    def next(self) -> Reading[str]:
        """Read one character. Raises ``Malformed`` at the end."""
        character = yield from self.peek()
        if not character:
            raise Malformed("the text ends here")
        self._advance(1)
        return character

    def while_in(self, characters: Collection[str]) -> Reading[str]:
        """Read characters for as long as they are one of these."""
        found = []
        while (character := (yield from self.peek())) and character in characters:
            found.append(character)
            self._advance(1)
        return "".join(found)

    def skip_space(self) -> Reading[None]:
        yield from self.while_in(SPACE)

    def at(self, literals: Sequence[str]) -> Reading[str]:
        """Return which of these comes next, without reading it; empty if none does. The first one listed wins."""
        for literal in literals:
            while True:
                there = self._left[self._position : self._position + len(literal)]
                if there == literal:
                    return literal
                if self.ended or not literal.startswith(there):
                    break
                yield
        return ""

    def take(self, *literals: str) -> Reading[str]:
        """Read one of these if it comes next. Return it, or nothing."""
        found = yield from self.at(literals)
        self._advance(len(found))
        return found

    def expect(self, *literals: str) -> Reading[str]:
        """Read one of these. Raises ``Malformed`` if none comes next."""
        found = yield from self.take(*literals)
        if not found:
            raise Malformed(f"expected {' or '.join(literals)}")
        return found

    def copy_until(self, markers: Sequence[str], sink: Sink) -> Reading[str]:
        """Read up to the first of the markers, which is left unread, and pass the text before it on as early as possible.

        Returns the marker; empty if the text ends without one. Of markers that begin at one place the longest wins.
        """
        firsts = {marker[0] for marker in markers}
        while True:
            place = self._first_of(firsts)
            if place > self._position:
                sink(self._left[self._position : place])
                self._advance(place - self._position)
            if self._position == len(self._left) and not self.ended:
                self._passing = firsts, sink
                yield
                self._passing = None
                continue
            found = yield from self.at(sorted(markers, key=len, reverse=True))
            if found:
                return found
            character = yield from self.peek()
            if not character:
                return ""
            if character in firsts:
                sink(character)
                self._advance(1)

    def until(self, *markers: str) -> Reading[tuple[str, str]]:
        """Read up to the first of the markers, which is left unread. Return the text before it, and the marker.

        Raises ``Malformed`` if the text ends without one.
        """
        before: list[str] = []
        found = yield from self.copy_until(markers, before.append)
        if not found:
            raise Malformed(f"expected {' or '.join(markers)}")
        return "".join(before), found

    def push(self, text: str) -> None:
        """Put back the text that was read last."""
        for kept in filter(None, (self._read, self._drafted)):
            kept[:] = ["".join(kept)[: -len(text) or None]]
        self._left = text + self._left[self._position :]
        self._position = 0

    def _advance(self, count: int) -> None:
        if count:
            self._record(self._left[self._position : self._position + count])
            self._position += count

    def _record(self, text: str) -> None:
        self._read.append(text)
        if self._drafted is not None:
            self._drafted.append(text)

    def _first_of(self, characters: Collection[str]) -> int:
        places = [place for c in characters if (place := self._left.find(c, self._position)) >= 0]
        return min(places, default=len(self._left))
