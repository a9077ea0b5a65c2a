"""The nodes that may have an agent, with the access to each: a controller has to end the agent later, even without a
manifest."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping

from reconciler.resources import LOCAL, Access
from reconciler.state import NodeName


class Agents:
    """The table ``agents``. Call ``keep`` and ``drop`` in a transaction."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db

    def keep(self, node: NodeName, access: Access = LOCAL) -> None:
        """Note that a node may have an agent, and how to connect to it."""
        written = access.model_dump_json(by_alias=True, exclude_defaults=True)
        self._db.execute("INSERT OR REPLACE INTO agents (node, access) VALUES (?, ?)", (node, written))

    def drop(self, node: NodeName) -> None:
        """Note that a node no longer has an agent."""
        self._db.execute("DELETE FROM agents WHERE node = ?", (node,))

    def all(self) -> Mapping[NodeName, Access]:
        """Return the access to each node. Raises ``ValueError`` for invalid data."""
        rows = self._db.execute("SELECT node, access FROM agents ORDER BY node")
        return {NodeName(row[0]): Access.model_validate_json(row[1]) for row in rows}
