"""Values and answers as short lines that are the same in every process."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from enum import Enum
from pathlib import Path
from typing import Any

from reconciler.gateway.dialects.dialect import Sources
from reconciler.gateway.errors import ApiError
from reconciler.wire.generation import Route
from tests.recorded import digest

FOLDER = Path(__file__).parent
LENGTH = 110
"""Characters of a long line that are shown, before its digest."""
NOW = 1_700_000_000.5
_OF_LIBRARIES = re.compile(r"((?:is no|is not) JSON: ).*")
"""Texts that differ with the version of a library."""


class Models:
    """A catalog of fixed routes, by their names and aliases."""

    def __init__(self, *routes: Route) -> None:
        self._names = {name: route for route in routes for name in (route.model, *route.aliases)}

    def names(self) -> Mapping[str, Route]:
        return self._names

    def find(self, name: str) -> Route | None:
        return self._names.get(name)


def counted() -> Sources:
    """A clock that stands, ids that count, and one seed."""
    numbers = itertools.count()
    return Sources(lambda: NOW, lambda: f"{next(numbers)}", lambda: 42)


def short(text: str, length: int = LENGTH) -> str:
    """A line, or its beginning and the digest of all."""
    text = (
        text.encode("utf-8", "backslashreplace")
        .decode()
        .replace("\n", "\\n")
        .replace("\u2028", "\\u2028")
        .replace("\r", "\\r")
    )
    return text if len(text) <= length + 12 else f"{text[:length]}… {digest(text)}"


def told(value: Any) -> str:
    """A value as JSON that shows types; of an object of the product its name and what differs from its defaults."""
    if isinstance(value, ApiError):
        return refused(value)
    if is_dataclass(value) and not isinstance(value, type):
        parts = (
            f"{each.name}={told(getattr(value, each.name))}"
            for each in fields(value)
            if getattr(value, each.name) != each.default
        )
        return f"{type(value).__name__}({' '.join(parts)})"
    if isinstance(value, Enum):
        return value.name
    if isinstance(value, float):
        return repr(round(value, 6))
    if isinstance(value, bytes):
        return told(value.decode("utf-8", "backslashreplace"))
    if isinstance(value, Mapping):
        return "{" + ",".join(f"{told(key)}:{told(each)}" for key, each in value.items()) + "}"
    if isinstance(value, (tuple, list)):
        return "[" + ",".join(map(told, value)) + "]"
    if isinstance(value, (set, frozenset)):
        return "{" + ",".join(sorted(map(told, value))) + "}"
    assert value is None or isinstance(value, (str, int)), type(value)
    return json.dumps(value)


def refused(error: ApiError) -> str:
    """An error with all that its client sees."""
    more = [
        f"{name}={told(value)}"
        for name, value in (
            ("retry_after", error.retry_after),
            ("retry", error.retry),
            ("headers", error.headers or None),
            ("figures", error.figures),
        )
        if value is not None
    ]
    text = _OF_LIBRARIES.sub(r"\1…", error.text)
    head = f"{error.status} {error.param}: {text}" if error.param else f"{error.status} {text}"
    return " ".join([head, *([f"[{error.code}]"] if error.code else []), *more])


def outcome(call: Callable[..., Any], *arguments: Any) -> str:
    """The result of a call, or its error."""
    try:
        return told(call(*arguments))
    except ApiError as error:
        return refused(error)


def flat(value: Any, path: str = "") -> dict[str, str]:
    """The parts of a value by their paths, such as ``sampling.temperature``."""
    if is_dataclass(value) and not isinstance(value, type):
        parts = ((f"{path}.{each.name}".lstrip("."), getattr(value, each.name)) for each in fields(value))
    elif isinstance(value, (tuple, list)) and any(map(is_dataclass, value)):
        parts = ((f"{path}[{at}]", each) for at, each in enumerate(value))
    else:
        return {path: told(value)}
    return {name: part for place, each in parts for name, part in flat(each, place).items()}


def differing(parts: Mapping[str, str], usual: Mapping[str, str]) -> str:
    """The parts that are not as usual."""
    new = [f"{path}={part}" for path, part in parts.items() if usual.get(path) != part]
    return " ".join([*new, *(f"{path} gone" for path in usual if path not in parts)]) or "as usual"


def folded(lines: Sequence[str], shown: int, each: int = 25) -> list[str]:
    """The first lines as they are, and one digest for every few of the others."""
    rest = [lines[at : at + each] for at in range(shown, len(lines), each)]
    return [
        *lines[:shown],
        *(f"{len(part)} lines to {part[-1].split(':')[0]}: {digest(part)}" for part in rest),
    ]
