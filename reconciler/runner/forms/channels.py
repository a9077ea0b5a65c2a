"""The grammar of answers that are several messages, each with a head that says what it is. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from reconciler.runner.markup.channels import Channels
from reconciler.wire.form import Form

from .calls import Calls
from .lark import ANYTHING, Grammar, choice, many, maybe, quoted, regex, sequence

_HEADS: Mapping[str, tuple[str, str, str]] = {
    "harmony": ("<|channel|>analysis<|message|>", "<|channel|>commentary<|message|>", "<|end|>"),
    "muse": (" to=self<|message|>", " to=user<|message|>", "<|eom|>"),
}
"""Of families whose messages may be thoughts, and asides that other messages follow: the heads of both, and their end."""


def channels(
    family: Channels, grammar: Grammar, form: Form, prompt: str, content: str, calls: Calls | None
) -> str:
    """Return the grammar of an answer. ``content`` is empty where it may be any. Raises ``Inexpressible``."""
    text = grammar.terminal(regex(ANYTHING))
    again = grammar.literal(family.begins[0])
    if family.name == "functionary-3.2":
        return sequence(
            "" if prompt.endswith(">>>") else again,
            _functionary(grammar, form, content or text, calls, again),
        )
    thought, aside, end = _HEADS[family.name]
    never = [stop for stop in (*family.ends, *family.begins) if stop != end]

    def message(head: str) -> str:
        return sequence(grammar.literal(head), grammar.until(end, never), again)

    before = many(message(thought))
    last: list[str] = []
    if not form.calls_required:
        last.append(sequence(_said(family, grammar), content or text))
    if calls:
        last.append(
            _harmony_calls(grammar, calls)
            if family.name == "harmony"
            else _muse_calls(family, grammar, calls)
        )
    if not (form.calls_required or content):
        before = many(choice(message(thought), message(aside)))
    return sequence(before, choice(*last))


def _said(family: Channels, grammar: Grammar) -> str:
    """Return the head of the message that ends an answer."""
    if family.name == "harmony":
        return grammar.literal("<|channel|>final<|message|>")
    return sequence(maybe(grammar.literal(" to=user")), grammar.literal("<|message|>"))


def _harmony_calls(grammar: Grammar, calls: Calls) -> str:
    kind = choice(sequence(maybe(quoted(" ")), grammar.literal("<|constrain|>json")), quoted(" json"), '""')
    found = []
    for tool in calls.tools:
        arguments = sequence(kind, grammar.literal("<|message|>"), calls.arguments(tool))
        heads = (
            f"<|channel|>commentary to=functions.{tool.name}",
            f" to=functions.{tool.name}<|channel|>commentary",
        )
        found.append(choice(*(sequence(grammar.literal(head), arguments) for head in heads)))
    return choice(*found)


def _muse_calls(family: Channels, grammar: Grammar, calls: Calls) -> str:
    start = family.format.starts[0] if family.format else ""
    return choice(
        *(
            sequence(grammar.literal(f" to={tool.name}<|message|>{start}"), calls.only(tool).after(start))
            for tool in calls.tools
        )
    )


def _functionary(grammar: Grammar, form: Form, content: str, calls: Calls | None, again: str) -> str:
    """Return an answer after the beginning of its first message."""
    said = sequence(grammar.literal("all\n"), content)
    if calls is None:
        return said
    called = choice(
        *(sequence(grammar.literal(f"{tool.name}\n"), calls.arguments(tool)) for tool in calls.tools)
    )
    only = sequence(called, many(sequence(again, called)) if calls.several else "")
    if form.calls_required:
        return only
    if form.schema is not None or form.regex is not None:
        return choice(said, only)
    free = sequence(grammar.literal("all\n"), choice(sequence(grammar.until(">>>"), only), content))
    return choice(only, free)
