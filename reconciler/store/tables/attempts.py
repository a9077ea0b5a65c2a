"""The past attempts to form each replica, from which budgets and back-off follow."""

from __future__ import annotations

import sqlite3
from dataclasses import replace

from reconciler.state import Attempt, FaultClass, Suspicion, WorkloadId
from reconciler.state.identity import workload_name, workload_named

ATTEMPTS_KEPT = 50
"""Attempts to keep for each workload. A back-off is longest after eight of one class, or thirteen early deaths; drains
and flapping cables add some in between."""


class Attempts:
    """The table ``attempts``. Call ``note`` in a transaction."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db

    def note(self, workload: WorkloadId, attempt: Attempt) -> None:
        """Add a forming; of more than ``ATTEMPTS_KEPT``, the oldest are dropped."""
        name = workload_name(workload)
        self._db.execute(
            "INSERT OR REPLACE INTO attempts (deployment, replica, epoch, at, cause, fault, text, wish, served,"
            " suspicion, port_taken, never_ran) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                *name, attempt.epoch, attempt.at, attempt.cause, attempt.fault.value if attempt.fault else None,
                attempt.text, attempt.spec_generations, attempt.served, attempt.suspicion.value,
                attempt.port_taken, attempt.never_ran,
            ),
        )  # fmt: skip
        self._db.execute(
            "DELETE FROM attempts WHERE deployment = ? AND replica = ? AND epoch <= ("
            "SELECT epoch FROM attempts WHERE deployment = ? AND replica = ?"
            " ORDER BY epoch DESC LIMIT 1 OFFSET ?)",
            (*name, *name, ATTEMPTS_KEPT),
        )

    def all(self) -> dict[WorkloadId, tuple[Attempt, ...]]:
        """Return the attempts of each workload, oldest first."""
        rows = self._db.execute(
            "SELECT deployment, replica, epoch, at, cause, fault, text, wish, served, suspicion, port_taken, never_ran"
            " FROM attempts ORDER BY deployment, replica, epoch"
        )
        found: dict[WorkloadId, list[Attempt]] = {}
        for row in rows:
            attempt = replace(
                Attempt(*row[2:]),
                fault=FaultClass(row[5]) if row[5] else None,
                suspicion=Suspicion(row[9]),
                port_taken=bool(row[10]),
                never_ran=bool(row[11]),
            )
            found.setdefault(workload_named(row[0], row[1]), []).append(attempt)
        return {workload: tuple(attempts) for workload, attempts in found.items()}
