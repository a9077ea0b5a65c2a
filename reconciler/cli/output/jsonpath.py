"""kubectl's JSONPath templates, such as `{range .items[*]}{.metadata.name}{"\\n"}{end}`.

The supported subset (kubernetes.io/docs/reference/kubectl/jsonpath): fields, `['a.b']`, indexes (also negative),
slices with a step, unions, wildcards, recursive descent, filters, literals, range and end. A missing field is
empty; an index that is out of bounds, or into something that is not a list, is an error.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from reconciler.errors import Invalid

DEPTH_MAX = 32
"""Deepest nesting of ranges and filters."""


class BadTemplate(ValueError):
    """A wrong template: what was expected, and where."""

    def __init__(self, text: str, at: int, expected: str) -> None:
        found = f'"{text[at]}"' if at < len(text) else "the end"
        super().__init__(f"{text}: at character {at + 1}, {found}: {expected}")


# --- the parts of a template -------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Key:
    """One field. As in kubectl, a quoted name with dots is a path if no field has that name."""

    name: str
    quoted: bool = False


@dataclass(frozen=True, slots=True)
class Wildcard:
    """Every element of a list, every value of a mapping."""


@dataclass(frozen=True, slots=True)
class Index:
    """One element of a list; a negative number counts from its end."""

    number: int


@dataclass(frozen=True, slots=True)
class Slice:
    """Some elements of a list."""

    start: int | None
    stop: int | None
    step: int | None


@dataclass(frozen=True, slots=True)
class Union:
    """The results of several selectors."""

    selectors: tuple[Key | Index | Slice, ...]


@dataclass(frozen=True, slots=True)
class Descent:
    """A container and every container within it."""


@dataclass(frozen=True, slots=True)
class Filter:
    """The elements of a list for which a comparison holds; without ``operator``, those that have the left side."""

    left: Operand
    operator: str = ""
    right: Operand | None = None


@dataclass(frozen=True, slots=True)
class Literal:
    """A text, number or truth value."""

    value: Any


Step = Key | Wildcard | Index | Slice | Union | Descent | Filter
Path = tuple[Step, ...]
Operand = Path | Literal


@dataclass(frozen=True, slots=True)
class Range:
    """A body that is repeated for each result of a path."""

    path: Path
    body: Template


Piece = str | Path | Range
Template = tuple[Piece, ...]


# --- evaluating ------------------------------------------------------------------------------------


def render(template: Template, value: Any) -> str:
    """Return the text that a template makes from a value. Raises ``Invalid`` for an index that fits nothing."""
    return "".join(_rendered(template, value))


def _rendered(template: Template, value: Any) -> Iterator[str]:
    for piece in template:
        match piece:
            case str():
                yield piece
            case Range(path, body):
                for found in find(path, value):
                    yield from _rendered(body, found)
            case _:
                yield " ".join(written(found) for found in find(piece, value))


def written(value: Any) -> str:
    """Return a value as a template prints it: text unchanged, everything else as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def find(path: Path, value: Any) -> list[Any]:
    """Return everything that a path finds. Raises ``Invalid`` for an index that fits nothing."""
    found = [value]
    for step in path:
        found = _follow(step, found)
    return found


def _follow(step: Step, values: list[Any]) -> list[Any]:
    match step:
        case Union(selectors):
            return [found for selector in selectors for found in _follow(selector, values)]
        case _:
            return [found for value in values for found in _from(step, value)]


def _from(step: Step, value: Any) -> list[Any]:
    match step:
        case Key():
            return _field(step, value)
        case Wildcard():
            return list(value.values()) if isinstance(value, dict) else _elements(value, "*")
        case Index(number):
            elements = _elements(value, str(number))
            if value is not None and not -len(elements) <= number < len(elements):
                raise Invalid(f"array index out of bounds: index {number}, length {len(elements)}")
            return [elements[number]] if elements else []
        case Slice(start, stop, stride):
            return _elements(value, "a slice")[start:stop:stride]
        case Filter():
            return [element for element in _elements(value, "a filter") if _holds(step, element)]
        case Descent():
            return list(_containers(value))
        case Union():
            return _follow(step, [value])


def _field(key: Key, value: Any) -> list[Any]:
    if isinstance(value, dict) and key.name in value:
        return [value[key.name]]
    if key.quoted and "." in key.name:
        return find(tuple(Key(part) for part in key.name.split(".")), value)
    return []


def _elements(value: Any, wanted: str) -> list[Any]:
    if isinstance(value, list):
        return value
    if value is None:
        return []
    kind = "an object" if isinstance(value, dict) else f"{written(value)[:40]}"
    raise Invalid(f"{kind} is not a list: [{wanted}] finds nothing there")


def _containers(value: Any) -> Iterator[Any]:
    """Yield lists and mappings, each before its contents."""
    waiting = [value]
    while waiting:
        current = waiting.pop()
        if isinstance(current, dict | list):
            yield current
            waiting += reversed(list(current.values()) if isinstance(current, dict) else current)


def _holds(condition: Filter, element: Any) -> bool:
    left = _operand(condition.left, element)
    if condition.right is None:
        return bool(left)
    right = _operand(condition.right, element)
    return bool(left and right) and _compare(condition.operator, left[0], right[0])


def _operand(operand: Operand, element: Any) -> list[Any]:
    return [operand.value] if isinstance(operand, Literal) else find(operand, element)


def _compare(operator: str, left: Any, right: Any) -> bool:
    if operator in ("==", "!="):
        same = left == right and isinstance(left, bool) == isinstance(right, bool)
        return same == (operator == "==")
    numbers = all(isinstance(side, int | float) and not isinstance(side, bool) for side in (left, right))
    if not numbers and not (isinstance(left, str) and isinstance(right, str)):
        return False
    less, equal = bool(left < right), bool(left == right)
    return {"<": less, "<=": less or equal, ">": not less and not equal, ">=": not less}[operator]
