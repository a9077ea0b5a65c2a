"""Copies of a store that outlive it: made while it is in use, and checked thoroughly before they are used."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path

from reconciler.errors import Invalid, Unreachable
from reconciler.state import NodeName

from .schema import check, migrate
from .sqlite import Store

_BUSY_SECONDS = 30.0


def copy(source: Path, target: Path) -> int:
    """Copy a store that may be in use, without the secrets of groups. Return its version.

    A group without its secret can be adopted and proven, but its ranks cannot be started, which should never happen
    from a copy. Raises ``Invalid`` for a file that is not a store, ``Unreachable`` for a store that stays busy.
    """
    try:
        with (
            closing(sqlite3.connect(f"{source.as_uri()}?mode=rw", uri=True, timeout=_BUSY_SECONDS)) as db,
            closing(sqlite3.connect(target, isolation_level=None)) as made,
        ):
            db.backup(made)
            made.execute("PRAGMA journal_mode = DELETE")
            made.execute("UPDATE groups SET secret = ''")
            made.execute("VACUUM")  # otherwise overwritten data would stay in free pages
            version: int = made.execute("PRAGMA user_version").fetchone()[0]
            return version
    except sqlite3.OperationalError as error:
        raise Unreachable(f"{source} cannot be copied now: {error}") from error
    except sqlite3.DatabaseError as error:
        raise Invalid(f"{source} cannot be copied: {error}") from error


def upgrade_copy(path: Path) -> None:
    """Upgrade a copy to the newest version, and check every part of it. Raises ``Invalid``."""
    try:
        with closing(sqlite3.connect(path, isolation_level=None)) as db:
            db.execute("PRAGMA trusted_schema = OFF")
            foreign = db.execute(
                "SELECT name FROM sqlite_schema WHERE type IN ('trigger', 'view')"
            ).fetchall()
            if foreign or not migrate(db, path):
                raise Invalid(f"its {path.name} is not a store of reconciler")
            check(db)
        store = Store(path)
        try:
            store.groups(), store.last_epochs(), store.agents.all(), store.statuses(), store.event_keys()
            store.objects.in_force(), store.objects.leaving(), store.objects.approved(), store.objects.kept()
            store.incidents.unsettled(), store.notifications.deliveries()
        finally:
            store.close()
    except (sqlite3.DatabaseError, ValueError, KeyError, TypeError) as error:
        raise Invalid(f"its {path.name} is not a store of reconciler: {error}") from error
    for leftover in path.parent.glob(f"{path.stem}.v*.db"):
        leftover.unlink()


def carry_over(path: Path, before: Path, agents: Iterable[NodeName], restart_seconds: float = 0.0) -> None:
    """Raise the counters of the store at ``path`` above those of the store at ``before``, if that can be read.

    Tokens and epochs only grow, and every node with an agent keeps it until the agent is ended. ``restart_seconds``: how long
    a restart of a machine takes at most. None is under way any more, or a machine that is gone for another reason would count
    as expected back.
    """
    store = Store(path)
    try:
        for node in agents:
            store.keep_agent(node)
        store.notifications.give_up("the store was restored")
        store.reboots.set_back(restart_seconds)
        store.outgrow(before)
    finally:
        store.close()
