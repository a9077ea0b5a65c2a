"""Transports that failed a replica, and the number of failed RDMA set-ups of each machine since it booted."""

from __future__ import annotations

from collections.abc import Iterable

from reconciler.state import (
    DeploymentName,
    FaultClass,
    NodeName,
    ReplicaId,
    TransportFailure,
    VerbsAttempts,
)
from reconciler.state.formed_under import Facts
from reconciler.store.connection import Connection


class Transports:
    """The tables ``rungs`` and ``verbs_attempts``. Call ``note`` and ``forget`` in a transaction."""

    def __init__(self, db: Connection) -> None:
        self._db = db

    def note(
        self,
        replica: ReplicaId,
        failed: TransportFailure | None,
        wasted_verbs: Iterable[tuple[NodeName, str]],
    ) -> None:
        """Note the transport that is given up with a new group, and the machines, in their boots, on which the group
        before it failed to set up RDMA."""
        if failed is not None:
            self._fail(replica, failed)
        self._db.executemany(
            "INSERT INTO verbs_attempts (node, boot_id, count) VALUES (?, ?, 1) ON CONFLICT (node) DO UPDATE"
            " SET count = iif(boot_id = excluded.boot_id, count + 1, 1), boot_id = excluded.boot_id",
            list(wasted_verbs),
        )

    def _fail(self, replica: ReplicaId, failure: TransportFailure) -> None:
        self._db.execute(
            "INSERT OR REPLACE INTO rungs (deployment, replica, transport, facts, at, text, fault, person, trials)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                replica.deployment, replica.index, failure.transport, str(failure.facts), failure.at, failure.text,
                failure.fault.value, failure.person, failure.trials,
            ),
        )  # fmt: skip

    def free_transport(self, replica: ReplicaId, transport: str) -> None:
        """Allow a transport that failed a replica to be tried again."""
        with self._db.writing():
            self._db.execute(
                "DELETE FROM rungs WHERE deployment = ? AND replica = ? AND transport = ?",
                (replica.deployment, replica.index, transport),
            )

    def forget(self, replica: ReplicaId) -> None:
        """Forget the failed transports of a replica that is no longer wanted."""
        self._db.execute(
            "DELETE FROM rungs WHERE deployment = ? AND replica = ?", (replica.deployment, replica.index)
        )

    def failures(self) -> dict[ReplicaId, tuple[TransportFailure, ...]]:
        """Return the failed transports of each replica, sorted by name."""
        rows = self._db.execute(
            "SELECT deployment, replica, transport, facts, at, text, fault, person, trials FROM rungs"
            " ORDER BY deployment, replica, transport"
        )
        found: dict[ReplicaId, tuple[TransportFailure, ...]] = {}
        for row in rows:
            replica = ReplicaId(DeploymentName(row[0]), row[1])
            failure = TransportFailure(
                row[2], Facts.parse(row[3]), row[4], row[5], FaultClass(row[6]), row[7], row[8]
            )
            found[replica] = (*found.get(replica, ()), failure)
        return found

    def verbs(self) -> dict[NodeName, VerbsAttempts]:
        """Return the failed set-ups of RDMA on each machine in its boot."""
        rows = self._db.execute("SELECT node, boot_id, count FROM verbs_attempts ORDER BY node")
        return {NodeName(row[0]): VerbsAttempts(row[1], row[2]) for row in rows}
