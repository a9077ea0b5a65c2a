"""The store's tables, and the migration of an older store: forward only, with a copy kept."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from reconciler.errors import Invalid

MIGRATIONS: tuple[str, ...] = (
    """
    CREATE TABLE counters (name TEXT PRIMARY KEY, value INTEGER NOT NULL) STRICT;
    CREATE TABLE epochs (
        deployment TEXT NOT NULL, replica INTEGER NOT NULL, last INTEGER NOT NULL,
        PRIMARY KEY (deployment, replica)
    ) STRICT;
    CREATE TABLE groups (
        deployment TEXT NOT NULL, replica INTEGER NOT NULL, epoch INTEGER NOT NULL,
        members TEXT NOT NULL, port INTEGER NOT NULL, secret TEXT NOT NULL, fingerprint TEXT NOT NULL,
        created_at REAL NOT NULL, rank_bytes INTEGER NOT NULL, proven_at REAL, failures INTEGER NOT NULL,
        PRIMARY KEY (deployment, replica)
    ) STRICT;
    CREATE TABLE agents (node TEXT PRIMARY KEY) STRICT;
    CREATE TABLE objects (
        kind TEXT NOT NULL, name TEXT NOT NULL, digest TEXT NOT NULL, generation INTEGER NOT NULL,
        created_at REAL NOT NULL, PRIMARY KEY (kind, name)
    ) STRICT;
    CREATE TABLE statuses (
        kind TEXT NOT NULL, name TEXT NOT NULL, body TEXT NOT NULL, PRIMARY KEY (kind, name)
    ) STRICT;
    CREATE TABLE events (
        id INTEGER PRIMARY KEY AUTOINCREMENT, at REAL NOT NULL, kind TEXT NOT NULL, name TEXT NOT NULL,
        warning INTEGER NOT NULL, reason TEXT NOT NULL, message TEXT NOT NULL, key TEXT UNIQUE,
        revision TEXT NOT NULL, hook_at REAL
    ) STRICT;
    """,
    """
    ALTER TABLE objects ADD COLUMN manifest TEXT;
    ALTER TABLE objects ADD COLUMN deleted_at REAL;
    ALTER TABLE groups ADD COLUMN model TEXT NOT NULL DEFAULT '';
    CREATE TABLE in_force (
        id INTEGER PRIMARY KEY CHECK (id = 1), revision TEXT NOT NULL, since REAL NOT NULL
    ) STRICT;
    CREATE TABLE approvals (revision TEXT PRIMARY KEY, at REAL NOT NULL, by TEXT NOT NULL) STRICT;
    """,
    """
    ALTER TABLE groups ADD COLUMN strategy TEXT NOT NULL DEFAULT '';
    ALTER TABLE groups ADD COLUMN strategy_why TEXT NOT NULL DEFAULT '';
    """,
    """
    ALTER TABLE groups DROP COLUMN failures;
    ALTER TABLE groups ADD COLUMN transport TEXT NOT NULL DEFAULT '';
    ALTER TABLE groups ADD COLUMN transport_why TEXT NOT NULL DEFAULT '';
    ALTER TABLE groups ADD COLUMN boots TEXT NOT NULL DEFAULT '[]';
    ALTER TABLE groups ADD COLUMN facts TEXT NOT NULL DEFAULT '';
    CREATE TABLE attempts (
        deployment TEXT NOT NULL, replica INTEGER NOT NULL, epoch INTEGER NOT NULL, at REAL NOT NULL,
        cause TEXT NOT NULL, fault TEXT, counted INTEGER NOT NULL, text TEXT NOT NULL, wish TEXT NOT NULL,
        standing TEXT NOT NULL,
        PRIMARY KEY (deployment, replica, epoch)
    ) STRICT;
    CREATE TABLE rungs (
        deployment TEXT NOT NULL, replica INTEGER NOT NULL, transport TEXT NOT NULL, facts TEXT NOT NULL,
        at REAL NOT NULL, text TEXT NOT NULL, fault TEXT NOT NULL, person TEXT NOT NULL,
        PRIMARY KEY (deployment, replica, transport)
    ) STRICT;
    CREATE TABLE verbs_attempts (
        node TEXT NOT NULL, boot_id TEXT NOT NULL, count INTEGER NOT NULL, PRIMARY KEY (node)
    ) STRICT;
    CREATE TABLE reboots (
        node TEXT PRIMARY KEY, at REAL NOT NULL, boot_id TEXT NOT NULL, reason TEXT NOT NULL,
        told INTEGER NOT NULL DEFAULT 1
    ) STRICT;
    CREATE TABLE incidents (
        id INTEGER PRIMARY KEY, kind TEXT NOT NULL, name TEXT NOT NULL, opened_at REAL NOT NULL, closed_at REAL,
        settled INTEGER NOT NULL, body TEXT NOT NULL
    ) STRICT;
    CREATE TABLE notices (
        notifier TEXT NOT NULL, incident INTEGER NOT NULL, occasion TEXT NOT NULL, at REAL NOT NULL,
        text TEXT NOT NULL, attempts INTEGER NOT NULL, retry_at REAL NOT NULL, ended_at REAL,
        problem TEXT NOT NULL, PRIMARY KEY (notifier, incident, occasion)
    ) STRICT;
    ALTER TABLE agents ADD COLUMN access TEXT NOT NULL DEFAULT '{"local": {}}';
    ALTER TABLE groups ADD COLUMN needs TEXT NOT NULL DEFAULT '[]';
    ALTER TABLE groups ADD COLUMN weights TEXT NOT NULL DEFAULT '';
    ALTER TABLE groups ADD COLUMN weights_before TEXT NOT NULL DEFAULT '';
    CREATE TABLE setbacks (
        deployment TEXT PRIMARY KEY, model TEXT NOT NULL, tried TEXT NOT NULL, served TEXT NOT NULL,
        restarted_at TEXT NOT NULL, at REAL NOT NULL, text TEXT NOT NULL
    ) STRICT;
    """,
    """
    ALTER TABLE attempts DROP COLUMN counted;
    ALTER TABLE attempts DROP COLUMN standing;
    ALTER TABLE attempts ADD COLUMN served REAL;
    ALTER TABLE attempts ADD COLUMN suspicion INTEGER NOT NULL DEFAULT 0;
    UPDATE attempts SET served = 3600;
    """,
    """
    ALTER TABLE attempts ADD COLUMN port_taken INTEGER NOT NULL DEFAULT 0;
    DELETE FROM counters WHERE name = 'next_port';
    """,
    """
    ALTER TABLE groups ADD COLUMN context INTEGER NOT NULL DEFAULT 0;
    """,
    """
    ALTER TABLE groups ADD COLUMN spec TEXT NOT NULL DEFAULT '';
    ALTER TABLE groups ADD COLUMN spec_before TEXT NOT NULL DEFAULT '';
    ALTER TABLE setbacks ADD COLUMN spec_tried TEXT NOT NULL DEFAULT '';
    ALTER TABLE setbacks ADD COLUMN spec_served TEXT NOT NULL DEFAULT '';
    """,
    """
    CREATE TABLE kept (
        kind TEXT NOT NULL, name TEXT NOT NULL, manifest TEXT, PRIMARY KEY (kind, name)
    ) STRICT;
    """,
    """
    ALTER TABLE rungs ADD COLUMN trials INTEGER NOT NULL DEFAULT 0;
    """,
    """
    ALTER TABLE attempts ADD COLUMN never_ran INTEGER NOT NULL DEFAULT 0;
    """,
    """
    ALTER TABLE groups ADD COLUMN guessed INTEGER NOT NULL DEFAULT 0;
    """,
    """
    CREATE TABLE runs (
        job TEXT NOT NULL, run INTEGER NOT NULL, body TEXT NOT NULL, PRIMARY KEY (job, run)
    ) STRICT;
    """,
    """
    ALTER TABLE groups ADD COLUMN prove INTEGER NOT NULL DEFAULT 0;
    CREATE TABLE proofs (combination TEXT PRIMARY KEY, at REAL NOT NULL, body TEXT NOT NULL) STRICT;
    """,
)
"""One script per version; the first makes version 1. Released scripts are never edited."""


def version_of(db: sqlite3.Connection, path: Path) -> int:
    """Return the store's version, 0 for a new store. Raises ``Invalid`` if it is newer than this program."""
    version = int(db.execute("PRAGMA user_version").fetchone()[0])
    if version > len(MIGRATIONS):
        raise Invalid(
            f"{path} was written by a newer reconciler (store version {version}, this one supports {len(MIGRATIONS)});"
            " install that version again, or restore a backup"
        )
    return version


def migrate(db: sqlite3.Connection, path: Path) -> int:
    """Migrate the store to the newest version. Return its previous version, 0 for a new store. Raises ``Invalid`` if it
    is newer than this program."""
    version = version_of(db, path)
    if 0 < version < len(MIGRATIONS):
        _keep_copy(db, path, version)
    for number, script in enumerate(MIGRATIONS[version:], start=version + 1):
        db.executescript(f"BEGIN IMMEDIATE; {script} PRAGMA user_version = {number}; COMMIT;")
    return version


def _keep_copy(db: sqlite3.Connection, path: Path, version: int) -> None:
    """Write a complete copy before a migration, replacing a truncated one. Copies of older versions are removed."""
    copy = path.with_suffix(f".v{version}.db")
    draft = copy.with_suffix(".part")
    for unfinished in path.parent.glob(f"{path.stem}.v*.part"):
        unfinished.unlink()
    db.execute("VACUUM INTO ?", (str(draft),))
    draft.chmod(0o600)
    draft.replace(copy)
    for older in path.parent.glob(f"{path.stem}.v*.db"):
        if older != copy:
            older.unlink(missing_ok=True)


def check(db: sqlite3.Connection) -> None:
    """Raise ``sqlite3.DatabaseError`` for a damaged file, before a pass finds the damage."""
    finding = db.execute("PRAGMA quick_check(1)").fetchone()[0]
    if finding != "ok":
        error = sqlite3.DatabaseError(finding)
        error.sqlite_errorcode = sqlite3.SQLITE_CORRUPT
        raise error
