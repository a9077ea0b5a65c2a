"""What was tried about each replica: the past formings, from which budgets and back-off follow."""

from __future__ import annotations

import sqlite3

from reconciler.state import Attempt, DeploymentName, FaultClass, ReplicaId

ATTEMPTS_KEPT = 50
"""For each replica: several times what any budget counts."""


class Attempts:
    """The table ``attempts``. ``note`` belongs into a transaction of its caller's."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db

    def note(self, replica: ReplicaId, attempt: Attempt) -> None:
        """Add a forming; the oldest of many are dropped."""
        name = (replica.deployment, replica.index)
        self._db.execute(
            "INSERT OR REPLACE INTO attempts (deployment, replica, epoch, at, cause, fault, counted, text, wish)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                *name, attempt.epoch, attempt.at, attempt.cause, attempt.fault.value if attempt.fault else None,
                attempt.counted, attempt.text, attempt.wish,
            ),
        )  # fmt: skip
        self._db.execute(
            "DELETE FROM attempts WHERE deployment = ? AND replica = ? AND epoch <= ("
            "SELECT epoch FROM attempts WHERE deployment = ? AND replica = ?"
            " ORDER BY epoch DESC LIMIT 1 OFFSET ?)",
            (*name, *name, ATTEMPTS_KEPT),
        )

    def all(self) -> dict[ReplicaId, tuple[Attempt, ...]]:
        """The formings of each replica, oldest first."""
        rows = self._db.execute(
            "SELECT deployment, replica, epoch, at, cause, fault, counted, text, wish FROM attempts"
            " ORDER BY deployment, replica, epoch"
        )
        found: dict[ReplicaId, list[Attempt]] = {}
        for row in rows:
            attempt = Attempt(
                row[2], row[3], row[4], FaultClass(row[5]) if row[5] else None, bool(row[6]), row[7], row[8]
            )
            found.setdefault(ReplicaId(DeploymentName(row[0]), row[1]), []).append(attempt)
        return {replica: tuple(attempts) for replica, attempts in found.items()}
