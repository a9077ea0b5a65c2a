"""What a pass lets others see: conditions and events in the store, routes in the gateway's file."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from reconciler import status
from reconciler.state import Desired, Outcome
from reconciler.state.report import Event
from reconciler.status import Snapshots
from reconciler.store import Store
from reconciler.wire.codec import WireError, from_wire, to_wire
from reconciler.wire.generation import Route, Routes

ROUTES_VERSION = 1


class Publisher:
    """Writes only what has changed."""

    def __init__(self, store: Store, routes_path: Path) -> None:
        self._store = store
        self._path = routes_path
        self._routes = _routes_on_disk(routes_path)
        self._waking: asyncio.Task[None] | None = None
        self._told = store.told()
        self.statuses = store.statuses()
        self.news = asyncio.Condition()
        """Notified after every pass, and when there are new events."""

    def publish(self, snapshots: Snapshots) -> None:
        """Derive and write everything that follows from these snapshots."""
        endings = status.endings(snapshots.observed, snapshots.now)
        self.tell(event for event in endings if event.key not in self._told)
        self._told = {event.key for event in endings}
        after = status.statuses(snapshots, self.statuses)
        self.tell(status.transitions(self.statuses, after, snapshots.now))
        changed = {key: value for key, value in after.items() if self.statuses.get(key) != value}
        if changed:
            self._store.put_statuses(changed)
        self.statuses = after
        self._route(snapshots.desired, status.routes(snapshots.desired, snapshots.observed, snapshots.memory))

    def outcome(self, outcome: Outcome, now: float) -> None:
        """Tell what became of a step."""
        event = status.told(outcome, now)
        if event is not None:
            self.tell((event,))

    def tell(self, events: Iterable[Event]) -> None:
        """Add events and wake whoever waits for them."""
        if self._store.add_events(events):
            self.wake()

    def wake(self) -> None:
        """Have everybody look who waits for something new."""
        self._waking = asyncio.get_running_loop().create_task(self._wake(), name="wake readers")

    async def _wake(self) -> None:
        async with self.news:
            self.news.notify_all()

    def _route(self, desired: Desired, found: tuple[Route, ...]) -> None:
        gateway, before = desired.gateway, self._routes
        if gateway is not None:
            listen, hold = gateway.spec.listen, gateway.spec.hold
        elif before is not None:  # the Gateway was deleted: it goes on listening, and offers nothing
            listen, hold, found = before.listen, before.hold_seconds, ()
        else:
            return
        sequence = before.sequence if before else 0
        wanted = Routes(ROUTES_VERSION, sequence, listen, hold, found)
        if wanted == before:
            return
        self._routes = replace(wanted, sequence=sequence + 1)
        replace_file(self._path, json.dumps(to_wire(self._routes), indent=1))


def _routes_on_disk(path: Path) -> Routes | None:
    """What the last controller wrote: the gateway must see ours as newer, and only if it differs."""
    try:
        return from_wire(Routes, json.loads(path.read_text()))
    except (OSError, ValueError, WireError):
        return None


def replace_file(path: Path, text: str) -> None:
    """Write a file so that readers see either the old or the new content."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    temporary.write_text(text)
    temporary.chmod(0o600)
    temporary.replace(path)
