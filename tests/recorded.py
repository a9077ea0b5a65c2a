"""Files of what the product has decided or answered before: a test compares with them line by line.

``UPDATE_GOLDEN=1`` writes a file again. What has changed in it belongs into the commit that changes the product, and is read
there: a line that nobody meant to change is a fault.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from enum import Enum
from pathlib import Path
from typing import Any

UPDATE = bool(os.environ.get("UPDATE_GOLDEN"))
DIGITS = 4
"""Of a number with a point, after the point."""


def compare(path: Path, lines: Sequence[str]) -> None:
    """Fail at the first line that differs from the file's, with what was around it."""
    if UPDATE:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    recorded = path.read_text(encoding="utf-8").split("\n")[:-1]
    for at, (was, now) in enumerate(zip([*recorded, None], [*lines, None], strict=False)):
        assert now == was, (
            f"line {at + 1} of {path.name}: {now!r} instead of {was!r}, after {lines[max(0, at - 3) : at]}"
        )


def digest(value: object, length: int = 8) -> str:
    """Return a short name of a value: the same in each process, and with each version of Python."""
    return hashlib.blake2b(
        repr(plain(value)).encode("utf-8", "surrogatepass"), digest_size=length // 2
    ).hexdigest()


def plain(value: Any, hidden: Mapping[type, tuple[str, ...]] | None = None) -> Any:
    """Return a value as tuples, numbers and text, with what has no order sorted.

    ``hidden`` has the fields of each type that are only told to be there, or not.
    """
    hidden = hidden or {}
    if isinstance(value, Enum):
        return value.name
    if isinstance(value, float):
        return round(value, DIGITS)
    if isinstance(value, Mapping):
        return tuple(
            sorted(((plain(key, hidden), plain(each, hidden)) for key, each in value.items()), key=repr)
        )
    if isinstance(value, (set, frozenset)):
        return tuple(sorted((plain(each, hidden) for each in value), key=repr))
    names = _names(value)
    if names is not None:
        untold = hidden.get(type(value), ())
        parts = (getattr(value, name) for name in names)
        return type(value).__name__, *(
            bool(each) if name in untold else plain(each, hidden)
            for name, each in zip(names, parts, strict=True)
        )
    if isinstance(value, (tuple, list)):
        return tuple(plain(each, hidden) for each in value)
    if value is None or isinstance(value, (str, bytes, int)):
        return value
    raise TypeError(f"{type(value).__name__} has no form that is the same in each process")


def _names(value: Any) -> tuple[str, ...] | None:
    """Return the names of a value's parts: of a dataclass, a named tuple or a model of pydantic."""
    if is_dataclass(value) and not isinstance(value, type):
        return tuple(field.name for field in fields(value))
    named = getattr(type(value), "_fields", None) or getattr(type(value), "model_fields", None)
    return None if named is None else tuple(named)
