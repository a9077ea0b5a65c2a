"""A connection to SQLite that says what a failure means: a disk that takes nothing now, or a file that is damaged."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import Any, Literal

from reconciler.errors import Invalid, ReconcilerError, Unwritable

_DISK = (
    sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PERM, sqlite3.SQLITE_NOMEM,
)  # fmt: skip
_PRIMARY = 0xFF
"""The rest of a result code are details (sqlite.org/rescode.html)."""


def meaning(error: sqlite3.DatabaseError, path: Path) -> ReconcilerError:
    """What to tell instead, with what to do."""
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT)
    if code & _PRIMARY in _DISK:
        return Unwritable(f"{path}: cannot be written now: {error}")
    return Invalid(
        f"{path}: cannot be used as the store: {error}; put a backup in its place with: reconciler restore FILE,"
        f" or delete {path.name}*, which is safe: groups that run are adopted, epochs go on growing, only events, incidents,"
        " approvals and generations are lost"
    )


class Connection(sqlite3.Connection):
    """Raises ``Unwritable`` and ``Invalid`` instead of SQLite's own errors."""

    path = Path()
    problem = ""
    """Why something could not be written, until ``Store.recover`` finds that it can."""

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
