"""Publishes the results of a pass: conditions and events to the store, routes to the gateway's file."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from dataclasses import replace

from reconciler import status
from reconciler.errors import Deposed, Unwritable
from reconciler.state import DeploymentName, Desired, Memory, Outcome
from reconciler.state.identity import CLUSTER, ObjectKey, ReplicaId
from reconciler.state.reports.status import Event, ObjectStatus
from reconciler.state.slices import Slices
from reconciler.status import Snapshots
from reconciler.store import Store
from reconciler.wire.gateway import HookSecret
from reconciler.wire.generation import Route, Routes

from .incident_log import IncidentLog
from .routes_file import RoutesFile

log = logging.getLogger(__name__)

ROUTES_VERSION = 1
WRITTEN_MAX = 200
"""Most objects whose statuses are written in one transaction, which nothing interrupts."""
UNPUBLISHED_MAX = 10_000
"""Most events that wait for the disk; beyond that the oldest are lost."""


class Publisher:
    """Writes statuses, events and routes, but only changed ones."""

    def __init__(self, store: Store, file: RoutesFile) -> None:
        self._store = store
        self._file = file
        self._routes = file.read()
        self.published: frozenset[tuple[ReplicaId, int]] | None = groups_in(self._routes)
        """The groups in the routes that are in force, by replica and epoch; None if there is no Gateway to have them."""
        if self._routes is not None and self._routes.token >= store.token:  # the store was lost
            store.renew(above=self._routes.token)
        self.routed: Callable[[Routes], None] = lambda routes: None
        """Called with the routes that are in force now."""
        self.hook: Callable[[], HookSecret | None] = lambda: None
        """Returns the place of the secret of the gateway's webhook."""
        self._saving: asyncio.Handle | None = None
        """Set while events wait for the end of this turn of the event loop."""
        self._published = store.event_keys()
        self.statuses = store.statuses()
        self._known: status.Known = {}
        self._unsaved: set[ObjectKey] = set()
        self._gone: set[ObjectKey] = set()
        """Objects that are gone, whose statuses the store may still have: after damage it knows of no removal."""
        self._unpublished: deque[Event] = deque(maxlen=UNPUBLISHED_MAX)
        self._disk_problem_published = ""
        self.problem = ""
        """Why the routes could not be written; empty if they were."""
        self.news = asyncio.Event()
        """Set after the next pass, or as soon as there are new events; then another one takes its place."""
        self.incident_log = IncidentLog(store, self.wake)

    def publish(self, snapshots: Snapshots) -> Slices[None]:
        """Derive and write everything that follows from these snapshots; failed writes are repeated later.

        Routes come first, because clients wait for them, and ``Ready`` implies a route. After each status the event
        loop may do something else.
        """
        routes = status.routes(snapshots.desired, snapshots.observed, snapshots.memory, snapshots.plan)
        self._route(snapshots.desired, routes)
        self._publish_disk_problem(snapshots.memory, snapshots.now)
        endings = status.endings(snapshots.observed, snapshots.now)
        self._unpublished.extend(event for event in endings if event.key not in self._published)
        self._published = {event.key for event in endings}
        yield
        after: dict[ObjectKey, ObjectStatus] = {}
        for key, found in status.each_status(snapshots, self.statuses, self._known):
            after[key] = found
            yield
        self._unpublished.extend(status.transitions(self.statuses, after, snapshots))
        self._unsaved |= {key for key, value in after.items() if self.statuses.get(key) != value}
        self._gone = (self._gone | self.statuses.keys()) - after.keys()
        self.statuses = after
        self._forget_removed(snapshots.memory.leaving)
        while len(self._unsaved) > WRITTEN_MAX and self._save_some():
            yield
            self._forget_removed(snapshots.memory.leaving)
        self._save()

    def _forget_removed(self, leaving: Collection[ObjectKey]) -> None:
        """Forget objects that have left since the pass began: a step has removed their statuses."""
        if not leaving:
            return
        there = self._store.contents.read().leaving
        removed = {key for key in leaving if key not in there}
        self.statuses = {key: found for key, found in self.statuses.items() if key not in removed}
        self._unsaved -= removed

    def _save_some(self) -> bool:
        """Write the statuses of some objects with their events. Return whether that worked."""
        some = frozenset(sorted(self._unsaved)[:WRITTEN_MAX])
        changed = {key: self.statuses[key] for key in some & self.statuses.keys()}
        events = [event for event in self._unpublished if event.object in some]
        try:
            self._store.put_statuses(changed, events)
        except Unwritable:
            return False
        self._unsaved -= some
        others = [event for event in self._unpublished if event.object not in some]
        self._unpublished.clear()
        self._unpublished.extend(others)
        self.wake()
        return True

    def _publish_disk_problem(self, memory: Memory, now: float) -> None:
        """Publish once that the disk became unwritable or the store was locked, and once that it is over."""
        before, problem = self._disk_problem_published, memory.unwritable or memory.locked
        self._disk_problem_published = problem
        if problem and not before:
            log.error("%s; serving continues, nothing new is started", problem)
            reason = "StateUnwritable" if memory.unwritable else "StoreLocked"
            self._unpublished.append(Event(now, CLUSTER, True, reason, problem))
        elif before and not problem:
            log.info("the state directory can be written again")
            self._unpublished.append(Event(now, CLUSTER, False, "StateWritable", "delayed writes are done"))

    def _save(self) -> None:
        """Write statuses and events. After a failure, keep them for the next pass."""
        changed = {key: self.statuses[key] for key in self._unsaved & self.statuses.keys()}
        try:
            if changed or self._gone:
                added = self._store.put_statuses(changed, self._unpublished, self._gone)
            else:
                added = self._store.add_events(self._unpublished)
        except Unwritable:
            return  # the store is unchanged, and is asked before the next pass whether this is over
        self._unsaved, self._gone = set(), set()
        self._unpublished.clear()
        if added:
            self.wake()

    def outcome(self, outcome: Outcome, now: float) -> None:
        self.incident_log.outcome(outcome, now)
        event = status.event(outcome, now)
        if event is not None:
            self.publish_events((event,))

    def publish_events(self, events: Iterable[Event]) -> None:
        """Add events and wake waiting readers. Those of one turn of the event loop are written in one transaction: a
        hundred steps may end in it.

        Statuses of a failed write are not written here, and their events wait for them: their objects may have been
        removed since the pass.
        """
        self._unpublished.extend(events)
        if self._saving is None:
            self._saving = asyncio.get_running_loop().call_soon(self._save_added)

    def _save_added(self) -> None:
        self._saving = None
        if not self._unsaved:
            with suppress(Deposed):  # the next pass finds it too
                self._save()

    def wake(self) -> None:
        """Wake all readers that wait for something new."""
        self.news.set()
        self.news = asyncio.Event()

    def _route(self, desired: Desired, found: tuple[Route, ...]) -> None:
        gateway, before = desired.gateway, self._routes
        self.published = None if gateway is None else groups_in(before)
        if gateway is not None:
            door = status.door(gateway, desired.others.values())
        elif before is not None:  # the Gateway was deleted: it keeps listening, without models
            door, found = before, ()
        else:
            return
        sequence = before.sequence if before else 0
        wanted = replace(
            door,
            version=ROUTES_VERSION,
            sequence=sequence,
            routes=found,
            token=self._store.token,
            hook=self.hook(),
        )
        if wanted == before and not self._file.altered:
            self.problem = ""  # others could not be written, and are no longer wanted
            self.routed(before)
            return
        routes = replace(wanted, sequence=sequence + 1)
        try:
            with self._store.fenced():
                self._file.replace(routes)
        except OSError as error:
            self.problem = f"{self._file.path} cannot be written now: {error.strerror}"
            return
        except Unwritable as error:
            self.problem = str(error)
            return
        self._routes, self.problem = routes, ""
        self.published = None if gateway is None else groups_in(routes)
        self.routed(routes)


def groups_in(routes: Routes | None) -> frozenset[tuple[ReplicaId, int]]:
    """Return the groups that routes lead to, by replica and epoch."""
    return frozenset(
        (ReplicaId(DeploymentName(route.model), backend.replica), backend.epoch)
        for route in (routes.routes if routes is not None else ())
        for backend in route.backends
    )
