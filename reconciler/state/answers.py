"""Answers that are kept with what they follow from."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any, TypeVar, TypeVarTuple

S = TypeVar("S", bound="Asked")
T = TypeVar("T")
About = TypeVarTuple("About")


class Asked:
    """Something that never changes, with the answers to what was asked of it. Another one begins without answers."""

    def once(self: S, ask: Callable[[S, *About], T], *about: *About) -> T:
        """Return ``ask(self, *about)``, asked once: for what follows from this object alone. ``about`` is hashable."""
        key = (ask, *about)
        if key not in self._answers:
            self._answers[key] = ask(self, *about)
        found: T = self._answers[key]
        return found

    @cached_property
    def _answers(self) -> dict[tuple[Any, ...], Any]:
        return {}
