"""Numbers the states that readers get, so that they can wait for the next state."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from reconciler.state import Desired
from reconciler.status import Snapshots, Statuses
from reconciler.wire import objects

_VOLATILE = ("steps",)
"""Fields that change many times a second while a rank works, and do not wake readers."""


class Versions:
    """Versions of the objects, the ranks and the incidents. ``origin`` differs between controllers."""

    def __init__(self, origin: str) -> None:
        self._origin = origin
        self._last: dict[str, tuple[int, Any]] = {}

    def of_objects(self, snapshots: Snapshots, statuses: Statuses) -> str:
        """Return a version that changes with every manifest and status."""
        desired, leaving = snapshots.desired, snapshots.memory.leaving
        kept_out = desired.rejection, desired.hold, desired.suspended, desired.held_changes
        state = (desired.revision, desired.generations, kept_out, desired.effects, leaving, statuses)
        return self._version("objects", state)

    def of_operations(self, items: Sequence[objects.Operation]) -> str:
        """Return a version that changes with every operation, and with its progress."""
        return self._version("operations", items)

    def of_ranks(self, items: Sequence[objects.Rank]) -> str:
        """Return a version that changes with everything except counters."""
        plain = [{key: value for key, value in item.items() if key not in _VOLATILE} for item in items]
        return self._version("ranks", plain)

    def of_commits(self, desired: Desired) -> str:
        """Return a version that changes with every commit that was read, and with its state."""
        kept_out = desired.rejection, desired.hold, desired.suspended, desired.held_changes
        operations = desired.operations, desired.operations_rejection
        return self._version("commits", (desired.revision, operations, kept_out))

    def of_incidents(self, changes: int) -> str:
        """Return a version that changes whenever an incident is written."""
        return self._version("incidents", changes)

    def _version(self, what: str, state: Any) -> str:
        number, before = self._last.get(what, (0, None))
        if state != before:
            number += 1
            self._last[what] = (number, state)
        return f"{self._origin}.{number}"
