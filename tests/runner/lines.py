"""Lines of recorded files: the name of an input, and what the product answers to it."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tests.recorded import digest

RECORDED = Path(__file__).parent / "recorded"
LENGTH = 72
"""Characters of an answer that are shown; of a longer one the digest says the rest."""


class Lines(list[str]):
    """The lines of one file."""

    def add(self, name: str, answer: object, length: int = LENGTH) -> None:
        """Add the name of an input, and its answer."""
        self.append(line(name, answer, length))

    def put(self, text: str) -> None:
        """Add a line as it is."""
        self.append(text)


def line(name: str, answer: object, length: int = LENGTH) -> str:
    """Return a line of printable ASCII."""
    said = answer if isinstance(answer, str) else compact(answer)
    shown = said if said.isascii() and said.isprintable() else "".join(map(_visible, said))
    return f"{name}: {shown if len(shown) <= length else f'{shown[:length]}... {digest(said)}'}"


def compact(answer: object) -> str:
    """Return an answer as short JSON."""
    return json.dumps(_simple(answer), ensure_ascii=False, separators=(",", ":"))


def told(ask: Callable[[], object], *refusals: type[Exception]) -> object:
    """Return an answer, or the text of a refusal."""
    try:
        return ask()
    except refusals as error:
        said = str(error)
        return f"{type(error).__name__}: {said}" if said else type(error).__name__


def _visible(character: str) -> str:
    return character if " " <= character <= "~" else ascii(character)[1:-1]


def _simple(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        given = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
        return {type(value).__name__: _simple(given)}
    if isinstance(value, Mapping):
        return {str(key): _simple(each) for key, each in value.items()}
    if isinstance(value, (set, frozenset)):
        return sorted((_simple(each) for each in value), key=repr)
    if isinstance(value, (tuple, list)):
        return [_simple(each) for each in value]
    if value is None or isinstance(value, (str, int, float)):
        return value
    return type(value).__name__
