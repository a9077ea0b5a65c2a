"""kubectl's JSONPath templates, such as `{range .items[*]}{.metadata.name}{"\\n"}{end}`.

The supported subset (kubernetes.io/docs/reference/kubectl/jsonpath): fields, `['a.b']`, indexes (also negative),
slices with a step, unions, wildcards, recursive descent, filters, literals, range and end. A missing field is
empty; an index that is out of bounds, or into something that is not a list, is an error.
"""

from __future__ import annotations

import json
import operator
import re
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, TypeVar

from reconciler.errors import Invalid

T = TypeVar("T")

DEPTH_MAX = 32
"""Deepest nesting of ranges and filters."""

Step = Callable[[list[Any]], list[Any]]
"""From values to what is found in each of them."""
Path = tuple[Step, ...]
Operand = Callable[[Any], list[Any]]
Piece = Callable[[Any], str]
Template = tuple[Piece, ...]

_SPACES = re.compile(r"\s*")
_FIELD = re.compile(r"(?:[^\s.,\[\]$@{}\\]|\\.)+")
_FIELD_IN_FILTER = re.compile(r"(?:[^\s.,\[\]$@{}\\()!=<>&|]|\\.)+")
_NUMBER = re.compile(r"[-+]?[0-9]{1,18}(?:\.[0-9]{1,18})?")
_INDEX = re.compile(r"-?[0-9]{1,9}(?![0-9])")
_OPERATOR = re.compile(r"[!<>=&|~]+")
_ORDERED = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}
_SIGNS = ("==", "!=", *_ORDERED)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "\\": "\\", '"': '"', "'": "'"}


class BadTemplate(ValueError):
    """A wrong template: what was expected, and where."""

    def __init__(self, text: str, at: int, expected: str) -> None:
        found = f'"{text[at]}"' if at < len(text) else "the end"
        super().__init__(f"{text}: at character {at + 1}, {found}: {expected}")


def parse_template(text: str) -> Template:
    """Parse a template. Raises ``BadTemplate``."""
    if "{" not in text:
        raise BadTemplate(text, 0, "a template has its paths in braces, such as {.metadata.name}")
    return _Parser(text).template()


def parse_path(text: str) -> Path:
    """Parse one path, with or without braces and leading dot: `{.spec.model}`, `.spec.model`, `spec.model`."""
    inner = text.strip()
    if inner.startswith("{"):
        if not inner.endswith("}"):
            raise BadTemplate(text, len(text), "expected }")
        inner = inner[1:-1].strip()
    if not inner:
        raise BadTemplate(text, 0, "expected a path such as .metadata.name")
    return _Parser(inner if inner[0] in ".[$@" else f".{inner}").full_path()


def render(template: Template, value: Any) -> str:
    """Return the text that a template makes from a value. Raises ``Invalid`` for an index that fits nothing."""
    return "".join(piece(value) for piece in template)


def find(path: Path, value: Any) -> list[Any]:
    """Return everything that a path finds. Raises ``Invalid`` for an index that fits nothing."""
    found = [value]
    for step in path:
        found = step(found)
    return found


def written(value: Any) -> str:
    """Return a value as a template prints it: text unchanged, everything else as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _always(result: T) -> Callable[[Any], T]:
    return lambda _: result


# --- steps -----------------------------------------------------------------------------------------


def _each(find_in: Callable[[Any], Iterable[Any]]) -> Step:
    return lambda values: [found for value in values for found in find_in(value)]


def _field(name: str, quoted: bool, value: Any) -> list[Any]:
    """Return a field. As in kubectl, a quoted name with dots is a path if no field has that name."""
    if isinstance(value, dict) and name in value:
        return [value[name]]
    if quoted and "." in name:
        return find(tuple(_each(partial(_field, part, False)) for part in name.split(".")), value)
    return []


def _every(value: Any) -> list[Any]:
    return list(value.values()) if isinstance(value, dict) else _elements("*", value)


def _element(number: int, value: Any) -> list[Any]:
    elements = _elements(str(number), value)
    if value is not None and not -len(elements) <= number < len(elements):
        raise Invalid(f"array index out of bounds: index {number}, length {len(elements)}")
    return [elements[number]] if elements else []


def _elements(wanted: str, value: Any) -> list[Any]:
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


def _compare(sign: str, left: Any, right: Any) -> bool:
    if sign in ("==", "!="):
        same = left == right and isinstance(left, bool) == isinstance(right, bool)
        return same == (sign == "==")
    numbers = all(isinstance(side, int | float) and not isinstance(side, bool) for side in (left, right))
    texts = isinstance(left, str) and isinstance(right, str)
    return (numbers or texts) and bool(_ORDERED[sign](left, right))


# --- parsing ---------------------------------------------------------------------------------------


class _Parser:
    """A cursor over the text. Every method begins where the previous one ended."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._depth = 0

    def template(self) -> Template:
        pieces, ended = self._body()
        if ended:
            raise BadTemplate(self._text, self._at - 1, "no range is open here")
        return pieces

    def _body(self) -> tuple[Template, bool]:
        """Return pieces up to the end of the text or `{end}`, and whether it was `{end}`."""
        pieces: list[Piece] = []
        while self._at < len(self._text):
            literal, brace, _ = self._text[self._at :].partition("{")
            self._at += len(literal) + len(brace)
            if literal:
                pieces.append(_always(literal))
            if brace:
                self._take(_SPACES)
                if self._keyword("end"):
                    self._close("}")
                    return tuple(pieces), True
                pieces.append(self._action())
        return tuple(pieces), False

    def _action(self) -> Piece:
        if self._peek() in ('"', "'"):
            quoted = self._quoted()
            self._close("}")
            return _always(quoted)
        if self._keyword("range"):
            return self._range()
        if self._peek() not in (".", "[", "$", "@"):
            raise self._wrong('expected a path such as .metadata.name, a text in quotes, "range" or "end"')
        path = self._path(_FIELD)
        self._close("}")
        return lambda value: " ".join(map(written, find(path, value)))

    def _range(self) -> Piece:
        opened = self._at - len("range")
        self._take(_SPACES)
        path = self._path(_FIELD)
        self._close("}")
        self._deeper()
        body, ended = self._body()
        self._depth -= 1
        if not ended:
            raise BadTemplate(self._text, opened, "this range has no {end}")
        return lambda value: "".join(render(body, found) for found in find(path, value))

    # --- paths ---

    def full_path(self) -> Path:
        path = self._path(_FIELD)
        if self._at < len(self._text):
            raise self._wrong("expected . or [ or the end of the path")
        return path

    def _path(self, field: re.Pattern[str]) -> Path:
        if self._peek() in ("$", "@"):
            self._at += 1
        steps: list[Step] = []
        while self._peek() in (".", "["):
            steps += self._dotted(field) if self._skip(".") else [self._bracket()]
        return tuple(steps)

    def _dotted(self, field: re.Pattern[str]) -> list[Step]:
        found = [_each(_containers)] if self._skip(".") else []
        if self._peek() == ".":
            raise self._wrong("expected a field after the dots")
        if self._skip("*"):
            return [*found, _each(_every)]
        if name := self._take(field):
            return [*found, _each(partial(_field, re.sub(r"\\(.)", r"\1", name), False))]
        if found or self._peek() in ("", "}", "["):
            return found  # `{..}`, `{.}`, and `.[0]`
        raise self._wrong("expected the name of a field; a dot within it is written \\.")

    def _bracket(self) -> Step:
        self._at += 1
        if self._text.startswith("?(", self._at):
            return self._filter()
        self._take(_SPACES)
        if self._skip("*"):
            self._close("]")
            return _each(_every)
        selectors = [self._selector()]
        while self._skip(","):
            self._take(_SPACES)
            selectors.append(self._selector())
        self._close("]")
        return lambda values: [found for selector in selectors for found in selector(values)]

    def _selector(self) -> Step:
        if self._peek() in ('"', "'"):
            found = _each(partial(_field, self._quoted(), True))
        else:
            found = self._index_or_slice()
        self._take(_SPACES)
        return found

    def _index_or_slice(self) -> Step:
        numbers = [self._index()]
        while len(numbers) < 3 and self._skip(":"):
            numbers.append(self._index())
        if len(numbers) > 1:
            if len(numbers) == 3 and numbers[2] is not None and numbers[2] < 1:
                raise BadTemplate(self._text, self._at - 1, "expected a step of at least 1")
            return _each(lambda value: _elements("a slice", value)[slice(*numbers)])
        if numbers[0] is None:
            raise self._wrong("expected an index, a slice such as 0:2, a key in quotes, * or ?(")
        return _each(partial(_element, numbers[0]))

    def _index(self) -> int | None:
        digits = self._take(_INDEX)
        return int(digits) if digits else None

    # --- filters ---

    def _filter(self) -> Step:
        """Return a step to the elements for which a comparison holds; without an operator, that have the left side."""
        self._at += 2
        self._deeper()
        left = self._operand()
        began, sign = self._at, self._take(_OPERATOR)
        if sign and sign not in _SIGNS:
            raise BadTemplate(self._text, began, f"expected one of {', '.join(_SIGNS)}")
        right = self._operand() if sign else left
        self._depth -= 1
        self._close(")")
        self._close("]")

        def holds(element: Any) -> bool:
            one, other = left(element), right(element)
            return bool(one and other) and (not sign or _compare(sign, one[0], other[0]))

        return _each(lambda value: filter(holds, _elements("a filter", value)))

    def _operand(self) -> Operand:
        self._take(_SPACES)
        operand = self._one_operand()
        self._take(_SPACES)
        return operand

    def _one_operand(self) -> Operand:
        if self._peek() in ('"', "'"):
            return _always([self._quoted()])
        if self._peek() in ("@", "$", ".", "["):
            return partial(find, self._path(_FIELD_IN_FILTER))
        if digits := self._take(_NUMBER):
            return _always([float(digits) if "." in digits else int(digits)])
        for word, value in (("true", True), ("false", False)):
            if self._keyword(word):
                return _always([value])
        raise self._wrong("expected a path such as @.name, a text in quotes, a number, true or false")

    # --- the text ---

    def _peek(self) -> str:
        return self._text[self._at : self._at + 1]

    def _skip(self, character: str) -> bool:
        """Move behind a character if it is next."""
        there = self._peek() == character
        self._at += there
        return there

    def _take(self, pattern: re.Pattern[str]) -> str:
        """Return the text that matches here, and move behind it; empty if none does."""
        match = pattern.match(self._text, self._at)
        if match is None:
            return ""
        self._at = match.end()
        return match[0]

    def _keyword(self, word: str) -> bool:
        return bool(self._take(re.compile(rf"{word}(?![A-Za-z0-9_])")))

    def _close(self, bracket: str) -> None:
        self._take(_SPACES)
        if not self._skip(bracket):
            raise self._wrong(f"expected {bracket}")

    def _quoted(self) -> str:
        opened, quote = self._at, self._peek()
        found = []
        self._at += 1
        while (character := self._peek()) != quote:
            if not character:
                raise BadTemplate(self._text, opened, "this quote is never closed")
            if character == "\\":
                self._at += 1
                if self._peek() not in _ESCAPES:
                    raise self._wrong(r"expected one of \n, \t, \r, \\, \" and \'")
                character = _ESCAPES[self._peek()]
            found.append(character)
            self._at += 1
        self._at += 1
        return "".join(found)

    def _deeper(self) -> None:
        self._depth += 1
        if self._depth > DEPTH_MAX:
            raise self._wrong(f"at most {DEPTH_MAX} ranges and filters may be nested")

    def _wrong(self, expected: str) -> BadTemplate:
        return BadTemplate(self._text, self._at, expected)
