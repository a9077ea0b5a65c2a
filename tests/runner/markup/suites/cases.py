"""A text of another project's tests, what that project makes of it, and what is made of it here."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from reconciler.runner.markup.answer import Family, Parser
from tests.runner.markup.reading import Seen, seen_of

AGREES, WRONG, LOST, TEXT = "agrees", "wrong", "lost", "text"
"""Verdicts: alike; a call that the other does not have, or with other arguments; only fewer calls; calls alike, text not."""


@dataclasses.dataclass(frozen=True)
class Case:
    """A text, and what is expected of it."""

    name: str
    family: Family
    text: str
    tools: Sequence[Mapping[str, Any]]
    prompts: Sequence[str]
    """The ends of prompts that the text may follow; one of them has to agree."""
    calls: Sequence[tuple[str, Any]]
    content: str
    reasoning: str | None
    """None where it is not looked at."""
    formed: bool = False
    asked_calls: bool = True
    """Whether calls are looked at."""

    def verdict(self) -> tuple[str, Seen]:
        """Return what it comes to, and what was read. Fails where the pieces of the text make a difference."""
        found = [self._verdict(self._read(prompt)) for prompt in self.prompts]
        return next((each for each in found if each[0] == AGREES), found[0])

    def _read(self, prompt: str) -> Seen:
        whole, in_characters = (self._seen(prompt, pieces) for pieces in ([self.text], self.text))
        assert (whole.calls, whole.content, whole.reasoning) == (
            in_characters.calls,
            in_characters.content,
            in_characters.reasoning,
        ), self.name
        return whole

    def _seen(self, prompt: str, pieces: Iterable[str]) -> Seen:
        parser = Parser(self.family, self.tools, prompt, self.formed)
        parts = [part for piece in pieces for part in parser.feed(piece)]
        return seen_of([*parts, *parser.end()])

    def _verdict(self, seen: Seen) -> tuple[str, Seen]:
        ours = [(name, value(arguments)) for name, _, arguments in seen.calls]
        theirs = list(self.calls)
        if self.asked_calls and ours != theirs:
            return LOST if all(call in theirs for call in ours) else WRONG, seen
        alike = seen.content.strip() == self.content.strip()
        if self.reasoning is not None:
            alike = alike and seen.reasoning.strip() == self.reasoning.strip()
        return AGREES if alike else TEXT, seen


def value(arguments: str) -> Any:
    """Return arguments as a value; as they are where they are no JSON."""
    try:
        return json.loads(arguments or "{}")
    except ValueError:
        return "no JSON: " + arguments


def complete(calls: Iterable[tuple[str, Any]]) -> bool:
    return not any(isinstance(arguments, str) for _, arguments in calls)
