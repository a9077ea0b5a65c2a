"""The grammar of a whole answer: reasoning as the model writes it, and after it the form that the request asks for.
Pure."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from typing import Any

from reconciler.runner.markup.answer import Family
from reconciler.runner.markup.channels import Channels
from reconciler.wire.form import Form

from .calls import Calls, Tool, declared
from .channels import channels
from .lark import ANYTHING, GAP, NOTHING, Grammar, TooLarge, choice, many, maybe, regex, sequence
from .schemas import TOOLS_BYTES_MAX, Inexpressible, Schema, arguments, dropped_patterns, parsed

DROPPED_MAX = 3
"""Markers that announce the content and are no part of it."""


@dataclasses.dataclass(frozen=True)
class Asked:
    """The input for a grammar."""

    form: Form
    tools: Sequence[Mapping[str, Any]]
    several: bool
    """There may be more than one call."""
    prompt: str
    """The end of the prompt's text, which may have begun the reasoning; what a literal prompt ends with does not matter."""
    literal: bool = False
    """The answer is read as it is, without reasoning and calls."""
    unheld: frozenset[int] = frozenset()
    """Indexes of the tools whose calls are held to no schema, because they cannot be held to their own."""

    def without(self, path: str) -> Asked | None:
        """Return the same with the tool whose schema is at this path held to no schema.

        None if the path is in no tool's schema, or if a call is required.
        """
        left = [index for index in range(len(self.tools)) if index not in self.unheld]
        found = next((index for index in left if _is_within(path, self.form.parameters_path(index))), None)
        if found is None or self.form.calls_required:
            return None
        return dataclasses.replace(self, unheld=self.unheld | {found})

    @property
    def replaced(self) -> Mapping[str, int]:
        """Return how many tools and patterns of schemas the answer is not held to."""
        held = [] if self.form.schema is None else [json.loads(self.form.schema)]
        for index, tool in enumerate(self.tools):
            name, parameters = declared(tool)
            if self.form.calls_required or (name in self.form.strict and index not in self.unheld):
                held.append(parameters)
        counts = {"strict-tools": len(self.unheld), "patterns": sum(map(dropped_patterns, held))}
        return {kind: count for kind, count in counts.items() if count}


def _is_within(path: str, whole: str) -> bool:
    return path == whole or path.startswith((f"{whole}.", f"{whole}["))


def grammar_of(asked: Asked, family: Family, special: Mapping[str, int], ends: Sequence[str]) -> str:
    """Return the grammar of an answer. Raises ``Inexpressible``.

    ``special`` are the tokens that are no text, ``ends`` the texts of those that end an answer.
    """
    try:
        return _grammar(asked, family, Grammar(special), ends)
    except TooLarge as error:
        raise Inexpressible(
            "tools" if asked.form.schema is None else asked.form.schema_path,
            f"answers cannot be held to this: {error}",
        ) from None


def _grammar(asked: Asked, family: Family, grammar: Grammar, ends: Sequence[str]) -> str:
    content = _content(asked.form, grammar)
    if asked.literal:
        return grammar.text(content or grammar.terminal(regex(ANYTHING)))
    tools = _callable(asked)
    calls = Calls(grammar, family.format, tools, asked.several, ends) if tools and family.format else None
    if isinstance(family, Channels):
        return grammar.text(channels(family, grammar, asked.form, asked.prompt, content, calls))
    return grammar.text(
        sequence(_reasoning(family, grammar, asked), _body(family, grammar, asked, content, calls))
    )


def schemas_of(asked: Asked) -> list[tuple[Schema, str]]:
    """Return the schemas in a grammar, each with its path in the request."""
    found = (
        []
        if asked.form.schema is None
        else [(parsed(asked.form.schema, asked.form.schema_path), asked.form.schema_path)]
    )
    return found + [(tool.schema, tool.path) for tool in _callable(asked) if tool.schema is not None]


def _content(form: Form, grammar: Grammar) -> str:
    """Return the content; empty where it may be any."""
    if form.schema is not None:
        return grammar.json(parsed(form.schema, form.schema_path))
    return grammar.terminal(regex(form.regex)) if form.regex is not None else ""


def _callable(asked: Asked) -> list[Tool]:
    """Return the tools that may be called. Raises ``Inexpressible`` for parameters that no answer can be held to."""
    form, found, size = asked.form, [], 0
    chosen, strict = frozenset(form.callable), frozenset(form.strict)
    for index, tool in enumerate(asked.tools):
        name, parameters = declared(tool)
        path = form.parameters_path(index)
        if chosen and name not in chosen:
            continue
        held = index not in asked.unheld and (form.calls_required or name in strict)
        size += len(json.dumps(parameters)) if held else 0
        if size > TOOLS_BYTES_MAX:
            raise Inexpressible(
                path, f"schemas that calls are held to have at most {TOOLS_BYTES_MAX} characters together"
            )
        properties = parameters.get("properties") if isinstance(parameters, Mapping) else None
        names = tuple(properties) if isinstance(properties, Mapping) else ()
        found.append(Tool(name, path, arguments(parameters, path) if held else None, names))
    return found


def _reasoning(family: Family, grammar: Grammar, asked: Asked) -> str:
    """Return the reasoning and its end marker: the prompt has begun it, or else the model may begin it."""
    tail = asked.prompt.rstrip()
    opened = family.opened(asked.prompt)
    if opened:
        return sequence(grammar.until(opened), GAP)
    if any(tail.endswith(end.rstrip()) for _, end in family.thinking):
        return ""  # it is over
    begun = [sequence(grammar.literal(start), grammar.until(end), GAP) for start, end in family.thinking]
    return maybe(choice(*begun)) if begun else ""


def _body(family: Family, grammar: Grammar, asked: Asked, content: str, calls: Calls | None) -> str:
    dropped = [grammar.literal(marker) for marker in family.dropped]
    before = f"({choice(*dropped)}){{0,{DROPPED_MAX}}}" if dropped else ""
    if asked.form.calls_required:
        assert calls is not None
        return sequence(before, calls.all())
    if content:
        return sequence(before, choice(content, calls.all()) if calls else content)
    return _free(family, grammar, calls)


def _free(family: Family, grammar: Grammar, calls: Calls | None) -> str:
    """Return any text, with calls within it that are held to their form."""
    text = grammar.terminal(regex(ANYTHING))
    if calls is None or family.format is None:
        return text
    parts = [sequence(grammar.until(start), calls.after(start)) for start in family.format.starts]
    if family.format.bare:
        return choice(
            sequence(maybe(regex(r"\s+")), calls.after("")),
            sequence(regex(r"\s*[^{\s]"), many(choice(*parts)), text),
            NOTHING,
        )
    parts += [sequence(text, grammar.literal(marker)) for marker in family.dropped]
    parts += [sequence(grammar.until(start), grammar.until(end)) for start, end in family.thinking]
    return sequence(many(choice(*parts)), text)
