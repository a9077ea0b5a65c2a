"""The fields of the product's types that hold sentences for people, and the rooms whose decisions read none of them."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator
from dataclasses import is_dataclass
from functools import cache
from typing import ForwardRef

ROOMS = ("state", "planning", "admission", "status", "doctor", "incidents")
"""The pure rooms that make sentences and decide."""
PUBLISHED = "reconciler.state.reports"
"""Its types hold sentences that others have made."""
NAMES = frozenset(
    {
        "changed", "changes", "detail", "doing", "lasting", "locked", "message", "moved", "person", "problem", "remedy",
        "seen", "strategy_why", "text", "transport_why", "unwritable", "why",
    }
)  # fmt: skip
"""Names of fields that hold a sentence in every type that has them as text."""
REASONS = frozenset({"StopRank", "Reboot"})
"""Types whose ``reason`` is a sentence; elsewhere it is a word for programs."""
WORDS = frozenset({"OtherSubject"})
"""Types whose ``text`` is a key."""


def _modules() -> Iterator[str]:
    for room in ROOMS:
        module = importlib.import_module(f"reconciler.{room}")
        yield module.__name__
        for found in pkgutil.walk_packages(getattr(module, "__path__", ()), f"{module.__name__}."):
            yield found.name


@cache
def all_sentences() -> dict[type, tuple[str, ...]]:
    """Return the fields with sentences of each type of the rooms that has any."""
    found = {}
    for name in _modules():
        for each in vars(importlib.import_module(name)).values():
            if isinstance(each, type) and each.__module__ == name:
                found[each] = _fields(each)
    return {each: names for each, names in found.items() if names and each.__name__ not in WORDS}


@cache
def sentences() -> dict[type, tuple[str, ...]]:
    """Return the same without the types whose sentences others have made."""
    return {
        kind: names for kind, names in all_sentences().items() if not kind.__module__.startswith(PUBLISHED)
    }


def _fields(kind: type) -> tuple[str, ...]:
    if not is_dataclass(kind) and not hasattr(kind, "_fields"):
        return ()
    own = NAMES | ({"reason"} if kind.__name__ in REASONS else set())
    typed = {
        name: each
        for base in reversed(kind.__mro__)
        for name, each in vars(base).get("__annotations__", {}).items()
    }
    return tuple(name for name, each in typed.items() if name in own and each in ("str", ForwardRef("str")))
