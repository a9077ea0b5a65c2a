"""Calls as the formats report them, and the arguments that tools declare."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from .parts import Arguments, CallBegun, CallEnded, CallWithdrawn, Part
from .reading import Malformed, Reading, Text

_NAME = re.compile(r"""[^\s<>{}()\[\]"'`,;=]+""")
"""Names that a tool may have although the request does not offer it: the client can tell the model about the
mistake."""
_DEFINED = frozenset({"$defs", "definitions", "enum", "const", "default", "examples"})
INLINED_MAX = 20_000
"""Values of a schema that are searched for references."""
INLINED_DEPTH = 16
"""References that lead to one another."""
REFERENCE_MAX = 1024
"""Characters of a reference, which may be followed thousands of times."""


class Calls:
    """Takes calls as they are read, and makes parts of them."""

    def __init__(self, text: Text, tools: Sequence[Mapping[str, Any]], out: list[Part]) -> None:
        self._text = text
        self._out = out
        self._parts = out
        self._open = False
        self._schemas = {name: schema for name, schema in map(_named, tools) if name}
        self.count = 0
        """Calls that are complete."""

    def aside(self) -> list[Part]:
        """Put the parts of calls into a separate list from here on, and return it."""
        self._parts = []
        return self._parts

    def onward(self) -> None:
        """Put them into the answer again."""
        self._parts = self._out

    def add(self, parts: Sequence[Part]) -> None:
        """Add the calls of a list, as far as they are complete."""
        last = max(place for place, part in enumerate(parts) if isinstance(part, CallEnded))
        self._out += parts[: last + 1]

    def knows(self, name: str) -> bool:
        """Return whether the request offers a tool of this name."""
        return name in self._schemas

    def begin(self, name: str, id: str = "") -> None:
        """Begin a call. Raises ``Malformed`` unless it has the name of a tool, or one that could be."""
        if not (self.knows(name.strip()) or _NAME.fullmatch(name.strip())):
            raise Malformed(f"no tool is called {name}")
        self._parts.append(CallBegun(name.strip(), id.strip()))
        self._open = True

    def fragment(self, text: str) -> None:
        """Add to the arguments; the last brace is added by ``end``."""
        if text:
            self._parts.append(Arguments(text))

    def end(self) -> None:
        """Complete the call. Its text can no longer be put back."""
        self._parts += (Arguments("}"), CallEnded())
        self._open = False
        self.count += 1
        self._text.keep()

    def withdraw(self) -> None:
        """Take back the call that was begun and is not complete, if there is one."""
        if self._open:
            self._parts.append(CallWithdrawn())
        self._open = False

    def schema_of(self, name: str, key: str) -> Any:
        """Return the schema of a tool's argument; None where it is not declared."""
        return self._schemas.get(name, {}).get(key)

    def declared(self, name: str) -> Sequence[str]:
        """Return the names of the declared arguments of a tool."""
        return tuple(self._schemas.get(name, ()))

    @property
    def names(self) -> Sequence[str]:
        return tuple(self._schemas)


class Format(Protocol):
    """The way in which a family writes tool calls."""

    @property
    def starts(self) -> Sequence[str]:
        """Return the strings that begin calls."""

    @property
    def bare(self) -> bool:
        """Return whether an answer may also begin with a call that no such string announces."""

    @property
    def markers(self) -> Sequence[str]:
        """Return all strings of the format that may be tokens of their own."""

    def read(self, text: Text, calls: Calls) -> Reading[None]:
        """Read calls from one of ``starts`` on. Raises ``Malformed``."""


def _named(tool: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]]:
    function = tool.get("function")
    if not isinstance(function, Mapping):
        return "", {}
    parameters = function.get("parameters")
    properties = inlined(parameters).get("properties") if isinstance(parameters, Mapping) else None
    return str(function.get("name", "")), properties if isinstance(properties, Mapping) else {}


def inlined(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a schema with its references replaced by their targets, except those within themselves.

    A single ``allOf``, which some libraries write around a reference, is replaced by its content.
    """
    left = [INLINED_MAX]

    def within(value: Any, inside: tuple[str, ...]) -> Any:
        left[0] -= 1
        if left[0] < 0:
            return value
        if isinstance(value, list):
            return [within(each, inside) for each in value]
        if not isinstance(value, Mapping):
            return value
        target = value.get("$ref")
        if isinstance(target, str) and target not in inside and len(inside) < INLINED_DEPTH:
            found = _target(schema, target)
            beside = {key: each for key, each in value.items() if key != "$ref"}
            if isinstance(found, Mapping):
                return {**within(found, (*inside, target)), **within(beside, inside)}
        only = value.get("allOf")
        if isinstance(only, list) and len(only) == 1 and isinstance(only[0], Mapping):
            beside = {key: each for key, each in value.items() if key != "allOf"}
            return {**within(only[0], inside), **within(beside, inside)}
        return {key: each if key in _DEFINED else within(each, inside) for key, each in value.items()}

    found = within(schema, ())
    return found if isinstance(found, Mapping) else schema


def _target(schema: Mapping[str, Any], reference: str) -> Any:
    """Return the target of a reference within a schema; None if there is none."""
    if not reference.startswith("#/") or len(reference) > REFERENCE_MAX:
        return None
    found: Any = schema
    for part in reference[2:].split("/"):
        name = part.replace("~1", "/").replace("~0", "~")
        found = found.get(name) if isinstance(found, Mapping) else None
    return found
