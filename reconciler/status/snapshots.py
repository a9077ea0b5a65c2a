"""What a status is derived from, and what is said of one object."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from reconciler.state import Desired, Memory, Observed, Plan
from reconciler.state.identity import ObjectKey
from reconciler.state.reports.status import ObjectStatus

Statuses = Mapping[ObjectKey, ObjectStatus]


@dataclass(frozen=True, slots=True)
class Snapshots:
    """What a status is derived from."""

    desired: Desired
    observed: Observed
    memory: Memory
    plan: Plan
    now: float


class ConditionState(NamedTuple):
    """A condition as it is said now, without its history."""

    type: str
    status: bool
    reason: str
    message: str


class Readiness(NamedTuple):
    """Whether an object of some kind is as its spec says, and what its status shows beside conditions."""

    ready: bool
    reason: str
    message: str
    extra: dict[str, Any]
