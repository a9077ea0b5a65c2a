"""Moves a damaged store out of the way, keeps it for people, and reads the numbers in it that must not be given twice."""

from __future__ import annotations

import sqlite3
from contextlib import closing, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

FILES = ("-wal", "-shm", "")
"""Endings of a store's files. Its own file is moved last: a new store must never meet the log of another one."""
DAMAGED_KEPT = 3
"""Most damaged stores to keep; the oldest go first."""
NUMBER_MAX = 2**40
"""No cluster reaches higher numbers: a file that is damaged may hold any."""


def set_aside(path: Path, now: float) -> Path:
    """Move the files of a damaged store, and return where its own file is now. Raises ``OSError``.

    The new name opens in SQLite, with the log beside it. Of the stores that were set aside before, the newest stay.
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
    """Return the rows in front of the first damage."""
    found: list[Any] = []
    with suppress(sqlite3.DatabaseError), closing(_opened(path)) as db:
        for row in db.execute(sql, (NUMBER_MAX,)):
            found.append(row)  # noqa: PERF402  # what was read before an error stays
    return found


def _opened(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(f"{path.absolute().as_uri()}?mode=rw", uri=True)
