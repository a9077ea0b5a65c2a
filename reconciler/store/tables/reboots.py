"""The last restart of each machine, stored before the machine is asked, because afterwards it may be impossible."""

from __future__ import annotations

import sqlite3

from reconciler.state import NodeName, Reboot


class Reboots:
    """The table ``reboots``. Call ``note`` and ``drop`` in a transaction."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db

    def note(self, node: NodeName, reboot: Reboot) -> None:
        """Store a restart in place of the previous one."""
        self._db.execute(
            "INSERT OR REPLACE INTO reboots (node, at, boot_id, reason, told) VALUES (?, ?, ?, ?, ?)",
            (node, reboot.at, reboot.boot_id, reboot.reason, reboot.requested),
        )

    def drop(self, node: NodeName) -> None:
        """Remove a restart that was not carried out."""
        self._db.execute("DELETE FROM reboots WHERE node = ?", (node,))

    def set_back(self, seconds: float) -> None:
        """Have all restarts begin so much earlier."""
        self._db.execute("UPDATE reboots SET at = at - ?", (seconds,))

    def all(self) -> dict[NodeName, Reboot]:
        """Return the last restart of each machine."""
        rows = self._db.execute("SELECT node, at, boot_id, reason, told FROM reboots ORDER BY node")
        return {NodeName(row[0]): Reboot(row[1], row[2], row[3], bool(row[4])) for row in rows}
