"""Moves a damaged store out of the way, keeps it for people, and reads the numbers that must not be used twice."""

from __future__ import annotations

import sqlite3
from contextlib import closing, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

FILES = ("-wal", "-shm", "")
"""Endings of a store's files. The store's own file is moved last: a new store must never meet the log of another
one."""
DAMAGED_KEPT = 3
"""Most damaged stores to keep; the oldest are removed first."""
NUMBER_MAX = 2**40
"""No cluster reaches higher numbers, but a damaged file may have any."""


def set_aside(path: Path, now: float) -> Path:
    """Move the files of a damaged store, and return where its own file is now. Raises ``OSError``.

    SQLite can open the file under its new name, with its log. Of all damaged stores, the newest ``DAMAGED_KEPT`` stay.
    """
    target = path.with_name(f"{path.name}.damaged-{datetime.fromtimestamp(now, UTC):%Y%m%dT%H%M%S%fZ}")
    for ending in FILES:
        with suppress(FileNotFoundError):
            Path(f"{path}{ending}").rename(f"{target}{ending}")
    for old in damaged_stores(path)[:-DAMAGED_KEPT]:
        for ending in FILES:
            Path(f"{old}{ending}").unlink(missing_ok=True)
    return target


def damaged_stores(path: Path) -> list[Path]:
    """Return the damaged stores that were set aside from ``path`` and are still there, oldest first."""
    return sorted(path.parent.glob(f"{path.name}.damaged-*Z"))


def counters(path: Path) -> list[tuple[str, int]]:
    """Return the counters of a store that may be damaged; none where they cannot be read."""
    return _rows(path, "SELECT name, value FROM counters WHERE value BETWEEN 0 AND ?")


def last_epochs(path: Path) -> list[tuple[str, int, int]]:
    """Return deployment, replica and last epoch, as far as they can be read from a store that may be damaged."""
    return _rows(path, "SELECT deployment, replica, last FROM epochs WHERE last BETWEEN 0 AND ?")


def _rows(path: Path, sql: str) -> list[Any]:
    """Return the rows before the first damage."""
    found: list[Any] = []
    with suppress(sqlite3.DatabaseError), closing(_opened(path)) as db:
        for row in db.execute(sql, (NUMBER_MAX,)):
            found.append(row)  # noqa: PERF402  # rows that were read before an error stay
    return found


def _opened(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(f"{path.absolute().as_uri()}?mode=rw", uri=True)
