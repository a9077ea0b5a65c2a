"""What a pass remembers of the store, asked for again only when something was written since."""

from __future__ import annotations

from collections.abc import Callable

from reconciler.state import Stored

from .connection import Connection


class Contents:
    """The newest content. What another controller has written is none of it: who is deposed plans no more."""

    def __init__(self, ask: Callable[[], Stored], db: Connection) -> None:
        self._ask = ask
        self._db = db
        self._changes = -1
        self._content: Stored | None = None

    def read(self) -> Stored:
        """What is in the store now. Only between transactions: one may still be rolled back."""
        assert not self._db.in_transaction
        changes = self._db.total_changes
        if self._content is None or changes != self._changes:
            self._content = self._ask()
            self._changes = changes
        return self._content
