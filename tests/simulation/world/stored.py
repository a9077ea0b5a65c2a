"""What the store has, as anybody could read it, whether there is a controller or not."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping

from reconciler.state import Attempt, DeploymentName, NodeName, ObjectKey, ReplicaId
from reconciler.state.rollback import Rollback
from reconciler.store.tables.attempts import Attempts
from reconciler.store.tables.rollbacks import Rollbacks


class Stored:
    """The tables that are judged by."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def attempts(self) -> Mapping[ReplicaId, tuple[Attempt, ...]]:
        """The formings that the store knows of."""
        return Attempts(self._connection).all()

    def epochs(self) -> dict[ReplicaId, int]:
        """The latest epoch of each replica."""
        rows = self._connection.execute("SELECT deployment, replica, last FROM epochs")
        return {ReplicaId(DeploymentName(row[0]), row[1]): row[2] for row in rows}

    def groups(self) -> dict[ReplicaId, tuple[NodeName, ...]]:
        """The nodes of each group."""
        rows = self._connection.execute("SELECT deployment, replica, members FROM groups")
        return {ReplicaId(DeploymentName(row[0]), row[1]): tuple(json.loads(row[2])) for row in rows}

    def rollbacks(self) -> Mapping[DeploymentName, Rollback]:
        """What was taken back, of each deployment."""
        return Rollbacks(self._connection).all()

    def inventory(self) -> dict[ObjectKey, bool]:
        """The objects, and whether they are leaving."""
        rows = self._connection.execute("SELECT kind, name, deleted_at IS NOT NULL FROM objects")
        return {ObjectKey(row[0], row[1]): bool(row[2]) for row in rows}
