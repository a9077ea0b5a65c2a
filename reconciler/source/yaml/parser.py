"""Parses YAML text into a tree of plain values with their lines and columns.

Uses the parser's events instead of PyYAML's constructors. This gives every key and value its place, limits the depth
without relying on Python's stack, and decides the meaning of unquoted words. Three features of YAML are refused, each
with its own message:

- anchors and aliases: no manifest needs them. Without them, no text grows when it is read ("billion laughs"), and
  replacing a document in place does not change another.
- tags: the type of a value follows from its spelling.
- surprising numbers and dates (``010`` is 8, ``1:30`` is 90): quotes or plain decimals are clear.
"""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import yaml

from reconciler.errors import Problem

from .syntax_errors import clip, syntax_problem

DEPTH_MAX = 32
"""Levels of nesting; the deepest kind has six."""
NUMBER_CHARACTERS_MAX = 20
STRUCTURE_PROBLEMS_MAX = 50

LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""libyaml if PyYAML was built with it, else the same grammar in Python, about ten times slower."""

_RESOLVERS: dict[str, list[tuple[str, re.Pattern[str]]]] = yaml.SafeLoader.yaml_implicit_resolvers
_TAG = "tag:yaml.org,2002:"
_DECIMAL = re.compile(r"[-+]?(?:0|[1-9][0-9]*)")
_FRACTION = re.compile(r"[-+]?(?:[0-9]+\.[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?")
_UNPRINTABLE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
_MARKS = re.compile(r"^(?:%|\.\.\.(?=[ \t\r\n]|\Z))", re.MULTILINE)
_END = re.compile(r"\.\.\.[ \t]*(?:#.*)?\r?\Z")
_VERSION = re.compile(r"%YAML[ \t]+1\.[0-9]+[ \t]*(?:#.*)?\r?\Z")
Flaw = tuple[int, int, str]
"""Line and column, from 0, and a message."""
_WORDS = {
    "bool": "a boolean",
    "int": "a number",
    "float": "a number",
    "null": "nothing",
    "timestamp": "a date",
}


@dataclass(slots=True)
class Node:
    """One value. ``line`` and ``column`` count from 1; an empty value has those of its key."""

    value: Any
    """Plain: dict, list, str, int, float, bool or None."""
    line: int
    column: int
    written: str = ""
    """A scalar as it is written, without quotes."""
    quoted: bool = False
    children: dict[str | int, Node] = field(default_factory=dict)
    key: tuple[int, int] | None = None
    """Line and column of the value's key."""


@dataclass(frozen=True, slots=True)
class Tree:
    """The contents of one piece of text. ``root`` is None if it was empty or unreadable."""

    root: Node | None
    problems: tuple[Problem, ...]
    first_line: int = 0
    last_line: int = 0
    """Lines of the content, counted as in ``Node``, without comments before and after it."""


def parse(file: str, text: str, line: int = 1, column: int = 1, loader: Any = LOADER) -> Tree:
    """Parse the document in ``text``, which begins at ``line`` and ``column`` of ``file``."""
    builder = _Builder(file, line - 1, column - 1)
    text, flaws = without_marks(text)
    try:
        for flaw in flaws:
            builder.report(*flaw)
        for event in yaml.parse(text, Loader=loader):
            builder.on_event(event)
    except yaml.MarkedYAMLError as error:
        with contextlib.suppress(_GiveUp):
            builder.report(*_within(text, *syntax_problem(error, text)))
        builder.root = None
    except _GiveUp:
        builder.root = None
    root = builder.root
    if root is not None and root.value is None and not root.quoted:
        root = None
    return Tree(root, tuple(builder.problems), root.line if root else 0, builder.last_line)


def _within(text: str, line: int, column: int, words: str) -> tuple[int, int, str]:
    """Move an error onto the last line: without a final line break, libyaml reports the line after it."""
    last = text.count("\n")
    return (line, column, words) if line <= last else (last, len(text) - text.rfind("\n") - 1, words)


class _GiveUp(Exception):
    """Stops the document, because the rest would only repeat a reported problem."""


class _Builder:
    def __init__(self, file: str, line_offset: int, column_offset: int) -> None:
        self.root: Node | None = None
        self.problems: list[Problem] = []
        self.last_line = 0
        self._file = file
        self._line_offset = line_offset
        self._column_offset = column_offset
        self._open: list[Node] = []
        self._key: list[tuple[str, int, int] | None] = []
        """The key that waits for its value, for each open mapping."""
        self._paths: list[str] = []
        """The path of each open mapping or list."""
        self._documents = 0

    def report(self, line: int, column: int, text: str, path: str = "") -> None:
        """Add a problem at a place counted from 0 within this piece of text."""
        if len(self.problems) >= STRUCTURE_PROBLEMS_MAX:
            raise _GiveUp
        self.problems.append(Problem(self._file, *self._place(line, column), path, text))

    def on_event(self, event: yaml.Event) -> None:
        match event:
            case yaml.ScalarEvent():
                self._ends(event)
                self._scalar(event)
            case yaml.MappingStartEvent():
                self._opens(event, Node({}, *self._start(event)))
            case yaml.SequenceStartEvent():
                self._opens(event, Node([], *self._start(event)))
            case yaml.MappingEndEvent() | yaml.SequenceEndEvent():
                self._closes(event)
            case yaml.AliasEvent():
                self._alias(event)
            case yaml.DocumentStartEvent():
                self._begins(event)
            case _:
                pass

    # --- one event each ----------------------------------------------------------------------------

    def _scalar(self, event: Any) -> None:
        plain = event.style in (None, "")
        self._check_properties(event)
        if self._open and isinstance(self._open[-1].value, dict) and self._key[-1] is None:
            self._take_key(event, plain)
            return
        line, column = self._start(event)
        value = event.value
        if match := _UNPRINTABLE.search(value):
            self._refuse(event, f"the character U+{ord(match[0]):04X}; only printable text is read")
        elif plain and event.tag is None:
            value = self._resolve(event)
        node = Node(value, line, column, event.value, not plain)
        if plain and event.value == "" and self._open and (key := self._key[-1]) is not None:
            node.line, node.column = key[1:]
        self._add(node)

    def _take_key(self, event: Any, plain: bool) -> None:
        line, column = self._start(event)
        key: str = event.value
        tag = _implicit_tag(key) if plain else "str"
        if tag == "merge":
            self._refuse(event, 'merging with "<<"; write the fields out')
        elif tag in _WORDS:
            self._refuse(event, f"expected text as a key, got {clip(key)} ({_WORDS[tag]}); put it in quotes")
        elif match := _UNPRINTABLE.search(key):
            self._refuse(event, f"the character U+{ord(match[0]):04X}; only printable text is read")
        elif (first := self._open[-1].children.get(key)) is not None and first.key is not None:
            self._refuse(event, f"duplicate key, first on line {first.key[0]}", clip(key))
        self._key[-1] = (key, line, column)

    def _opens(self, event: Any, node: Node) -> None:
        self._check_properties(event)
        if self._open and isinstance(self._open[-1].value, dict) and self._key[-1] is None:
            self._refuse(event, "expected text as a key, got a list or a mapping")
            raise _GiveUp
        if len(self._open) >= DEPTH_MAX:
            self._refuse(event, f"nested more than {DEPTH_MAX} levels deep")
            raise _GiveUp
        path = self._path(None)
        self._add(node)
        self._open.append(node)
        self._key.append(None)
        self._paths.append(path)

    def _add(self, node: Node) -> None:
        if not self._open:
            self.root = node
            return
        parent = self._open[-1]
        if isinstance(parent.value, list):
            parent.children[len(parent.value)] = node
            parent.value.append(node.value)
            return
        key = self._key[-1]
        if key is None:  # an alias as a key: it was reported, and the rest cannot be used
            raise _GiveUp
        name, line, column = key
        node.key = (line, column)
        if name not in parent.value:
            parent.children[name] = node
            parent.value[name] = node.value
        self._key[-1] = None

    def _closes(self, event: Any) -> None:
        if event.start_mark.index != event.end_mark.index:  # a bracket; the end of a block has no text
            self._ends(event)
        self._open.pop()
        self._key.pop()
        self._paths.pop()

    def _alias(self, event: Any) -> None:
        words = 'an alias ("*"); write the value out, or put text that begins with "*" in quotes'
        self._refuse(event, words)
        self._add(Node(None, *self._start(event)))

    def _begins(self, event: Any) -> None:
        self._documents += 1
        if self._documents > 1:
            self._refuse(event, 'a second document; begin it with "---"')
            raise _GiveUp

    def _check_properties(self, event: Any) -> None:
        if event.anchor is not None:
            self._refuse(
                event,
                'an anchor ("&"); write the value where it is used, or put text that begins with "&" in quotes',
            )
        if event.tag is not None:
            tag = event.tag.replace(_TAG, "!!")
            self._refuse(event, f'the tag {clip(tag)}; remove it, or put text that begins with "!" in quotes')

    # --- values ------------------------------------------------------------------------------------

    def _resolve(self, event: Any) -> Any:
        """Return the value of an unquoted scalar as in YAML 1.1; surprising ones are refused."""
        text: str = event.value
        tag = _implicit_tag(text)
        if tag == "null":
            return None
        if tag == "bool":
            return text.lower() in ("yes", "true", "on")
        if tag in ("int", "float"):
            return self._number(event, tag)
        if tag == "timestamp":
            self._refuse(event, f'{clip(text)} is a date in YAML; put it in quotes: "{clip(text)}"')
            return None
        return text

    def _number(self, event: Any, tag: str) -> int | float | None:
        text: str = event.value
        if tag == "int" and _DECIMAL.fullmatch(text) and len(text) <= NUMBER_CHARACTERS_MAX:
            return int(text)
        if tag == "float" and _FRACTION.fullmatch(text) and math.isfinite(float(text)):
            return float(text)
        if len(text) > NUMBER_CHARACTERS_MAX:
            self._refuse(event, f"{clip(text)} is too long a number")
            return None
        number = _odd_number(text)
        if number is None:
            self._refuse(event, f'{text} is not a usable number; if it is text, put it in quotes: "{text}"')
        else:
            self._refuse(
                event, f'{text} is the number {number:g} in YAML; write {number:g}, or "{text}" in quotes'
            )
        return None

    # --- places ------------------------------------------------------------------------------------

    def _start(self, event: Any) -> tuple[int, int]:
        return self._place(event.start_mark.line, event.start_mark.column)

    def _place(self, line: int, column: int) -> tuple[int, int]:
        return line + self._line_offset + 1, column + 1 + (self._column_offset if line == 0 else 0)

    def _ends(self, event: Any) -> None:
        mark = event.end_mark
        line = mark.line - 1 if mark.column == 0 and mark.line > event.start_mark.line else mark.line
        self.last_line = max(self.last_line, line + self._line_offset + 1)

    def _refuse(self, event: Any, text: str, key: str | None = None) -> None:
        mark = event.start_mark
        self.report(mark.line, mark.column, text, self._path(key))

    def _path(self, key: str | None) -> str:
        if not self._open:
            return ""
        path, pending = self._paths[-1], self._key[-1]
        if isinstance(self._open[-1].value, list):
            return f"{path}[{len(self._open[-1].value)}]"
        name = key if key is not None else clip(pending[0]) if pending is not None else ""
        return f"{path}.{name}" if path and name else path or name


def _implicit_tag(text: str) -> str:
    for tag, pattern in _RESOLVERS.get(text[:1], ()):
        if pattern.match(text):
            return tag.removeprefix(_TAG)
    return "str"


def _odd_number(text: str) -> float | None:
    """Return the value of an octal, hexadecimal, binary, sexagesimal or grouped number in YAML 1.1."""
    try:
        number = float(yaml.safe_load(text))
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


# --- around a document ------------------------------------------------------------------------------


def without_marks(text: str) -> tuple[str, list[Flaw]]:
    """Return the text with blank lines in place of directives and of the ends of documents without content, and the
    flaws in these. Every line stays where it is."""
    if not _MARKS.search(text):
        return text, []
    flaws: list[Flaw] = []
    return "\n".join(_lines(text, flaws)), flaws


def _lines(text: str, flaws: list[Flaw]) -> Iterator[str]:
    content, directive = False, False
    for number, line in enumerate(text.split("\n")):
        bare = line.strip()
        if _END.match(line):
            yield line if content else ""
            content = False
        elif not content and line.startswith("%"):
            directive = True
            if not _VERSION.match(line):
                flaws.append((number, 0, _meaning(line)))
            yield ""
        else:
            if bare and not bare.startswith("#") and not content:
                content = True
                if directive:
                    flaws.append((number, 0, 'expected a document; a new one begins with "---"'))
                    directive = False
            yield line


def _meaning(line: str) -> str:
    if line.startswith("%YAML"):
        return "a version of YAML that is not read; expected %YAML 1.1 or %YAML 1.2, or no such line"
    if line.startswith("%TAG"):
        return "a %TAG directive; tags are not read: remove it"
    return 'a line that begins with "%"; put text in quotes, and remove other directives than %YAML'
