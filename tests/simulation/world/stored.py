"""What the store has, as anybody could read it, whether there is a controller or not."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Collection, Mapping
from functools import cache
from pathlib import Path

from reconciler.state import Attempt, DeploymentName, NodeName, ObjectKey, RunId, WorkloadId
from reconciler.state.identity import workload_named
from reconciler.state.jobs import Run
from reconciler.state.rollback import Rollback
from reconciler.store.schema import migrate
from reconciler.store.tables.attempts import Attempts
from reconciler.store.tables.rollbacks import Rollbacks
from reconciler.store.tables.runs import Runs

_NAMES = "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%' ORDER BY name"


@cache
def empty() -> sqlite3.Connection:
    """A store of this version without rows, made once: to make one takes as long as several passes."""
    made = sqlite3.connect(":memory:")
    migrate(made, Path("store.db"))
    return made


def tables() -> tuple[str, ...]:
    """The names of all tables of a store."""
    return tuple(name for (name,) in empty().execute(_NAMES))


class Stored:
    """The tables that are judged by."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def lose(self, names: Collection[str]) -> None:
        """Nothing is left in some of the tables. A store that nobody has opened since it was lost has none."""
        for (name,) in self._connection.execute(_NAMES).fetchall():
            if name in names:
                self._connection.execute(f"DELETE FROM {name}")
        self._connection.commit()

    def copy(self) -> sqlite3.Connection:
        """Everything as it is now, elsewhere."""
        kept = sqlite3.connect(":memory:")
        self._connection.backup(kept)
        return kept

    def restore(self, kept: sqlite3.Connection) -> None:
        """Everything as it was when a copy was made."""
        kept.backup(self._connection)

    def attempts(self) -> Mapping[WorkloadId, tuple[Attempt, ...]]:
        """The formings that the store knows of."""
        return Attempts(self._connection).all()

    def epochs(self) -> dict[WorkloadId, int]:
        """The latest epoch of each replica."""
        rows = self._connection.execute("SELECT deployment, replica, last FROM epochs")
        return {workload_named(row[0], row[1]): row[2] for row in rows}

    def groups(self) -> dict[WorkloadId, tuple[NodeName, ...]]:
        """The nodes of each group."""
        rows = self._connection.execute("SELECT deployment, replica, members FROM groups")
        return {workload_named(row[0], row[1]): tuple(json.loads(row[2])) for row in rows}

    def runs(self) -> Mapping[RunId, Run]:
        """The runs of jobs; nothing while nobody has opened the store since it was lost."""
        try:
            return Runs(self._connection).all()
        except sqlite3.OperationalError:
            return {}

    def rollbacks(self) -> Mapping[DeploymentName, Rollback]:
        """What was taken back, of each deployment; nothing while nobody has opened the store since it was lost."""
        try:
            return Rollbacks(self._connection).all()
        except sqlite3.OperationalError:
            return {}

    def inventory(self) -> dict[ObjectKey, bool]:
        """The objects, and whether they are leaving."""
        rows = self._connection.execute("SELECT kind, name, deleted_at IS NOT NULL FROM objects")
        return {ObjectKey(row[0], row[1]): bool(row[2]) for row in rows}
