"""Keeps the incident log, after every pass, even while nothing else may be published."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from reconciler import incidents
from reconciler.errors import Unwritable
from reconciler.state import Outcome
from reconciler.state.reports.incident import Incident
from reconciler.status import Snapshots, Statuses
from reconciler.store import Store

OUTCOMES_MAX = 1000
"""Most outcomes that wait for the next pass or the disk; beyond that the oldest are lost."""


class IncidentLog:
    """Writes changed incidents. After a failed write, the next pass derives the same changes."""

    def __init__(self, store: Store, wake: Callable[[], None]) -> None:
        self._store = store
        self._wake = wake
        self._known: dict[int, Incident] = store.incidents.unsettled()
        self._last_id = store.incidents.last_id()
        self._outcomes: deque[incidents.Done] = deque(maxlen=OUTCOMES_MAX)
        self.changes = 0
        """Number of writes since the start."""

    @property
    def open(self) -> tuple[Incident, ...]:
        return tuple(incident for incident in self._known.values() if incident.open)

    def outcome(self, outcome: Outcome, now: float) -> None:
        """Note the outcome of a step for the next pass."""
        self._outcomes.append((now, outcome))

    def follow(self, snapshots: Snapshots, statuses: Statuses) -> None:
        found = incidents.follow(self._known, self._last_id, snapshots, self._outcomes, statuses)
        changed = [incident for number, incident in found.items() if self._known.get(number) != incident]
        news = [
            (incident, occasion)
            for incident in changed
            for occasion in incidents.occasions(self._known.get(incident.id), incident)
        ]
        events = [incidents.event(*each, snapshots.now) for each in news]
        notifications = [
            n for each in news for n in incidents.notifications(*each, snapshots.desired, snapshots.now)
        ]
        try:
            if changed:
                self._store.put_incidents(changed, events, notifications, snapshots.now)
        except Unwritable:
            return  # neither store nor log has changed, so the next pass finds the same changes
        self._known = {number: incident for number, incident in found.items() if not incident.settled}
        self._last_id = max([self._last_id, *found])
        self._outcomes.clear()
        if changed:
            self.changes += 1
            self._wake()
