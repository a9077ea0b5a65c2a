"""The store in SQLite: WAL, synchronous=FULL, one writer.

An epoch must be on disk before its first rank starts: every method is one transaction, and returns
only when it is durable. Calls take well under 10 ms and are made from the controller's loop.

A controller that opens a store takes it over: from then on every transaction of the previous owner is
refused (``Deposed``), because each transaction that writes checks the token.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import ClassVar

from reconciler.errors import Conflict, Invalid, ReconcilerError, Unwritable
from reconciler.state import (
    Attempt,
    DeploymentName,
    GroupRecord,
    NodeName,
    ReplicaId,
    RunId,
    Stored,
    TransportFailure,
)
from reconciler.state.identity import ObjectKey, WorkloadId, workload_name, workload_named
from reconciler.state.jobs import Run
from reconciler.state.reports.incident import Incident
from reconciler.state.reports.notification import Notification
from reconciler.state.reports.status import Event, ObjectStatus
from reconciler.state.rollback import Rollback
from reconciler.wire.file_identity import FileIdentity
from reconciler.wire.launch import TransportProof

from . import aside
from .bodies import status, written
from .connection import Connection, meaning, put
from .schema import check, migrate, version_of
from .tables.attempts import Attempts
from .tables.events import Events
from .tables.groups import Groups
from .tables.incidents import Incidents
from .tables.nodes import Agents, Reboots
from .tables.notifications import NotificationTable
from .tables.objects import Objects
from .tables.rollbacks import Rollbacks
from .tables.runs import Runs
from .tables.transports import Transports

PATIENCE_SECONDS = 5.0
"""Longest wait for other writers, which take milliseconds, while a store is opened."""
WRITING_SECONDS = 0.01
"""Longest wait of a write for them: the loop stands still meanwhile, and the next pass tries again."""


class Store:
    """The open store. One per controller, which holds the home's lock."""

    connection: ClassVar[type[Connection]] = Connection

    def __init__(self, path: Path, patience_seconds: float = PATIENCE_SECONDS) -> None:
        """Open, create or migrate, and take over.

        Raises ``Invalid`` for a store of a newer version, ``Damaged`` for a damaged store, ``Unwritable`` if the disk
        is full.
        """
        self._db = self.connection(path, isolation_level=None, timeout=patience_seconds)
        self._db.path = path
        try:
            path.chmod(0o600)
            version_of(self._db, path)  # first: a store of a newer version may look like damage to this one
            self._db.execute("PRAGMA journal_mode = WAL")
            self._db.execute("PRAGMA synchronous = FULL")
            self.is_new = migrate(self._db, path) == 0
            """True if it was just made: of an earlier store, only the nodes' knowledge is left."""
            check(self._db)
            self._take_over()
            self._db.hold(WRITING_SECONDS)
            self.objects = Objects(self._db)
            self.agents = Agents(self._db)
            self.attempts = Attempts(self._db)
            self.reboots = Reboots(self._db)
            self.incidents = Incidents(self._db)
            self.notifications = NotificationTable(self._db)
            self.transports = Transports(self._db)
            self._groups = Groups(self._db)
            self._events = Events(self._db)
            self.rollbacks = Rollbacks(self._db)
            self._runs = Runs(self._db)
            self.contents = Contents(self._stored, self._db)
            self._expose()
        except sqlite3.DatabaseError as error:
            self._db.close()
            raise meaning(error, path) from error
        except ReconcilerError:
            self._db.close()
            raise

    def _expose(self) -> None:
        """Offer what the connection and the tables do as methods of the store too."""
        self.verify, self.fenced, self.doubt = self._db.verify, self._db.fenced, self._db.doubt
        self.groups, self.keep_spec = self._groups.all, self._groups.keep_spec
        self.free_transport = self.transports.free_transport
        self.keep_agent, self.drop_agent = self.agents.keep_agent, self.agents.drop_agent
        self.note_reboot, self.drop_reboot = self.reboots.note_reboot, self.reboots.drop_reboot
        self.remove_object = self.objects.remove
        self.events, self.event_keys, self.last_event = (
            self._events.find,
            self._events.keys,
            self._events.last,
        )

    def _stored(self) -> Stored:
        return Stored(
            groups=self.groups(),
            last_epochs=self.last_epochs(),
            agents=self.agents.all(),
            leaving=self.objects.leaving(),
            attempts=self.attempts.all(),
            deliveries=self.notifications.deliveries(),
            reboots=self.reboots.all(),
            transport_failures=self.transports.failures(),
            verbs=self.transports.verbs(),
            proofs=self.transports.proofs(),
            rollbacks=self.rollbacks.all(),
            runs=self._runs.all(),
        )

    @property
    def problem(self) -> str:
        """Return why a write failed and has to be repeated; empty if no write failed."""
        return self._db.problem

    @property
    def locked(self) -> bool:
        """Return whether it failed only because another process holds the store's lock."""
        return bool(self._db.problem) and self._db.locked

    @property
    def altered(self) -> bool:
        """Return whether another process has written to the files, so that they should be verified soon."""
        return self._db.altered

    @property
    def identities(self) -> tuple[FileIdentity, ...]:
        return self._db.identities

    def damaged(self) -> list[str]:
        """Return the names of the damaged stores that were set aside and are still there, oldest first."""
        return [path.name for path in aside.damaged_stores(self._db.path)]

    def recover(self) -> None:
        """After a failed write, check whether writes work again. Raises ``Deposed``."""
        if not self._db.problem:
            return
        try:
            with self._db.writing():
                put(self._db, "counters", name="token", value=self.token)
        except (Unwritable, Invalid):
            return
        self._db.problem = ""

    def close(self) -> None:
        self._db.close()

    # --- who writes ----------------------------------------------------------------------------

    @property
    def token(self) -> int:
        """Return the fencing token of this controller: higher than those of all earlier controllers."""
        return self._db.token

    def _take_over(self) -> None:
        with self._db:
            self._db.execute("BEGIN IMMEDIATE")
            token = self._db.counter("token") + 1
            put(self._db, "counters", name="token", value=token)
        self._db.token = token

    def renew(self, above: int = 0) -> None:
        """Take a token higher than this controller's own and than ``above``. Raises ``Deposed``."""
        with self._db.writing():
            token = max(self._db.counter("token"), above) + 1
            put(self._db, "counters", name="token", value=token)
        self._db.token = token

    def outgrow(self, other: Path) -> None:
        """Raise tokens and epochs above those of another store, as far as it can be read."""
        counters, epochs = aside.counters(other), aside.last_epochs(other)
        with self._db.writing():
            self._db.executemany(
                "INSERT INTO counters (name, value) VALUES (?, ?)"
                " ON CONFLICT (name) DO UPDATE SET value = max(value, excluded.value)",
                counters,
            )
            self._db.executemany(
                "INSERT INTO epochs (deployment, replica, last) VALUES (?, ?, ?)"
                " ON CONFLICT (deployment, replica) DO UPDATE SET last = max(last, excluded.last)",
                epochs,
            )
            token = self._db.counter("token")
        self._db.token = token

    # --- epochs and groups ---------------------------------------------------------------------

    def allocate(
        self,
        group: GroupRecord,
        attempt: Attempt,
        failed: TransportFailure | None = None,
        wasted_verbs: Sequence[tuple[NodeName, str]] = (),
    ) -> None:
        """Write a group with its attempt, the transport that it leaves, and the machines, in their boots, on which the
        group before it failed to set up RDMA. Raises ``Conflict`` unless its epoch is the highest."""
        with self._db.writing():
            self._record(group, group.epoch - 1)
            self.attempts.note(group.workload, attempt)
            self.transports.note(group.workload, failed, wasted_verbs)
            if isinstance(group.workload, RunId):
                self._runs.begin(group.workload, group.created_at)

    def adopt(self, group: GroupRecord) -> None:
        """Store a group that already runs. Raises ``Conflict`` if there was a later epoch."""
        with self._db.writing():
            self._record(group, group.epoch)

    def _record(self, group: GroupRecord, last_max: int) -> None:
        name, index = workload_name(group.workload)
        row = self._db.execute(
            "SELECT last FROM epochs WHERE deployment = ? AND replica = ?", (name, index)
        ).fetchone()
        if row and row[0] > last_max:
            raise Conflict(f"{group.workload}: epoch {group.epoch} is not above {row[0]}")
        put(self._db, "epochs", deployment=name, replica=index, last=group.epoch)
        self._groups.put(group)

    def prove(
        self,
        replica: ReplicaId,
        epoch: int,
        at: float,
        combination: str = "",
        proof: TransportProof | None = None,
    ) -> None:
        """Note that a group has answered, and the ``combination`` that it has proven, if any. Raises ``Conflict`` if it is
        no longer the current one."""
        with self._db.writing():
            found = self._db.execute(
                "UPDATE groups SET proven_at = ? WHERE deployment = ? AND replica = ? AND epoch = ?",
                (at, replica.deployment, replica.index, epoch),
            )
            if not found.rowcount:
                raise Conflict(f"{replica}: epoch {epoch} is no longer the current one")
            if combination and proof is not None:
                self.transports.note_proof(combination, at, proof)

    def release(self, replica: ReplicaId) -> None:
        """Remove a replica's group. Its last epoch stays, because epochs only grow."""
        with self._db.writing():
            self._db.execute(
                "DELETE FROM groups WHERE deployment = ? AND replica = ?", (replica.deployment, replica.index)
            )
            self.transports.forget(replica)

    # --- runs of jobs --------------------------------------------------------------------------

    def create_run(self, run: Run, group: GroupRecord | None = None) -> None:
        """Write a new run; ``group``: its attempt, if it runs already. Raises ``Conflict`` if the run is known."""
        with self._db.writing():
            if run.id in self._runs.all():
                raise Conflict(f"{run.id} is known already")
            self._runs.put(run)
            if group is not None:
                self._record(group, group.epoch)

    def put_run(self, run: Run) -> None:
        """Write a run in place of its earlier state."""
        with self._db.writing():
            self._runs.put(run)

    def end_attempt(self, run: Run) -> None:
        """Write a run whose attempt has ended, and remove its group."""
        with self._db.writing():
            self._runs.put(run)
            name, index = workload_name(run.id)
            self._db.execute("DELETE FROM groups WHERE deployment = ? AND replica = ?", (name, index))

    def remove_runs(self, ids: Sequence[RunId]) -> None:
        """Remove runs and all that is known of their attempts."""
        with self._db.writing():
            self._runs.remove(ids)
            names = [workload_name(id) for id in ids]
            for table in ("epochs", "attempts"):
                self._db.executemany(f"DELETE FROM {table} WHERE deployment = ? AND replica = ?", names)

    def set_back(self, deployment: DeploymentName, rollback: Rollback) -> None:
        """Note a spec that did not come up, and the one that is served instead. This replaces the previous note."""
        with self._db.writing():
            self.rollbacks.note(deployment, rollback)

    def forget_rollback(self, deployment: DeploymentName) -> None:
        """Note that a deployment no longer has the spec that did not come up."""
        with self._db.writing():
            self.rollbacks.forget(deployment)

    def last_epochs(self) -> dict[WorkloadId, int]:
        """Return the highest epoch of each replica."""
        rows = self._db.execute("SELECT deployment, replica, last FROM epochs")
        return {workload_named(row[0], row[1]): row[2] for row in rows}

    # --- statuses ------------------------------------------------------------------------------

    def statuses(self) -> dict[ObjectKey, ObjectStatus]:
        """Return the statuses as last written."""
        rows = self._db.execute("SELECT kind, name, body FROM statuses")
        return {ObjectKey(row[0], row[1]): status(row[2]) for row in rows}

    def put_statuses(
        self,
        statuses: Mapping[ObjectKey, ObjectStatus],
        events: Iterable[Event] = (),
        gone: Iterable[ObjectKey] = (),
    ) -> int:
        """Write changed statuses and their events in one transaction, so that each event is added exactly once, and
        delete the statuses of objects that are gone.

        Returns the number of new events.
        """
        with self._db.writing(telling=True):
            self._db.executemany(
                "DELETE FROM statuses WHERE kind = ? AND name = ?", [tuple(key) for key in gone]
            )
            self._db.executemany(
                "INSERT OR REPLACE INTO statuses (kind, name, body) VALUES (?, ?, ?)",
                [(*key, written(body)) for key, body in statuses.items()],
            )
            return self._events.append(events)

    # --- events --------------------------------------------------------------------------------

    def add_events(self, events: Iterable[Event]) -> int:
        """Append events, except duplicates by key. Return the number of new ones."""
        events = tuple(events)
        if not events:
            return 0
        with self._db.writing(telling=True):
            return self._events.append(events)

    def put_incidents(
        self, incidents: Iterable[Incident], events: Iterable[Event], sent: Iterable[Notification], now: float
    ) -> None:
        """Write incidents and their messages in one transaction, so that each message is added exactly once."""
        sent = tuple(sent)
        with self._db.writing(telling=not sent):
            self.incidents.put(incidents, now)
            self.notifications.put(sent)
            self._events.append(events)


class Contents:
    """The newest content of a store, read again only after a write. Writes by other controllers are ignored, because a deposed
    controller does not plan."""

    def __init__(self, ask: Callable[[], Stored], db: Connection) -> None:
        self._ask = ask
        self._db = db
        self._changes = -1
        self._content: Stored | None = None

    def read(self) -> Stored:
        """Return the current content of the store. Call it only between transactions, because one may be rolled
        back."""
        assert not self._db.in_transaction
        changes = self._db.total_changes - self._db.told
        if self._content is None or changes != self._changes:
            self._content = self._ask()
            self._changes = changes
        return self._content
