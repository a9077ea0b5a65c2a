"""Tables of nodes: those that may have an agent, and the last restart of each machine."""

from __future__ import annotations

from collections.abc import Mapping

from reconciler.resources import LOCAL, Access
from reconciler.state import NodeName, Reboot
from reconciler.store.connection import Connection, put


class Agents:
    """The table ``agents``: the nodes that may have one, with the access to each. A controller has to end the agent later,
    even without a manifest."""

    def __init__(self, db: Connection) -> None:
        self._db = db

    def keep_agent(self, node: NodeName, access: Access = LOCAL) -> None:
        """Note, before the agent is started, that a node may have one, and the access to the node."""
        with self._db.writing():
            written = access.model_dump_json(by_alias=True, exclude_defaults=True)
            put(self._db, "agents", node=node, access=written)

    def drop_agent(self, node: NodeName) -> None:
        """Note that a node no longer has an agent."""
        with self._db.writing():
            self._db.execute("DELETE FROM agents WHERE node = ?", (node,))

    def all(self) -> Mapping[NodeName, Access]:
        """Return the access to each node. Raises ``ValueError`` for invalid data."""
        rows = self._db.execute("SELECT node, access FROM agents ORDER BY node")
        return {NodeName(row[0]): Access.model_validate_json(row[1]) for row in rows}


class Reboots:
    """The table ``reboots``: a restart is stored before the machine is asked, because afterwards it may be impossible."""

    def __init__(self, db: Connection) -> None:
        self._db = db

    def note_reboot(self, node: NodeName, reboot: Reboot) -> None:
        """Note that a machine is about to be restarted, in place of its previous restart."""
        with self._db.writing():
            put(
                self._db,
                "reboots",
                node=node,
                at=reboot.at,
                boot_id=reboot.boot_id,
                reason=reboot.reason,
                told=reboot.requested,
            )

    def drop_reboot(self, node: NodeName) -> None:
        """Note that the machine was not restarted."""
        with self._db.writing():
            self._db.execute("DELETE FROM reboots WHERE node = ?", (node,))

    def set_back(self, seconds: float) -> None:
        """Have all restarts begin so much earlier."""
        with self._db.writing():
            self._db.execute("UPDATE reboots SET at = at - ?", (seconds,))

    def all(self) -> dict[NodeName, Reboot]:
        """Return the last restart of each machine."""
        rows = self._db.execute("SELECT node, at, boot_id, reason, told FROM reboots ORDER BY node")
        return {NodeName(row[0]): Reboot(row[1], row[2], row[3], bool(row[4])) for row in rows}
