"""The newest events, each with a number by which readers follow them."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable
from dataclasses import asdict, dataclass

from reconciler.state.identity import ObjectKey
from reconciler.state.reports.status import Event

EVENTS_KEPT = 10_000
MESSAGE_CHARACTERS_MAX = 4096
"""Longest message of an event: failing programs can print much."""


@dataclass(frozen=True, slots=True)
class EventFilter:
    after: int = 0
    limit: int = 1000
    kind: str | None = None
    name: str | None = None
    warning: bool | None = None
    since: float | None = None
    reasons: tuple[str, ...] = ()
    """Only events with one of these reasons; empty: with any reason."""


class Events:
    """The table ``events``. Call ``append`` in a transaction."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db

    def append(self, events: Iterable[Event]) -> int:
        """Add events, except duplicates by key, and drop the oldest. Return the number of new ones."""
        before = self._db.total_changes
        self._db.executemany(
            "INSERT OR IGNORE INTO events (at, kind, name, warning, reason, message, key, revision, hook_at)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            [
                (
                    e.at, *e.object, e.warning, e.reason, e.message[:MESSAGE_CHARACTERS_MAX], e.key or None,
                    e.revision, e.hook_at,
                )
                for e in events
            ],
        )  # fmt: skip
        added = self._db.total_changes - before
        if added:
            self._db.execute(
                "DELETE FROM events WHERE id <= (SELECT max(id) FROM events) - ?", (EVENTS_KEPT,)
            )
        return added

    def last(self) -> int:
        """Return the id of the newest event; 0 if there is none. Ids start again in a new store."""
        return int(self._db.execute("SELECT coalesce(max(id), 0) FROM events").fetchone()[0])

    def keys(self) -> set[str]:
        return {row[0] for row in self._db.execute("SELECT key FROM events WHERE key IS NOT NULL")}

    def find(self, wanted: EventFilter) -> list[tuple[int, Event]]:
        """Return events by id, oldest first: those above ``after`` up to the limit; without ``after``, the newest."""
        order = "ASC" if wanted.after else "DESC"
        rows = self._db.execute(
            "SELECT * FROM (SELECT id, at, kind, name, warning, reason, message, key, revision, hook_at"
            " FROM events WHERE id > :after AND (:kind IS NULL OR kind = :kind)"
            " AND (:name IS NULL OR name = :name) AND (:warning IS NULL OR warning = :warning)"
            " AND (:since IS NULL OR at >= :since)"
            " AND (:reasons = '[]' OR reason IN (SELECT value FROM json_each(:reasons)))"
            f" ORDER BY id {order} LIMIT :limit) ORDER BY id",
            {**asdict(wanted), "reasons": json.dumps(wanted.reasons)},
        )
        return [
            (
                number,
                Event(at, ObjectKey(kind, name), bool(warning), reason, text, key or "", revision, hook_at),
            )
            for number, at, kind, name, warning, reason, text, key, revision, hook_at in rows
        ]
