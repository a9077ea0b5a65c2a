"""A connection to SQLite that distinguishes failures: a disk that takes nothing now, or a file that is damaged.

It writes in ``writing`` alone, and only for the controller that holds the newest token.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Literal

from reconciler.errors import Deposed, Invalid, ReconcilerError, Unwritable
from reconciler.wire.file_identity import FileIdentity

_DISK = (
    sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PERM, sqlite3.SQLITE_NOMEM,
)  # fmt: skip
_PRIMARY = 0xFF
"""The rest of a result code are details (sqlite.org/rescode.html)."""


def meaning(error: sqlite3.DatabaseError, path: Path) -> ReconcilerError:
    """Return the error to raise for an error of SQLite, with what to do."""
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT)
    if code & _PRIMARY in _DISK:
        return Unwritable(f"{path} cannot be written now: {error}")
    return Invalid(
        f"{path} cannot be used as the store: {error}; restore a backup with: reconciler restore FILE,"
        f" or delete {path.name}*, which is safe: running groups are adopted, epochs continue to grow, and only events, incidents,"
        " approvals and generations are lost"
    )


class Connection(sqlite3.Connection):
    """A connection that raises ``Unwritable`` and ``Invalid`` instead of SQLite's own errors."""

    path = Path()
    problem = ""
    """Why a write failed, until ``Store.recover`` succeeds."""
    token = 0
    """Token of the controller that owns this connection."""
    identity: FileIdentity | None = None
    """Identity of the file when it was opened."""

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Open an exclusive write transaction. Raises ``Deposed`` if there is a newer token."""
        with self:
            self.execute("BEGIN IMMEDIATE")
            self.verify()
            yield

    def verify(self) -> None:
        """Raise ``Deposed`` if another controller has taken over, or the file was removed."""
        if self.identity is not None and self.identity.replaced:
            raise Deposed(f"{self.path} was removed: this controller ends, and another may start")
        newest = self.counter("token")
        if newest != self.token:
            raise Deposed(
                f"another controller has taken over (its token is {newest}, this one's is {self.token}):"
                " this one ends"
            )

    def counter(self, name: str) -> int:
        """Return a counter, which only grows; 0 if it was never set."""
        row = self.execute("SELECT value FROM counters WHERE name = ?", (name,)).fetchone()
        return int(row[0]) if row else 0

    def execute(self, sql: str, parameters: Any = ()) -> sqlite3.Cursor:
        try:
            return super().execute(sql, parameters)
        except sqlite3.DatabaseError as error:
            raise self._noted(error) from error

    def executemany(self, sql: str, parameters: Iterable[Any]) -> sqlite3.Cursor:
        try:
            return super().executemany(sql, parameters)
        except sqlite3.DatabaseError as error:
            raise self._noted(error) from error

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> Literal[False]:
        try:
            return super().__exit__(kind, error, trace)
        except sqlite3.DatabaseError as failure:
            raise self._noted(failure) from failure

    def _noted(self, error: sqlite3.DatabaseError) -> ReconcilerError:
        found = meaning(error, self.path)
        self.problem = str(found)
        return found
