"""Turns pydantic's errors into problems with places and plain sentences."""

from __future__ import annotations

import difflib
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from pydantic import BaseModel, ValidationError

from reconciler.errors import Problem
from reconciler.resources import PATTERN_RULES
from reconciler.source.yaml.parser import Node

from .syntax_errors import clip

PROBLEMS_MAX = 50
"""The most problems to report for a document."""


def explain(file: str, root: Node, kind: type[BaseModel], error: ValidationError) -> Iterator[Problem]:
    """Yield the problems of one document, at most ``PROBLEMS_MAX``, each at its key or value."""
    seen: set[Problem] = set()
    for detail in error.errors(include_url=False)[:PROBLEMS_MAX]:
        problem = _problem(file, root, kind, detail)
        if problem not in seen:
            seen.add(problem)
            yield problem


def _problem(file: str, root: Node, kind: type[BaseModel], detail: Mapping[str, Any]) -> Problem:
    node, rest, path = _follow(root, detail["loc"])
    name = str(rest[-1]) if rest else ""
    line, column = node.key or (node.line, node.column)
    if detail["type"] == "missing":
        return Problem(file, line, column, dotted((*path, name)), "required field is missing")
    if detail["type"] == "extra_forbidden":
        return Problem(file, line, column, dotted(path), "unknown field" + _instead(kind, path))
    if name == "[key]":
        shown = Node(str(path[-1]), line, column, quoted=True)
        return Problem(file, line, column, dotted(path), f"as a key, {_words(detail, shown)}")
    return Problem(file, node.line, node.column, dotted(path), _words(detail, node))


def _follow(
    root: Node, loc: tuple[int | str, ...]
) -> tuple[Node, tuple[int | str, ...], tuple[int | str, ...]]:
    """Return the node at ``loc``, the rest of ``loc`` that is not in the document, and the path to the node.

    The rest is a missing field, pydantic's own name of a branch of a union, or a place within a short form such
    as ``nodes: 4``.
    """
    node, path, rest = root, [], []
    for step in loc:
        child = node.children.get(step)
        if child is None:
            rest.append(step)
        else:
            node = child
            path.append(step)
    return node, tuple(rest), tuple(path)


def dotted(path: Iterable[int | str]) -> str:
    """Return a path as messages show it: ``spec.links[0][1]``."""
    steps = (f"[{step}]" if isinstance(step, int) else f".{clip(step)}" for step in path)
    return "".join(steps).removeprefix(".")


# --- fields ----------------------------------------------------------------------------------------


_SET_BY_US = ("manifest_path", "data")
"""Fields that are set when a commit is read, and that no manifest has."""


def field_names(kind: type[BaseModel], path: Iterable[int | str]) -> list[str]:
    """Return the YAML names of the fields of the mapping at ``path`` within ``kind``; empty for a free mapping."""
    models = _models_at(kind, path)
    return [f.alias or name for m in models for name, f in m.model_fields.items() if name not in _SET_BY_US]


def _models_at(kind: type[BaseModel], path: Iterable[int | str]) -> list[type[BaseModel]]:
    models = [kind]
    for step in path:
        found = [f.annotation for m in models for f in m.model_fields.values() if f.alias == step]
        models = [m for annotation in found for m in _models_in(annotation)] if found else models
    return models


def _models_in(annotation: Any) -> list[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for inner in typing.get_args(annotation) for model in _models_in(inner)]


def suggest(word: str, known: Iterable[str]) -> str | None:
    """Return the known word that ``word`` probably means, ignoring case, ``_`` and ``-``; None if none is near."""
    plain = {_plain(candidate): candidate for candidate in known}
    close = difflib.get_close_matches(_plain(word[:80]), plain, n=1, cutoff=0.7)
    return plain[close[0]] if close else None


def _plain(word: str) -> str:
    return word.lower().replace("_", "").replace("-", "")


def _instead(kind: type[BaseModel], path: tuple[int | str, ...]) -> str:
    """Return the message for an unknown field: our field for another tool's name, else the nearest name."""
    word = str(path[-1])
    for model in _models_at(kind, path[:-1]):
        known = {_plain(name): text for name, text in getattr(model, "elsewhere", {}).items()}
        if text := known.get(_plain(word)):
            return f": {text}"
    return _nearest(word, field_names(kind, path[:-1]))


def _nearest(word: str, fields: list[str]) -> str:
    if (nearest := suggest(word, fields)) is not None:
        return f', did you mean "{nearest}"?'
    return f"; the fields here are {', '.join(fields)}" if fields else "; there are no fields here"


# --- values ----------------------------------------------------------------------------------------


def got(node: Node) -> str:
    match node.value:
        case dict():
            return "a mapping"
        case list():
            return "a list"
        case None:
            return "nothing"
        case bool():
            return f"{clip(node.written)} (a boolean)"
        case int() | float():
            return f"{clip(node.written)} (a number)"
        case str() as text:
            return f'"{clip(text)}" (a string)'
        case other:
            raise TypeError(f"not a YAML value: {other!r}")


def _wrong(expected: str) -> Callable[[Mapping[str, Any], Node], str]:
    return lambda context, node: f"expected {expected}, got {got(node)}"


def _wanted_text(context: Mapping[str, Any], node: Node) -> str:
    quotes = "; put it in quotes" if isinstance(node.value, bool | int | float) else ""
    return f"expected a string, got {got(node)}{quotes}"


def _one_of(context: Mapping[str, Any], node: Node) -> str:
    """Return the message for a word that is not one of a few; pydantic lists them as ``'a', 'b' or 'c'``."""
    words = [word.strip("'") for word in context["expected"].replace(" or ", ", ").split(", ")]
    shown = f'"{clip(node.value)}"' if isinstance(node.value, str) else got(node)
    if len(words) == 1:
        return f'expected "{words[0]}", got {shown}'
    nearest = suggest(node.value, words) if isinstance(node.value, str) else None
    return f"expected one of {', '.join(words)}" + (
        f'; did you mean "{nearest}"?' if nearest else f", got {shown}"
    )


def _pattern(context: Mapping[str, Any], node: Node) -> str:
    return f'expected {PATTERN_RULES[context["pattern"]]}, got "{clip(str(node.value))}"'


def _own_words(context: Mapping[str, Any], node: Node) -> str:
    """Return the kind's own message, with the value if the message lacks it."""
    text = str(context["error"])
    return f"{text}, got {got(node)}" if text.startswith("expected ") and "got " not in text else text


def _count(context: Mapping[str, Any], node: Node, bound: str, least_or_most: str) -> str:
    count = context[bound]
    what = "character" if isinstance(node.value, str) else "item"
    had = context.get("actual_length", len(node.value) if isinstance(node.value, str | list | dict) else 0)
    return f"expected at {least_or_most} {count} {what}{'' if count == 1 else 's'}, got {had}"


_WORDS: dict[str, Callable[[Mapping[str, Any], Node], str]] = {
    "string_type": _wanted_text,
    "int_type": _wrong("a whole number"),
    "int_parsing": _wrong("a whole number"),
    "int_from_float": _wrong("a whole number"),
    "float_type": _wrong("a number"),
    "float_parsing": _wrong("a number"),
    "bool_type": _wrong("true or false"),
    "bool_parsing": _wrong("true or false"),
    "model_type": _wrong("a mapping"),
    "model_attributes_type": _wrong("a mapping"),
    "dict_type": _wrong("a mapping"),
    "tuple_type": _wrong("a list"),
    "list_type": _wrong("a list"),
    "none_required": _wrong("nothing"),
    "literal_error": _one_of,
    "string_pattern_mismatch": _pattern,
    "value_error": _own_words,
    "other_form": _own_words,
    "greater_than_equal": lambda context, node: (
        f"expected at least {context['ge']}, got {clip(node.written)}"
    ),
    "less_than_equal": lambda context, node: f"expected at most {context['le']}, got {clip(node.written)}",
    "greater_than": lambda context, node: f"expected more than {context['gt']}, got {clip(node.written)}",
    "less_than": lambda context, node: f"expected less than {context['lt']}, got {clip(node.written)}",
    "string_too_short": lambda context, node: _count(context, node, "min_length", "least"),
    "too_short": lambda context, node: _count(context, node, "min_length", "least"),
    "string_too_long": lambda context, node: _count(context, node, "max_length", "most"),
    "too_long": lambda context, node: _count(context, node, "max_length", "most"),
}


def _words(detail: Mapping[str, Any], node: Node) -> str:
    words = _WORDS.get(detail["type"])
    return words(detail.get("ctx", {}), node) if words else str(detail["msg"])
