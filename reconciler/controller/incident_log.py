"""The incident log as it is kept: after every pass, whether anything else may be published or not."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from reconciler import incidents
from reconciler.errors import Unwritable
from reconciler.state import Outcome
from reconciler.state.reports.incident import Incident
from reconciler.status import Snapshots
from reconciler.store import Store

OUTCOMES_MAX = 1000
"""That wait for the next pass, or for the disk; then the oldest are lost."""


class IncidentLog:
    """Writes what has changed. What the store does not take follows from the next pass again."""

    def __init__(self, store: Store, wake: Callable[[], None]) -> None:
        self._store = store
        self._wake = wake
        self._known: dict[int, Incident] = store.incidents.unsettled()
        self._outcomes: deque[incidents.Done] = deque(maxlen=OUTCOMES_MAX)
        self.changes = 0
        """How often one of them was written since the start."""

    def outcome(self, outcome: Outcome, now: float) -> None:
        """Note what became of a step, for the next pass."""
        self._outcomes.append((now, outcome))

    def follow(self, snapshots: Snapshots) -> None:
        """Have the incidents go on with a pass."""
        found = incidents.follow(self._known, self._store.incidents.last_id(), snapshots, self._outcomes)
        changed = [incident for number, incident in found.items() if self._known.get(number) != incident]
        news = [
            (incident, occasion)
            for incident in changed
            for occasion in incidents.occasions(self._known.get(incident.id), incident)
        ]
        events = [incidents.event(*each, snapshots.now) for each in news]
        notices = [n for each in news for n in incidents.notices(*each, snapshots.desired, snapshots.now)]
        try:
            if changed:
                self._store.put_incidents(changed, events, notices, snapshots.now)
        except Unwritable:
            return  # the store keeps what it was, and so does this: the next pass finds the same changes
        self._known = {number: incident for number, incident in found.items() if not incident.settled}
        self._outcomes.clear()
        if changed:
            self.changes += 1
            self._wake()
