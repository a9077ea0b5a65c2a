"""A connection to SQLite that distinguishes failures: a disk that takes no writes now, a lock of another process, or a
damaged file.

It writes only in ``writing``, and only for the controller that holds the newest token.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, closing, contextmanager
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, TypeVar, cast

from reconciler.errors import Damaged, Deposed, Invalid, Locked, ReconcilerError, Unwritable
from reconciler.wire.file_identity import FileIdentity

from .schema import check

_LOCKS = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
_DISK = (
    sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_PERM, sqlite3.SQLITE_NOMEM,
)  # fmt: skip
_DAMAGE = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
_PRIMARY = 0xFF
"""The other bits of a result code are details (sqlite.org/rescode.html)."""
_LOG, _INDEX = "-wal", "-shm"
"""Endings of the write-ahead log and of its index (sqlite.org/tempfiles.html)."""

T = TypeVar("T")
Signature = tuple[tuple[int, int] | None, ...]
"""Size and time of the last change of each file; None for a file that is not there."""


def meaning(error: sqlite3.DatabaseError, path: Path) -> ReconcilerError:
    """Return the error to raise for an error of SQLite, with the remedy."""
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR)
    # A file that is shorter than its own pages say was truncated.
    if code & _PRIMARY in _DAMAGE or code == sqlite3.SQLITE_IOERR_SHORT_READ:
        return Damaged(f"{path} is damaged: {error}")
    if code & _PRIMARY in _LOCKS:
        return Locked(f"{path} cannot be written now: another process has locked it")
    if code & _PRIMARY in _DISK:
        return Unwritable(f"{path} cannot be written now: {error}")
    return Invalid(
        f"{path} cannot be used as the store: {error}; restore a backup with: reconciler restore --force FILE,"
        f" or delete {path.name}*, which is safe: running groups are adopted, epochs continue to grow, and only events, incidents,"
        " approvals and generations are lost"
    )


def _telling(method: Callable[..., T]) -> Callable[..., T]:
    """Have a method of a cursor raise the connection's errors."""

    def told(cursor: sqlite3.Cursor, *arguments: Any) -> T:
        try:
            return method(cursor, *arguments)
        except sqlite3.DatabaseError as error:
            raise cast(Connection, cursor.connection)._noted(error) from error

    return told


class _Cursor(sqlite3.Cursor):
    """Distinguishes failures of rows, too, which are read after their statement has begun."""

    execute = _telling(sqlite3.Cursor.execute)
    executemany = _telling(sqlite3.Cursor.executemany)
    __next__ = _telling(sqlite3.Cursor.__next__)
    fetchone = _telling(sqlite3.Cursor.fetchone)
    fetchall = _telling(sqlite3.Cursor.fetchall)


class Connection(sqlite3.Connection):
    """A connection that raises ``Unwritable``, ``Locked``, ``Damaged`` and ``Invalid`` instead of SQLite's own errors."""

    path = Path()
    problem = ""
    """Why a write failed, until ``Store.recover`` succeeds."""
    locked = False
    """True if it failed only because another process holds the store's lock."""
    damage = ""
    """The damage that was found in the files; empty if there is none."""
    token = 0
    """Token of the controller that owns this connection."""
    identities: tuple[FileIdentity, ...] = ()
    """Identities of the files when they were opened."""
    told = 0
    """Number of this connection's changes that are only for people: no pass uses them."""
    _seen: Signature | None = None
    """The files as this connection left them; None while they are being opened."""

    def hold(self, patience_seconds: float) -> None:
        """Watch the files from now on. A write may wait ``patience_seconds`` for other writers."""
        self.execute(f"PRAGMA busy_timeout = {round(patience_seconds * 1000)}")
        files = [Path(f"{self.path}{ending}") for ending in ("", _LOG, _INDEX)]
        self.identities = tuple(FileIdentity.at(str(file)) for file in files if file.exists())
        self._seen = self._signature()

    @contextmanager
    def writing(self, telling: bool = False) -> Iterator[None]:
        """Open an exclusive write transaction. Raises ``Deposed`` if there is a newer token.

        ``telling``: it writes only statuses, events and incidents, so the contents for passes need not be read again.
        """
        before = self.total_changes
        try:
            with self:
                self.execute("BEGIN IMMEDIATE")
                self.verify()
                yield
        finally:
            if telling:
                self.told += self.total_changes - before
        if self._seen is not None:
            self._seen = self._signature()

    @contextmanager
    def fenced(self) -> Iterator[None]:
        """Keep other controllers from taking over, while something is written elsewhere. Raises ``Deposed``.

        If another process holds the lock, a new controller has to wait for it too. Data that is written elsewhere
        carries the token, by which its readers recognise the newer of two.
        """
        with ExitStack() as stack:
            try:
                stack.enter_context(self.writing())
            except Locked:
                self.verify()
            yield

    def verify(self) -> None:
        """Raise ``Deposed`` if another controller has taken over or a file was removed, ``Damaged`` if one is
        damaged."""
        if self.damage:
            raise Damaged(self.damage)
        for each in self.identities:
            if each.replaced:
                raise Deposed(f"{each.path} was removed: this controller ends, and another may start")
        newest = self._newest_on_disk() if self.altered else self.counter("token")
        if newest != self.token:
            raise Deposed(
                f"another controller has taken over (its token is {newest}, this one's is {self.token}):"
                " this one ends"
            )

    @property
    def altered(self) -> bool:
        """Return whether another process has written to the files, or damage was found in them."""
        return bool(self.damage) or (self._seen is not None and self._seen != self._signature())

    def doubt(self) -> None:
        """Have the files examined at the next look even if nobody has written to them, because disks fail silently."""
        self._seen = ()

    def _signature(self) -> Signature:
        return _signature(self._files[0]), _signature(self._files[1])

    @cached_property
    def _files(self) -> tuple[str, str]:
        """The paths of the file and its log, as text, because each pass needs them several times."""
        return str(self.path), f"{self.path}{_LOG}"

    def _newest_on_disk(self) -> int:
        """Check the files, and return the token in them. This connection itself would answer from its cache, which may
        be older than another process's write. Raises ``Damaged``."""
        seen = self._signature()
        try:
            with closing(self._another()) as fresh:
                check(fresh)
                row = fresh.execute("SELECT value FROM counters WHERE name = 'token'").fetchone()
        except sqlite3.DatabaseError as error:
            if isinstance(meaning(error, self.path), Unwritable):
                return self.counter("token")  # unreadable for now; the next look tries again
            self.damage = f"{self.path} is damaged: {error}"
            raise Damaged(self.damage) from error
        self._seen = seen
        return int(row[0]) if row else 0

    def _another(self) -> sqlite3.Connection:
        return sqlite3.connect(f"{self.path.absolute().as_uri()}?mode=rw", uri=True, timeout=0.0)

    def counter(self, name: str) -> int:
        """Return a counter, which only grows; 0 if it was never set."""
        row = self.execute("SELECT value FROM counters WHERE name = ?", (name,)).fetchone()
        return int(row[0]) if row else 0

    def execute(self, sql: str, parameters: Any = ()) -> sqlite3.Cursor:
        cursor = self.cursor(_Cursor)
        cursor.execute(sql, parameters)
        return cursor

    def executemany(self, sql: str, parameters: Iterable[Any]) -> sqlite3.Cursor:
        cursor = self.cursor(_Cursor)
        cursor.executemany(sql, parameters)
        return cursor

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> Literal[False]:
        try:
            return super().__exit__(kind, error, trace)
        except sqlite3.DatabaseError as failure:
            raise self._noted(failure) from failure

    def _noted(self, error: sqlite3.DatabaseError) -> ReconcilerError:
        found = meaning(error, self.path)
        if isinstance(found, Damaged):
            self.damage = str(found)
        else:
            self.problem, self.locked = str(found), isinstance(found, Locked)
        return found


def put(db: sqlite3.Connection, table: str, **row: Any) -> None:
    """Write a row in place of the one with the same key."""
    columns, values = ", ".join(row), ", ".join("?" * len(row))
    db.execute(f"INSERT OR REPLACE INTO {table} ({columns}) VALUES ({values})", tuple(row.values()))


def _signature(path: str) -> tuple[int, int] | None:
    try:
        status = os.stat(path)  # noqa: PTH116 - a Path takes three times as long
    except OSError:
        return None
    return status.st_size, status.st_mtime_ns
