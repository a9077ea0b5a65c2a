"""Answers read by a family's parser, put together again."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from reconciler.runner.markup.answer import Family, Parser
from reconciler.runner.markup.families import FAMILIES
from reconciler.runner.markup.parts import (
    Arguments,
    CallBegun,
    CallEnded,
    CallWithdrawn,
    Content,
    Part,
    Reasoning,
)

from .writers import Call

BY_NAME = {known.family.name: known for known in FAMILIES}


@dataclasses.dataclass
class Seen:
    """What a client sees in the end."""

    content: str = ""
    reasoning: str = ""
    calls: list[tuple[str, str, str]] = dataclasses.field(default_factory=list)
    """Name, id and arguments of each complete call."""
    fragments: int = 0
    withdrawn: list[str] = dataclasses.field(default_factory=list)
    """Fragments of calls that turned out to be none."""

    @property
    def parsed(self) -> list[Call]:
        return [(name, json.loads(arguments)) for name, _, arguments in self.calls]


def seen_of(parts: Iterable[Part]) -> Seen:
    seen = Seen()
    begun: CallBegun | None = None
    arguments = ""
    for part in parts:
        match part:
            case Content():
                seen.content += part.text
            case Reasoning():
                seen.reasoning += part.text
            case CallBegun():
                assert begun is None, "a call within a call"
                begun, arguments = part, ""
            case Arguments():
                assert begun is not None
                arguments += part.text
                seen.fragments += 1
            case CallEnded():
                assert begun is not None
                seen.calls.append((begun.name, begun.id, arguments))
                begun = None
            case CallWithdrawn():
                seen.withdrawn.append(arguments)
                begun = None
    assert begun is None, "a call was neither ended nor withdrawn"
    return seen


def read(family: Family, pieces: Iterable[str], tools: Sequence[Mapping[str, Any]], prompt: str = "") -> Seen:
    parser = Parser(family, tools, prompt)
    parts: list[Part] = []
    for piece in pieces:
        parts += parser.feed(piece)
    return seen_of([*parts, *parser.end()])


def schema(value: Any) -> dict[str, Any]:
    """The JSON schema of a value, all the way down."""
    if isinstance(value, dict):
        return {"type": "object", "properties": {key: schema(each) for key, each in value.items()}}
    if isinstance(value, list):
        return {"type": "array", "items": schema(value[0]) if value else {}}
    kinds = {str: "string", bool: "boolean", int: "integer", float: "number", type(None): "null"}
    return {"type": kinds[type(value)]}


def tools_for(calls: Sequence[Call]) -> list[dict[str, Any]]:
    """Tools that declare what is called."""
    return [
        {"type": "function", "function": {"name": name, "parameters": schema(arguments)}}
        for name, arguments in calls
    ]
