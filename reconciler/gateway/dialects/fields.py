"""Typed access to JSON from a client. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from typing import Any

import orjson

from reconciler.gateway.errors import invalid

INTEGER_MAX = 2**63 - 1
"""The largest integer that the JSON parser accepts; stands for no upper bound."""
DEPTH_MAX = 64
"""The deepest nesting that is passed on: templates and encoders recurse."""


class Fields:
    """The fields of one JSON object; null counts as absent. Each method raises ``ApiError`` (400) with the field's path."""

    def __init__(self, fields: Mapping[str, Any], prefix: str = "") -> None:
        self._fields = fields
        self._prefix = prefix

    def path(self, name: str) -> str:
        """Return the path of a field in the request, such as ``messages[0].role``."""
        return f"{self._prefix}.{name}" if self._prefix else name

    def names(self) -> Sequence[str]:
        """Return the names of all fields."""
        return tuple(self._fields)

    def lacks(self, names: Set[str]) -> bool:
        """Return whether there is none of these fields. It is one question instead of many, because most requests
        name few parameters."""
        return self._fields.keys().isdisjoint(names)

    def value(self, name: str) -> Any:
        """Return a field as it was parsed, unchecked."""
        return self._fields.get(name)

    def flag(self, name: str, default: bool = False) -> bool:
        """Return a boolean."""
        value = self._fields.get(name)
        if value is None:
            return default
        if not isinstance(value, bool):
            raise invalid(f"{name} must be true or false", self.path(name))
        return value

    def number(self, name: str, default: float, low: float, high: float) -> float:
        """Return a number from ``low`` to ``high``."""
        value = self._fields.get(name)
        if value is None:
            return default
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not low <= value <= high:
            raise invalid(f"{name} must be a number from {low:g} to {high:g}", self.path(name))
        return float(value)

    def integer(self, name: str, default: int, low: int, high: int = INTEGER_MAX) -> int:
        """Return an integer from ``low`` to ``high``."""
        value = self.optional_integer(name, low, high)
        return default if value is None else value

    def optional_integer(self, name: str, low: int, high: int = INTEGER_MAX) -> int | None:
        """Return an integer from ``low`` to ``high``, or None."""
        value = self._fields.get(name)
        if value is None:
            return None
        if isinstance(value, float) and value.is_integer():  # JSON has one type of number: 16.0 is whole
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            large = isinstance(value, (int, float)) and value > high
            bounds = f"of at least {low}" if high == INTEGER_MAX and not large else f"from {low} to {high}"
            raise invalid(f"{name} must be a whole number {bounds}", self.path(name))
        return value

    def text(self, name: str) -> str:
        """Return a string that must be there and not be empty."""
        value = self.optional_text(name)
        if not value:
            raise invalid(f"{name} must be a non-empty string", self.path(name))
        return value

    def optional_text(self, name: str) -> str | None:
        """Return a string, or None."""
        value = self._fields.get(name)
        if value is not None and not isinstance(value, str):
            raise invalid(f"{name} must be a string", self.path(name))
        return value

    def id(self, name: str) -> str:
        """Return the id of a call, as the server that answered then gave it to the client: some servers count, some
        give none."""
        value = self._fields.get(name)
        if isinstance(value, (dict, list)):
            raise invalid(f"{name} must be a string", self.path(name))
        return "" if value is None else str(value)

    def choice(self, name: str, choices: Sequence[str]) -> str:
        """Return a string that must be one of ``choices``."""
        value = self._fields.get(name)
        if not isinstance(value, str) or value not in choices:
            raise invalid(f"{name} must be one of: {', '.join(choices)}", self.path(name))
        return value

    def optional_choice(self, name: str, choices: Sequence[str]) -> str | None:
        """Return one of ``choices``, or None."""
        return None if self._fields.get(name) is None else self.choice(name, choices)

    def object(self, name: str) -> Fields | None:
        """Return an object, or None."""
        value = self._fields.get(name)
        if value is None:
            return None
        if not isinstance(value, dict):
            raise invalid(f"{name} must be an object", self.path(name))
        return Fields(value, self.path(name))

    def objects(self, name: str) -> Iterator[Fields]:
        """Yield the objects of a list; nothing if it is absent."""
        value = self._fields.get(name)
        if value is None:
            return
        if not isinstance(value, list):
            raise invalid(f"{name} must be a list", self.path(name))
        for index, entry in enumerate(value):
            if not isinstance(entry, dict):
                raise invalid(f"{name}[{index}] must be an object", f"{self.path(name)}[{index}]")
            yield Fields(entry, f"{self.path(name)}[{index}]")

    def entries(self, name: str) -> Iterator[str | Fields]:
        """Yield the entries of a list: strings and objects as they are, others as JSON, null not at all."""
        for index, entry in enumerate(self._fields[name]):
            path = f"{self.path(name)}[{index}]"
            if isinstance(entry, dict):
                yield Fields(entry, path)
            elif entry is not None:
                yield self.written(entry, path)

    def written(self, value: Any, path: str) -> str:
        """Return a value of these fields as text: a string, or anything else as JSON."""
        if too_deep(value):
            raise invalid(f"nested more than {DEPTH_MAX} levels deep", path)
        return value if isinstance(value, str) else orjson.dumps(value).decode()

    def plain(self) -> Mapping[str, Any]:
        """Return the object as it was parsed. Raises ``ApiError`` if it is nested too deeply."""
        if too_deep(self._fields):
            raise invalid(f"nested more than {DEPTH_MAX} levels deep", self._prefix)
        return self._fields


def too_deep(value: Any) -> bool:
    """Return whether lists and objects are nested more than ``DEPTH_MAX`` levels deep."""
    level = [value]
    for _ in range(DEPTH_MAX):
        inner = [child for entry in level for child in _children(entry)]
        if not inner:
            return False
        level = inner
    return True


def _children(value: Any) -> Sequence[Any]:
    if isinstance(value, dict):
        return tuple(value.values())
    return value if isinstance(value, list) else ()
