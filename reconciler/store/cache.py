"""Caches the store's content for passes, and reads again only after a write."""

from __future__ import annotations

from collections.abc import Callable

from reconciler.state import Stored

from .connection import Connection


class Contents:
    """The newest content. Writes by other controllers are ignored, because a deposed controller does not plan."""

    def __init__(self, ask: Callable[[], Stored], db: Connection) -> None:
        self._ask = ask
        self._db = db
        self._changes = -1
        self._content: Stored | None = None

    def read(self) -> Stored:
        """Return the current content of the store. Call it only between transactions, because one may be rolled
        back."""
        assert not self._db.in_transaction
        changes = self._db.total_changes - self._db.told
        if self._content is None or changes != self._changes:
            self._content = self._ask()
            self._changes = changes
        return self._content
