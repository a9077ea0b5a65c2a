"""Calls of MiniMax M3: each argument is an element named after it, with elements in it, behind a marker of their own.

Facts from its chat template: lists are elements named ``item``, a null is left out. Only the tool's schema
gives the type of an element's text.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from typing import Any

from .calls import Calls
from .json_text import DEPTH_MAX
from .reading import SPACE, Malformed, Reading, Text
from .values import is_plain_text, typed


@dataclasses.dataclass(frozen=True)
class NestedCalls:
    """Elements, each of whose tags is behind ``mark``."""

    mark: str
    bare: bool = False

    @property
    def starts(self) -> Sequence[str]:
        return (self.mark + "<tool_call>",)

    @property
    def markers(self) -> Sequence[str]:
        return (*self.starts, self.mark + "</tool_call>", self.mark + "<invoke name=")

    def read(self, text: Text, calls: Calls) -> Reading[None]:
        before = calls.count
        yield from text.expect(*self.starts)
        yield from text.skip_space()
        while (yield from text.take(self.mark + '<invoke name="')):
            name, _ = yield from text.until('">')
            yield from text.expect('">')
            yield from self._read_call(text, calls, name)
            yield from text.skip_space()
        if calls.count == before:
            raise Malformed("no call")
        yield from text.take(self.mark + "</tool_call>")

    def _read_call(self, text: Text, calls: Calls, name: str) -> Reading[None]:
        calls.begin(name)
        calls.fragment("{")
        first, given = True, set[str]()
        yield from text.skip_space()
        while not (yield from text.take(self.mark + "</invoke>")):
            key = yield from self._open(text)
            if key in given:
                raise Malformed(f"{key} is written twice")
            given.add(key)
            value = yield from self._value(text, key, calls.schema_of(name, key), DEPTH_MAX)
            calls.fragment(("" if first else ", ") + json.dumps(key, ensure_ascii=False) + ": " + value)
            first = False
            yield from text.skip_space()
        calls.end()

    def _open(self, text: Text) -> Reading[str]:
        yield from text.expect(self.mark + "<")
        key, _ = yield from text.until(">", self.mark)
        yield from text.expect(">")
        if not key or key.startswith("/"):
            raise Malformed("expected an element")
        return key

    def _value(self, text: Text, key: str, schema: Any, depth: int) -> Reading[str]:
        """Read the inside of an element and the tag that closes it. Return its JSON."""
        if not depth:
            raise Malformed("nested too deeply")
        close = f"{self.mark}</{key}>"
        if is_plain_text(schema):
            written, _ = yield from text.until(close)
            yield from text.expect(close)
            return typed(written, schema)
        inside, _ = yield from text.until(self.mark)
        children: list[tuple[str, str]] = []
        while not (yield from text.take(close)):
            if inside.strip(SPACE):
                raise Malformed("text and elements together")
            child = yield from self._open(text)
            value = yield from self._value(text, child, _within(schema, child), depth - 1)
            children.append((child, value))
            inside, _ = yield from text.until(self.mark)
        if not children:
            return _leaf(inside, schema)
        if all(child == "item" for child, _ in children) and not _declares(schema, "item"):
            return "[" + ", ".join(value for _, value in children) + "]"
        return _object(children)


def _object(children: Sequence[tuple[str, str]]) -> str:
    """Return an object of elements; those of one name are a list."""
    named: dict[str, list[str]] = {}
    for child, value in children:
        named.setdefault(child, []).append(value)
    members = (
        json.dumps(child, ensure_ascii=False)
        + ": "
        + (values[0] if len(values) == 1 else "[" + ", ".join(values) + "]")
        for child, values in named.items()
    )
    return "{" + ", ".join(members) + "}"


def _leaf(inside: str, schema: Any) -> str:
    kind = schema.get("type") if isinstance(schema, Mapping) else None
    if not inside.strip(SPACE) and kind in ("object", "array"):
        return "{}" if kind == "object" else "[]"
    return typed(inside, schema)


def _declares(schema: Any, key: str) -> bool:
    properties = schema.get("properties") if isinstance(schema, Mapping) else None
    return isinstance(properties, Mapping) and key in properties


def _within(schema: Any, key: str) -> Any:
    if not isinstance(schema, Mapping):
        return None
    for way in ("anyOf", "oneOf"):
        if isinstance(schema.get(way), list):
            return next((found for each in schema[way] if (found := _within(each, key)) is not None), None)
    return schema["properties"][key] if _declares(schema, key) else schema.get("items")
