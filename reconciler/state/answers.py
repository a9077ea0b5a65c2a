"""Answers that are kept with the object that they follow from."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any, TypeVar, TypeVarTuple

S = TypeVar("S", bound="Asked")
T = TypeVar("T")
About = TypeVarTuple("About")


class Asked:
    """An object that never changes, with the answers to earlier questions about it. A new object has no answers yet."""

    def once(self: S, ask: Callable[[S, *About], T], *about: *About) -> T:
        """Return ``ask(self, *about)``, computed once: it must depend on this object alone. ``about`` is hashable."""
        key = (ask, *about)
        if key not in self._answers:
            self._answers[key] = ask(self, *about)
        found: T = self._answers[key]
        return found

    @cached_property
    def _answers(self) -> dict[tuple[Any, ...], Any]:
        return {}
