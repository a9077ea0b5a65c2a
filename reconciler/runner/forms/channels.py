"""The grammar of answers that are several messages, each with a head that says what it is. Pure."""

from __future__ import annotations

from abc import ABC, abstractmethod

from reconciler.runner.markup.channels import Channels
from reconciler.wire.form import Form

from .calls import Calls
from .lark import ANYTHING, Grammar, choice, many, maybe, quoted, regex, sequence


def channels(
    family: Channels, grammar: Grammar, form: Form, prompt: str, content: str, calls: Calls | None
) -> str:
    """Return the grammar of an answer. ``content`` is empty where it may be any. Raises ``Inexpressible``."""
    written: dict[str, type[_Messages]] = {
        "harmony": _Harmony,
        "muse": _Muse,
        "functionary-3.2": _Functionary,
    }
    return written[family.name](family, grammar, calls).answer(form, prompt, content)


class _Messages(ABC):
    """The common part of all such families: messages of text and of calls."""

    def __init__(self, family: Channels, grammar: Grammar, calls: Calls | None) -> None:
        self._family = family
        self._grammar = grammar
        self._calls = calls
        self._text = grammar.terminal(regex(ANYTHING))

    @abstractmethod
    def answer(self, form: Form, prompt: str, content: str) -> str:
        """Return an answer from its first message on."""

    @abstractmethod
    def said(self, content: str) -> str:
        """Return a message for the client."""

    @abstractmethod
    def called(self, calls: Calls) -> str:
        """Return messages that call tools."""

    def literal(self, text: str) -> str:
        return self._grammar.literal(text)

    def next(self) -> str:
        """Return what begins another message."""
        return self.literal(self._family.begins[0])


class _Thinking(_Messages):
    """A family whose messages may be thoughts and asides too; the last message ends the answer."""

    @abstractmethod
    def thought(self) -> str:
        """Return a message of reasoning, with its end."""

    @abstractmethod
    def aside(self) -> str:
        """Return a message for the client that others follow, with its end."""

    def answer(self, form: Form, prompt: str, content: str) -> str:
        thoughts = many(sequence(self.thought(), self.next()))
        ends: list[str] = []
        if not form.calls_required:
            ends.append(self.said(content or self._text))
        if self._calls:
            ends.append(self.called(self._calls))
        if not (form.calls_required or content):
            thoughts = many(
                choice(sequence(self.thought(), self.next()), sequence(self.aside(), self.next()))
            )
        return sequence(thoughts, choice(*ends))

    def until(self, end: str) -> str:
        """Return a text up to what ends its message, and with it."""
        family = self._family
        return self._grammar.until(end, [stop for stop in (*family.ends, *family.begins) if stop != end])


class _Harmony(_Thinking):
    def thought(self) -> str:
        return sequence(self.literal("<|channel|>analysis<|message|>"), self.until("<|end|>"))

    def aside(self) -> str:
        return sequence(self.literal("<|channel|>commentary<|message|>"), self.until("<|end|>"))

    def said(self, content: str) -> str:
        return sequence(self.literal("<|channel|>final<|message|>"), content)

    def called(self, calls: Calls) -> str:
        kind = choice(sequence(maybe(quoted(" ")), self.literal("<|constrain|>json")), quoted(" json"), '""')
        found = []
        for tool in calls.tools:
            arguments = sequence(kind, self.literal("<|message|>"), calls.arguments(tool))
            found.append(
                choice(
                    sequence(self.literal(f"<|channel|>commentary to=functions.{tool.name}"), arguments),
                    sequence(self.literal(f" to=functions.{tool.name}<|channel|>commentary"), arguments),
                )
            )
        return choice(*found)


class _Muse(_Thinking):
    def thought(self) -> str:
        return sequence(self.literal(" to=self<|message|>"), self.until("<|eom|>"))

    def aside(self) -> str:
        return sequence(self.literal(" to=user<|message|>"), self.until("<|eom|>"))

    def said(self, content: str) -> str:
        return sequence(maybe(self.literal(" to=user")), self.literal("<|message|>"), content)

    def called(self, calls: Calls) -> str:
        start = self._family.format.starts[0] if self._family.format else ""
        found = [
            sequence(self.literal(f" to={tool.name}<|message|>{start}"), calls.only(tool).after(start))
            for tool in calls.tools
        ]
        return choice(*found)


class _Functionary(_Messages):
    def answer(self, form: Form, prompt: str, content: str) -> str:
        begun = prompt.endswith(">>>")
        first = "" if begun else self.next()
        called = self.called(self._calls) if self._calls else ""
        more = many(sequence(self.next(), called)) if called and self._calls and self._calls.several else ""
        only = sequence(called, more) if called else ""
        if form.calls_required:
            return sequence(first, only)
        if content:
            return sequence(first, choice(*filter(None, (self.said(content), only))))
        if not called:
            return sequence(first, self.said(self._text))
        free = sequence(self.literal("all\n"), choice(sequence(self._grammar.until(">>>"), only), self._text))
        return sequence(first, choice(only, free))

    def said(self, content: str) -> str:
        return sequence(self.literal("all\n"), content)

    def called(self, calls: Calls) -> str:
        return choice(
            *(sequence(self.literal(f"{tool.name}\n"), calls.arguments(tool)) for tool in calls.tools)
        )
