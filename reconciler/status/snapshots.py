"""The input of a status, and its parts for one object."""

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
    """The input of a status."""

    desired: Desired
    observed: Observed
    memory: Memory
    plan: Plan
    now: float


class ConditionState(NamedTuple):
    """A condition as it is now, without its history."""

    type: str
    status: bool
    reason: str
    message: str


class Readiness(NamedTuple):
    """Whether an object matches its spec, and the status fields beside conditions."""

    ready: bool
    reason: str
    message: str
    extra: dict[str, Any]
