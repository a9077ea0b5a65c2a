"""Numbers what readers are shown, so that who has seen one state can wait for the next."""

from __future__ import annotations

from typing import Any

from reconciler.status import Snapshots, Statuses

_VOLATILE = ("steps",)
"""What changes many times a second while a rank works, and is nothing to be woken for."""


class Versions:
    """A version for the objects, one for the ranks, one for the incidents. ``origin`` differs from one controller to the next."""

    def __init__(self, origin: str) -> None:
        self._origin = origin
        self._last: dict[str, tuple[int, Any]] = {}

    def of_objects(self, snapshots: Snapshots, statuses: Statuses) -> str:
        """Another one whenever a manifest or a status is not what it was."""
        desired, leaving = snapshots.desired, snapshots.memory.leaving
        state = (desired.revision, desired.generations, desired.rejection, desired.hold, leaving, statuses)
        return self._version("objects", state)

    def of_ranks(self, items: list[dict[str, Any]]) -> str:
        """Another one whenever anything but a counter is not what it was."""
        plain = [{key: value for key, value in item.items() if key not in _VOLATILE} for item in items]
        return self._version("ranks", plain)

    def of_incidents(self, changes: int) -> str:
        """Another one whenever an incident was written."""
        return self._version("incidents", changes)

    def _version(self, what: str, state: Any) -> str:
        number, before = self._last.get(what, (0, None))
        if state != before:
            number += 1
            self._last[what] = (number, state)
        return f"{self._origin}.{number}"
