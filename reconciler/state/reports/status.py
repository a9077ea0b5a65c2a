"""The types of conditions and events."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from reconciler.state.faults import told
from reconciler.state.identity import ObjectKey


@dataclass(frozen=True, slots=True)
class Condition:
    """One kstatus-style condition: ``Ready``, ``Reconciling`` or ``Stalled``."""

    type: str
    status: bool
    reason: str
    """CamelCase, for programs."""
    message: str
    """A sentence, for people."""
    since: float
    """Time of the last change of ``status``, in seconds since the Unix epoch."""
    generation: int
    person: str = ""
    """The exact steps that only a person can take; empty if there are none, or ``message`` has them."""

    @property
    def told(self) -> str:
        return told(self.message, self.person)


@dataclass(frozen=True, slots=True)
class ObjectStatus:
    """The status of one object. ``extra`` has the fields of its kind, as plain JSON."""

    conditions: tuple[Condition, ...]
    generation: int
    extra: Mapping[str, Any] = field(default_factory=dict)

    def condition(self, type_: str) -> Condition | None:
        return next((c for c in self.conditions if c.type == type_), None)


@dataclass(frozen=True, slots=True)
class Event:
    """A dated fact about an object. Two events of one ``key`` are the same fact."""

    at: float
    object: ObjectKey
    warning: bool
    reason: str
    message: str
    key: str = ""
    """Key that prevents duplicates; empty if the event may repeat."""
    revision: str = ""
    hook_at: float | None = None
    """Time at which the repository's hook received this revision, by its own clock."""
