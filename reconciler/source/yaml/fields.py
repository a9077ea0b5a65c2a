"""Changes one field in the text of a YAML document, and nothing else. Pure.

The places come from PyYAML's own nodes. The result is parsed again: if it does not mean exactly what it should
(there are many ways to write YAML), the caller gets None and has to rewrite the document.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import yaml

from reconciler.source.yaml.parser import LOADER, parse

REMOVED: Any = object()
"""New value of a field that is to be removed."""

Path = Sequence[str]
Spans = list[tuple[int, int, str]]
"""Start, end (in characters of the text), and the replacement."""


def changed(text: str, path: Path, value: Any) -> str | None:
    """Return ``text`` (one document) with the field at ``path`` set to a plain ``value``, or ``REMOVED``.

    Creates missing mappings. Returns None if this cannot be done in place.
    """
    before = parse("", text).root
    root = yaml.compose(text, Loader=LOADER)
    if before is None or not isinstance(root, yaml.MappingNode):
        return None
    wanted = with_field(before.value, path, value)
    if wanted == before.value:
        return text
    edit = _removal(text, root, path) if value is REMOVED else _setting(text, root, path, value)
    if edit is None:
        return None
    for start, end, new in sorted(edit, reverse=True):
        text = text[:start] + new + text[end:]
    after = parse("", text)
    correct = after.root is not None and not after.problems and after.root.value == wanted
    return text if correct else None


def with_field(plain: Any, path: Path, value: Any) -> Any:
    """Return a plain mapping with one field changed; creates missing mappings."""
    known = dict(plain) if isinstance(plain, dict) else {}
    name, rest = path[0], path[1:]
    if rest:
        if value is REMOVED and not isinstance(known.get(name), dict):
            return plain
        return {**known, name: with_field(known.get(name), rest, value)}
    if value is REMOVED:
        known.pop(name, None)
        return known
    return {**known, name: value}


# --- setting ---------------------------------------------------------------------------------------


def _setting(text: str, mapping: Any, path: Path, value: Any) -> Spans | None:
    entry = _entry(mapping, path[0])
    if entry is None:
        return _insertion(text, mapping, path[0], _nested(path[1:], value))
    key, old = entry
    if len(path) > 1 and isinstance(old, yaml.MappingNode):
        return _setting(text, old, path[1:], value)
    return _replacement(text, key, old, _nested(path[1:], value))


def _nested(path: Path, value: Any) -> Any:
    for name in reversed(path):
        value = {name: value}
    return value


def _replacement(text: str, key: Any, old: Any, value: Any) -> Spans | None:
    start, end = old.start_mark.index, _end(text, old)
    if isinstance(old, yaml.ScalarNode):
        if old.style in ("|", ">"):
            header = text[start:end].partition("\n")[0]
            comment = header[len(header.partition("#")[0].rstrip()) :]
            return [(start, end, written(value) + comment)]
        if start == end:  # only the key and its colon
            return [(start, start, " " + written(value))]
        return [(start, end, written(value, old.style))]
    if old.flow_style:
        return [(start, end, written(value))]
    colon = text.find(":", key.end_mark.index, start)
    if colon < 0 or text[key.end_mark.index : colon].strip():
        return None
    first, last = _line_start(text, start), _line_end(text, end)
    return [(colon + 1, colon + 1, " " + written(value)), (first, last, "")]


def _insertion(text: str, mapping: Any, name: str, value: Any) -> Spans | None:
    field = f"{written(name)}: {written(value)}"
    if mapping.flow_style:
        if not mapping.value:
            at = mapping.start_mark.index + 1
            return [(at, at, field)]
        at = _end(text, mapping.value[-1][1])
        return [(at, at, f", {field}")]
    indent = " " * mapping.start_mark.column
    at = _line_end(text, _end(text, mapping.value[-1][1]))
    newline = "\r\n" if "\r\n" in text else "\n"
    if text[:at].endswith("\n"):
        return [(at, at, f"{indent}{field}{newline}")]
    return [(at, at, f"{newline}{indent}{field}")]


def written(value: Any, style: str | None = None) -> str:
    """Return a plain value as YAML on one line; text keeps the quotes of ``style``."""
    quotes = style if isinstance(value, str) else None
    text: str = yaml.safe_dump(
        value,
        default_flow_style=True,
        default_style=quotes,
        allow_unicode=True,
        sort_keys=False,
        width=1_000_000,
    )
    return text.removesuffix("\n").removesuffix("\n...").strip()


# --- removing --------------------------------------------------------------------------------------


def _removal(text: str, mapping: Any, path: Path) -> Spans | None:
    entry = _entry(mapping, path[0])
    if entry is None:
        return None
    key, value = entry
    if len(path) > 1:
        if len(path) == 2 and isinstance(value, yaml.MappingNode) and len(value.value) == 1:
            return _replacement(text, key, value, {})  # a block mapping cannot be empty
        return _removal(text, value, path[1:])
    if mapping.flow_style:
        return _flow_removal(text, mapping, key, value)
    return [(_line_start(text, key.start_mark.index), _line_end(text, _end(text, value)), "")]


def _flow_removal(text: str, mapping: Any, key: Any, value: Any) -> Spans | None:
    start, end = key.start_mark.index, max(_end(text, value), key.end_mark.index)
    position = next(i for i, (k, _) in enumerate(mapping.value) if k is key)
    if len(mapping.value) == 1:
        return [(start, end, "")]
    if position == 0:
        comma = _comma(text, end, mapping.value[1][0].start_mark.index)
        rest = "" if comma is None else text[comma + 1 :].lstrip(" ")
        return None if comma is None else [(start, len(text) - len(rest), "")]
    comma = _comma(text, _end(text, mapping.value[position - 1][1]), start)
    if comma is None:
        return None
    if not text[comma + 1 : start].strip():
        return [(comma, end, "")]
    return [(comma, comma + 1, ""), (start, end, "")]


def _comma(text: str, start: int, end: int) -> int | None:
    """Return the position of the comma between two entries, if only white space precedes it."""
    comma = text.find(",", start, end)
    return comma if comma >= 0 and not text[start:comma].strip() else None


# --- places ----------------------------------------------------------------------------------------


def _entry(mapping: Any, name: str) -> tuple[Any, Any] | None:
    return next(((key, value) for key, value in mapping.value if key.value == name), None)


def _end(text: str, node: Any) -> int:
    """Return the end of a node's own text; PyYAML's mark of a block is after the blank lines that follow."""
    if isinstance(node, yaml.ScalarNode):
        start, end = node.start_mark.index, node.end_mark.index
        return start + len(text[start:end].rstrip()) if node.style in ("|", ">") else int(end)
    if node.flow_style:
        return int(node.end_mark.index)
    last = node.value[-1]
    return _end(text, last[1] if isinstance(last, tuple) else last)


def _line_start(text: str, at: int) -> int:
    return text.rfind("\n", 0, at) + 1


def _line_end(text: str, at: int) -> int:
    """Return the position after the line that contains ``at``."""
    found = text.find("\n", at)
    return len(text) if found < 0 else found + 1
