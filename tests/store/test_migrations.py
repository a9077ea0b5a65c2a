"""A store of any version that was released becomes one of the newest, whatever happens on the way."""

from __future__ import annotations

import hashlib
import json
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from reconciler.errors import Damaged
from reconciler.resources import LOCAL
from reconciler.state import DeploymentName, GroupRecord, NodeName, ObjectKey, ReplicaId
from reconciler.store import EventFilter, Store
from reconciler.store.schema import MIGRATIONS

RELEASED = ("77f927503dfa8bee",)
"""Digests of the scripts that are on people's machines: such a script is never edited, a new one is added."""
NEWEST = len(MIGRATIONS)
TINY = ReplicaId(DeploymentName("tiny"), 0)
ROWS: dict[str, list[tuple[Any, ...]]] = {
    "counters": [("token", 7), ("next_port", 22_006)],
    "epochs": [("tiny", 0, 4), ("gone", 2, 9)],
    "groups": [("tiny", 0, 4, '["node-a","node-b"]', 22_003, "s3cret", "print", 5.5, 1 << 30, 6.5, 2)],
    "agents": [("node-a",), ("node-b",)],
    "objects": [("Node", "node-a", "d1", 3, 1.5), ("ModelDeployment", "tiny", "d2", 2, 2.5)],
    "statuses": [("Node", "node-a", json.dumps({"conditions": [], "generation": 3, "extra": {"ranks": 1}}))],
    "events": [(12, 3.5, "Node", "node-a", 1, "Tested", "told", "exit/x", "r1", None)],
}
"""What a version-1 store holds, in the order of its own columns."""


def old_store(path: Path, version: int) -> None:
    """A store as that version left it, with rows of the first."""
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("PRAGMA journal_mode = WAL")
        db.executescript(MIGRATIONS[0])
        for table, rows in ROWS.items():
            marks = ", ".join("?" for _ in rows[0])
            db.executemany(f"INSERT INTO {table} VALUES ({marks})", rows)
        for script in MIGRATIONS[1:version]:
            db.executescript(script)
        db.execute(f"PRAGMA user_version = {version}")


def version_of(path: Path) -> int:
    with closing(sqlite3.connect(path)) as db:
        return int(db.execute("PRAGMA user_version").fetchone()[0])


def columns(db: sqlite3.Connection, table: str) -> list[str]:
    return [str(row[1]) for row in db.execute(f"PRAGMA table_info({table})")]


def check_nothing_is_lost(store: Store) -> None:
    assert store.token == 8
    assert store.last_epochs() == {TINY: 4, ReplicaId(DeploymentName("gone"), 2): 9}
    members = (NodeName("node-a"), NodeName("node-b"))
    group = GroupRecord(TINY, 4, members, 22_003, "s3cret", "print", 5.5, 1 << 30, 6.5)
    assert store.groups() == {TINY: group}
    assert store.agents.all() == {"node-a": LOCAL, "node-b": LOCAL}
    assert store.statuses()[ObjectKey("Node", "node-a")].extra == {"ranks": 1}
    ((number, event),) = store.events(EventFilter())
    assert (number, event.reason, event.message, event.warning) == (12, "Tested", "told", True)
    assert store.event_keys() == {"exit/x"}
    assert store.objects.keys() == {ObjectKey("Node", "node-a"), ObjectKey("ModelDeployment", "tiny")}


def test_scripts_that_were_released_are_as_they_were() -> None:
    found = [hashlib.sha256(" ".join(script.split()).encode()).hexdigest()[:16] for script in MIGRATIONS]
    assert tuple(found[: len(RELEASED)]) == RELEASED


@pytest.mark.parametrize("version", range(1, NEWEST))
def test_a_store_of_every_version_is_migrated_with_all_that_it_holds(tmp_path: Path, version: int) -> None:
    path = tmp_path / "store.db"
    old_store(path, version)
    store = Store(path)
    assert not store.is_new
    check_nothing_is_lost(store)
    store.close()
    assert version_of(path) == NEWEST
    copy = tmp_path / f"store.v{version}.db"
    assert version_of(copy) == version
    assert copy.stat().st_mode & 0o077 == 0
    as_it_was = tmp_path / "before.db"
    old_store(as_it_was, version)
    with closing(sqlite3.connect(copy)) as db, closing(sqlite3.connect(as_it_was)) as before:
        assert list(db.iterdump()) == list(before.iterdump())


def test_only_the_newest_copy_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    old_store(path, NEWEST - 1)
    (tmp_path / "store.v0.db").write_text("of an earlier migration")
    Store(path).close()
    assert [file.name for file in tmp_path.glob("store.v*.db")] == [f"store.v{NEWEST - 1}.db"]


DYING = """
import os, signal, sqlite3, sys
from pathlib import Path
from typing import Any
from reconciler.store import schema
db = sqlite3.connect(sys.argv[1], isolation_level=None)
db.execute("PRAGMA journal_mode = WAL")
db.create_function("die", 0, lambda: os.kill(os.getpid(), signal.SIGKILL))
statements = schema.MIGRATIONS[-1].split(";")
at = int(sys.argv[2]) % len(statements)
dying = ";".join([*statements[:at], " SELECT die()", *statements[at:]])
schema.MIGRATIONS = (*schema.MIGRATIONS[:-1], dying)
schema.migrate(db, Path(sys.argv[1]))
"""


@pytest.mark.parametrize("statement", [0, 1, 2, -1])
def test_a_migration_that_is_killed_in_the_middle_is_done_by_the_next_start(
    tmp_path: Path, statement: int
) -> None:
    path = tmp_path / "store.db"
    old_store(path, 1)
    command = [sys.executable, "-c", DYING, str(path), str(statement)]
    died = subprocess.run(command, timeout=60, check=False)
    assert died.returncode == -signal.SIGKILL
    assert version_of(path) == NEWEST - 1
    (tmp_path / "store.v1.part").write_text("a copy that was cut off")
    store = Store(path)
    check_nothing_is_lost(store)
    store.close()
    assert version_of(path) == NEWEST
    assert not list(tmp_path.glob("*.part"))


@pytest.mark.parametrize("table", ["counters", "events"])
def test_a_damaged_store_is_not_opened(tmp_path: Path, table: str) -> None:
    path = tmp_path / "store.db"
    old_store(path, 1)
    Store(path).close()
    with closing(sqlite3.connect(path)) as db:
        (page,) = db.execute("SELECT rootpage FROM sqlite_master WHERE name = ?", (table,)).fetchone()
    content = bytearray(path.read_bytes())
    content[(page - 1) * 4096 : (page - 1) * 4096 + 64] = b"\xff" * 64
    path.write_bytes(content)
    with pytest.raises(Damaged, match=r"store\.db is damaged: "):
        Store(path)
