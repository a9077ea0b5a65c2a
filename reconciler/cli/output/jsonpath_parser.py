"""Parses kubectl's JSONPath templates; errors name the wrong place."""

from __future__ import annotations

import re

from .jsonpath import (
    DEPTH_MAX,
    BadTemplate,
    Descent,
    Filter,
    Index,
    Key,
    Literal,
    Operand,
    Path,
    Piece,
    Range,
    Slice,
    Step,
    Template,
    Union,
    Wildcard,
)

_SPACES = re.compile(r"\s*")
_FIELD = re.compile(r"(?:[^\s.,\[\]$@{}\\]|\\.)+")
_FIELD_IN_FILTER = re.compile(r"(?:[^\s.,\[\]$@{}\\()!=<>&|]|\\.)+")
_NUMBER = re.compile(r"[-+]?[0-9]{1,18}(?:\.[0-9]{1,18})?")
_INDEX = re.compile(r"-?[0-9]{1,9}(?![0-9])")
_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_OPERATOR = re.compile(r"[!<>=&|~]+")
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "\\": "\\", '"': '"', "'": "'"}


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


class _Parser:
    """A cursor over the text. Every method begins where the previous one ended."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._depth = 0

    # --- templates ---

    def template(self) -> Template:
        pieces, ended = self._body()
        if ended:
            raise BadTemplate(self._text, self._at - 1, "no range is open here")
        return pieces

    def _body(self) -> tuple[Template, bool]:
        """Return pieces up to the end of the text or `{end}`, and whether it was `{end}`."""
        pieces: list[Piece] = []
        while self._at < len(self._text):
            opening = self._text.find("{", self._at)
            opening = len(self._text) if opening < 0 else opening
            if opening > self._at:
                pieces.append(self._text[self._at : opening])
            self._at = opening
            if self._at == len(self._text):
                break
            self._at += 1
            self._skip_spaces()
            if self._keyword("end"):
                self._close("}")
                return tuple(pieces), True
            pieces.append(self._action())
        return tuple(pieces), False

    def _action(self) -> Piece:
        if self._peek() in ('"', "'"):
            quoted = self._quoted()
            self._close("}")
            return quoted
        if self._keyword("range"):
            return self._range()
        if self._peek() not in (".", "[", "$", "@"):
            raise self._wrong('expected a path such as .metadata.name, a text in quotes, "range" or "end"')
        path = self._path(_FIELD)
        self._close("}")
        return path

    def _range(self) -> Range:
        opened = self._at - len("range")
        self._skip_spaces()
        path = self._path(_FIELD)
        self._close("}")
        self._deeper()
        body, ended = self._body()
        self._depth -= 1
        if not ended:
            raise BadTemplate(self._text, opened, "this range has no {end}")
        return Range(path, body)

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
            steps += self._dotted(field) if self._peek() == "." else [self._bracket()]
        return tuple(steps)

    def _dotted(self, field: re.Pattern[str]) -> list[Step]:
        found: list[Step] = []
        if self._text.startswith("..", self._at):
            found.append(Descent())
            self._at += 1
        self._at += 1
        if self._peek() == ".":
            raise self._wrong("expected a field after the dots")
        if self._peek() == "*":
            self._at += 1
            return [*found, Wildcard()]
        match = field.match(self._text, self._at)
        if match is not None:
            self._at = match.end()
            return [*found, Key(re.sub(r"\\(.)", r"\1", match[0]))]
        if found or self._peek() in ("", "}", "["):
            return found  # `{..}`, `{.}`, and `.[0]`
        raise self._wrong("expected the name of a field; a dot within it is written \\.")

    def _bracket(self) -> Step:
        self._at += 1
        if self._text.startswith("?(", self._at):
            return self._filter()
        self._skip_spaces()
        if self._peek() == "*":
            self._at += 1
            self._close("]")
            return Wildcard()
        selectors = [self._selector()]
        while self._peek() == ",":
            self._at += 1
            self._skip_spaces()
            selectors.append(self._selector())
        self._close("]")
        return selectors[0] if len(selectors) == 1 else Union(tuple(selectors))

    def _selector(self) -> Key | Index | Slice:
        if self._peek() in ('"', "'"):
            found: Key | Index | Slice = Key(self._quoted(), quoted=True)
        else:
            found = self._index_or_slice()
        self._skip_spaces()
        return found

    def _index_or_slice(self) -> Index | Slice:
        numbers, colons = [self._index()], 0
        while self._peek() == ":" and colons < 2:
            self._at += 1
            colons += 1
            numbers.append(self._index())
        if not colons:
            if numbers[0] is None:
                raise self._wrong("expected an index, a slice such as 0:2, a key in quotes, * or ?(")
            return Index(numbers[0])
        start, stop, step = (*numbers, None)[:3] if len(numbers) == 2 else numbers
        if step is not None and step < 1:
            raise BadTemplate(self._text, self._at - 1, "expected a step of at least 1")
        return Slice(start, stop, step)

    def _index(self) -> int | None:
        match = _INDEX.match(self._text, self._at)
        if match is None:
            return None
        self._at = match.end()
        return int(match[0])

    # --- filters ---

    def _filter(self) -> Filter:
        self._at += 2
        self._deeper()
        left = self._operand()
        operator = _OPERATOR.match(self._text, self._at)
        if operator is None:
            found = Filter(left)
        elif operator[0] not in ("==", "!=", "<", "<=", ">", ">="):
            raise self._wrong("expected one of ==, !=, <, <=, >, >=")
        else:
            self._at = operator.end()
            found = Filter(left, operator[0], self._operand())
        self._depth -= 1
        self._close(")")
        self._close("]")
        return found

    def _operand(self) -> Operand:
        self._skip_spaces()
        operand = self._one_operand()
        self._skip_spaces()
        return operand

    def _one_operand(self) -> Operand:
        if self._peek() in ('"', "'"):
            return Literal(self._quoted())
        if self._peek() in ("@", "$", ".", "["):
            return self._path(_FIELD_IN_FILTER)
        number = _NUMBER.match(self._text, self._at)
        if number is not None:
            self._at = number.end()
            return Literal(float(number[0]) if "." in number[0] else int(number[0]))
        for word, value in (("true", True), ("false", False)):
            if self._keyword(word):
                return Literal(value)
        raise self._wrong("expected a path such as @.name, a text in quotes, a number, true or false")

    # --- the text ---

    def _peek(self) -> str:
        return self._text[self._at : self._at + 1]

    def _skip_spaces(self) -> None:
        match = _SPACES.match(self._text, self._at)
        self._at = match.end() if match else self._at

    def _keyword(self, word: str) -> bool:
        match = _WORD.match(self._text, self._at)
        if match is None or match[0] != word:
            return False
        self._at = match.end()
        return True

    def _close(self, bracket: str) -> None:
        self._skip_spaces()
        if self._peek() != bracket:
            raise self._wrong(f"expected {bracket}")
        self._at += 1

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
