"""The form of an answer that requests ask for, in any dialect. Pure.

A rank checks whether it can hold answers to the form, because that depends on the model's family and tokenizer.
"""

from __future__ import annotations

import dataclasses
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from operator import itemgetter
from typing import Any

import orjson

from reconciler.gateway.errors import invalid
from reconciler.wire.form import FREE, Form

from .fields import DEPTH_MAX, too_deep

SCHEMA_BYTES_MAX = 256 * 1024
REGEX_CHARACTERS_MAX = 16 * 1024
CHOICES_MAX = 1024
ANY_OBJECT: Mapping[str, Any] = {"type": "object"}


@dataclasses.dataclass(frozen=True, slots=True)
class ToolUse:
    """The use of tools that a request asks for."""

    offered: bool = True
    """True if the model sees them at all."""
    required: bool = False
    """True if the answer must be calls."""
    names: tuple[str, ...] = ()
    """The tools that may be called; empty: all."""


def schema_form(schema: Any, path: str) -> Form:
    """Return the form of content that satisfies a schema. Raises ``ApiError`` (400)."""
    if not isinstance(schema, (dict, bool)):
        raise invalid("a schema must be an object", path)
    if too_deep(schema):
        raise invalid(f"nested more than {DEPTH_MAX} levels deep", path)
    text = orjson.dumps(schema)
    if len(text) > SCHEMA_BYTES_MAX:
        raise invalid(f"a schema takes at most {SCHEMA_BYTES_MAX} bytes, got {len(text)}", path)
    return Form(schema=text.decode(), schema_path=path)


def regex_form(expression: Any, path: str) -> Form:
    """Return the form of content that matches a regular expression. Raises ``ApiError`` (400)."""
    if not isinstance(expression, str) or not expression:
        raise invalid("a regular expression must be a non-empty string", path)
    if len(expression) > REGEX_CHARACTERS_MAX:
        raise invalid(f"a regular expression takes at most {REGEX_CHARACTERS_MAX} characters", path)
    return Form(regex=expression, schema_path=path)


def choice_form(choices: Any, path: str) -> Form:
    """Return the form of content that is one of several texts. Raises ``ApiError`` (400)."""
    if (
        not isinstance(choices, list)
        or not choices
        or not all(isinstance(one, str) and one for one in choices)
    ):
        raise invalid("choices must be a list of non-empty strings", path)
    if len(choices) > CHOICES_MAX:
        raise invalid(f"there may be at most {CHOICES_MAX} choices, got {len(choices)}", path)
    return regex_form("|".join(f"(?:{re.escape(one)})" for one in choices), path)


def refuse_equal_names(names: Iterable[str]) -> None:
    """Raise ``ApiError`` (400) for two tools of one name, which the model could not tell apart."""
    name, count = max(Counter(names).items(), key=itemgetter(1), default=("", 0))
    if count > 1:
        raise invalid(f"{count} tools have the name {name[:60]!r}", "tools")


def form_of(content: Form | None, use: ToolUse, strict: Sequence[str], known: Collection[str]) -> Form:
    """Return the form of an answer. ``strict`` tools have arguments that satisfy their schema; ``known`` are all
    tools of the request. Raises ``ApiError`` (400) for a ``use`` that they do not allow."""
    if (use.required or use.names) and not known:
        raise invalid("there are no tools to call", "tool_choice")
    there = frozenset(known)
    for name in use.names:
        if name not in there:
            raise invalid(f"there is no tool {name!r:.100}", "tool_choice")
    if not (use.required or use.names or (strict and use.offered)):
        return content or FREE
    return dataclasses.replace(
        content or FREE,
        calls_required=use.required,
        callable=use.names,
        strict=tuple(strict) if use.offered else (),
    )
