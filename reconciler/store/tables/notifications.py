"""Messages to Notifiers: written together with their incidents, and again before and after each attempt."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import astuple

from reconciler.state.reports.notification import Delivery, Notification
from reconciler.store.connection import Connection

WAITING_MAX = 50
"""Most waiting messages for each Notifier; of more, the oldest are given up."""
ENDED_KEPT = 20
"""Ended messages to keep for each Notifier."""
_COLUMNS = "notifier, incident, occasion, at, text, attempts, retry_at, ended_at, problem"


class NotificationTable:
    """The table ``notices``. Call ``put`` in a transaction; the other methods have their own."""

    def __init__(self, db: Connection) -> None:
        self._db = db

    def put(self, notifications: Iterable[Notification]) -> None:
        """Add messages. A known message stays as it is."""
        notifications = tuple(notifications)
        self._db.executemany(
            f"INSERT OR IGNORE INTO notices ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            map(astuple, notifications),
        )
        for notifier in sorted({notification.notifier for notification in notifications}):
            self._bound(notifier)

    def _bound(self, notifier: str) -> None:
        self._db.execute(
            "UPDATE notices SET ended_at = at, problem = ? WHERE rowid IN (SELECT rowid FROM notices"
            " WHERE notifier = ? AND ended_at IS NULL ORDER BY at DESC, incident DESC LIMIT -1 OFFSET ?)",
            (f"more than {WAITING_MAX} messages waited", notifier, WAITING_MAX),
        )
        self._db.execute(
            "DELETE FROM notices WHERE notifier = ? AND ended_at IS NOT NULL AND rowid NOT IN"
            " (SELECT rowid FROM notices WHERE notifier = ? AND ended_at IS NOT NULL"
            " ORDER BY ended_at DESC, rowid DESC LIMIT ?)",
            (notifier, notifier, ENDED_KEPT),
        )

    def mark(self, notification: Notification) -> None:
        """Write that a message is about to be sent, or the result; does nothing if the message is no longer known."""
        with self._db.writing():
            self._db.execute(
                "UPDATE notices SET attempts = ?, retry_at = ?, ended_at = ?, problem = ?"
                " WHERE notifier = ? AND incident = ? AND occasion = ?",
                (
                    notification.attempts, notification.retry_at, notification.ended_at, notification.problem,
                    notification.notifier, notification.incident, notification.occasion,
                ),
            )  # fmt: skip

    def next(self, notifier: str) -> Notification | None:
        """Return the message that has waited longest: messages are sent in order."""
        row = self._db.execute(
            f"SELECT {_COLUMNS} FROM notices WHERE notifier = ? AND ended_at IS NULL ORDER BY at, rowid LIMIT 1",
            (notifier,),
        ).fetchone()
        return Notification(*row) if row else None

    def forget(self, notifiers: Iterable[str]) -> None:
        """Drop the messages to removed Notifiers; ``notifiers`` are the existing ones."""
        known = tuple(sorted(notifiers))
        marks = ", ".join("?" for _ in known)
        with self._db.writing():
            self._db.execute(f"DELETE FROM notices WHERE notifier NOT IN ({marks})", known)

    def give_up(self, problem: str) -> None:
        """Give up all waiting messages of a restored store, because they are outdated."""
        with self._db.writing():
            self._db.execute(
                "UPDATE notices SET ended_at = at, problem = ? WHERE ended_at IS NULL", (problem,)
            )

    def deliveries(self) -> dict[str, Delivery]:
        """Return the state of the messages to every Notifier that had any."""
        found: dict[str, Delivery] = {}
        rows = self._db.execute(
            "SELECT notifier, sum(ended_at IS NULL), sum(ended_at IS NOT NULL AND problem <> ''),"
            " max(CASE WHEN problem = '' THEN ended_at END) FROM notices GROUP BY notifier ORDER BY notifier"
        ).fetchall()
        for notifier, waiting, given_up, sent_at in rows:
            tried = self._db.execute(
                "SELECT problem FROM notices WHERE notifier = ? AND (ended_at IS NOT NULL OR problem <> '')"
                " ORDER BY ended_at IS NOT NULL, ended_at DESC, rowid DESC LIMIT 1",
                (notifier,),
            ).fetchone()
            found[notifier] = Delivery(waiting, given_up, sent_at, tried[0] if tried else "")
        return found
