"""Transports that failed a workload or were proven, and the number of failed RDMA set-ups of each machine since it booted."""

from __future__ import annotations

import json
from collections.abc import Iterable

from reconciler.state import (
    FaultClass,
    NodeName,
    ProvenTransport,
    TransportFailure,
    VerbsAttempts,
    WorkloadId,
)
from reconciler.state.formed_under import Facts
from reconciler.state.identity import workload_name, workload_named
from reconciler.store.connection import Connection, put
from reconciler.wire.codec import from_wire, to_wire
from reconciler.wire.launch import TransportProof


class Transports:
    """The tables ``rungs``, ``proofs`` and ``verbs_attempts``. Call ``note``, ``note_proof`` and ``forget`` in a transaction."""

    def __init__(self, db: Connection) -> None:
        self._db = db

    def note(
        self,
        workload: WorkloadId,
        failed: TransportFailure | None,
        wasted_verbs: Iterable[tuple[NodeName, str]],
    ) -> None:
        """Note the transport that is given up with a new group, and the machines, in their boots, on which the group
        before it failed to set up RDMA."""
        if failed is not None:
            self._fail(workload, failed)
        self._db.executemany(
            "INSERT INTO verbs_attempts (node, boot_id, count) VALUES (?, ?, 1) ON CONFLICT (node) DO UPDATE"
            " SET count = iif(boot_id = excluded.boot_id, count + 1, 1), boot_id = excluded.boot_id",
            list(wasted_verbs),
        )

    def _fail(self, workload: WorkloadId, failure: TransportFailure) -> None:
        self._db.execute(
            "INSERT OR REPLACE INTO rungs (deployment, replica, transport, facts, at, text, fault, person, trials)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                *workload_name(workload), failure.transport, str(failure.facts), failure.at, failure.text,
                failure.fault.value, failure.person, failure.trials,
            ),
        )  # fmt: skip

    def free_transport(self, workload: WorkloadId, transport: str) -> None:
        """Allow a transport that failed a workload to be tried again."""
        with self._db.writing():
            self._db.execute(
                "DELETE FROM rungs WHERE deployment = ? AND replica = ? AND transport = ?",
                (*workload_name(workload), transport),
            )

    def forget(self, workload: WorkloadId) -> None:
        """Forget the failed transports of a workload that is no longer wanted."""
        self._db.execute("DELETE FROM rungs WHERE deployment = ? AND replica = ?", workload_name(workload))

    def failures(self) -> dict[WorkloadId, tuple[TransportFailure, ...]]:
        """Return the failed transports of each workload, sorted by name."""
        rows = self._db.execute(
            "SELECT deployment, replica, transport, facts, at, text, fault, person, trials FROM rungs"
            " ORDER BY deployment, replica, transport"
        )
        found: dict[WorkloadId, tuple[TransportFailure, ...]] = {}
        for row in rows:
            workload = workload_named(row[0], row[1])
            failure = TransportFailure(
                row[2], Facts.parse(row[3]), row[4], row[5], FaultClass(row[6]), row[7], row[8]
            )
            found[workload] = (*found.get(workload, ()), failure)
        return found

    def note_proof(self, combination: str, at: float, proof: TransportProof) -> None:
        """Note the proof of a combination in place of an earlier one."""
        put(self._db, "proofs", combination=combination, at=at, body=json.dumps(to_wire(proof)))

    def proofs(self) -> dict[str, ProvenTransport]:
        """Return the last proof of each combination."""
        rows = self._db.execute("SELECT combination, at, body FROM proofs ORDER BY combination")
        return {
            name: ProvenTransport(at, from_wire(TransportProof, json.loads(body))) for name, at, body in rows
        }

    def verbs(self) -> dict[NodeName, VerbsAttempts]:
        """Return the failed set-ups of RDMA on each machine in its boot."""
        rows = self._db.execute("SELECT node, boot_id, count FROM verbs_attempts ORDER BY node")
        return {NodeName(row[0]): VerbsAttempts(row[1], row[2]) for row in rows}
