"""A store that another process has locked: writes wait for it, and nothing else does."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from reconciler.errors import Deposed, Locked
from reconciler.store import EventFilter, Store
from tests.store.test_store import ATTEMPT, GROUP, TINY, event

WRITES = 30
"""So many that a wait of 5 s for each, as when a store is opened, would exceed the time limit of a test."""


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """As a program that takes its time with the store."""
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        yield
        other.execute("ROLLBACK")


@pytest.fixture
def store(store: Store) -> Store:
    store.allocate(GROUP, ATTEMPT)
    return store


def test_a_write_fails_at_once_and_says_why_while_reading_goes_on(store: Store, tmp_path: Path) -> None:
    with locked(tmp_path / "store.db"):
        for _ in range(WRITES):
            with pytest.raises(Locked, match="another process has locked it"):
                store.add_events([event("late")])
        assert store.locked
        assert "another process has locked it" in store.problem
        store.verify()
        assert store.groups() == {TINY: GROUP}
        store.recover()
        assert store.locked, "it is not over yet"
    store.recover()
    assert (store.locked, store.problem) == (False, "")
    store.add_events([event("made up for")])
    assert [each.message for _, each in store.events(EventFilter())] == ["made up for"]


def test_a_store_that_is_opened_waits_until_another_process_has_written(store: Store, tmp_path: Path) -> None:
    with closing(
        sqlite3.connect(tmp_path / "store.db", isolation_level=None, check_same_thread=False)
    ) as other:
        other.execute("BEGIN IMMEDIATE")
        writing = threading.Timer(0.05, other.execute, ("COMMIT",))
        writing.start()
        newer = Store(tmp_path / "store.db")
        writing.join()
    assert newer.token > store.token
    newer.close()


def test_what_is_written_elsewhere_does_not_wait_but_is_the_newest_controllers_alone(tmp_path: Path) -> None:
    older = Store(tmp_path / "store.db")
    done = []
    with locked(tmp_path / "store.db"), older.fenced():
        done.append("routes")
    assert done
    newer = Store(tmp_path / "store.db")
    with locked(tmp_path / "store.db"), pytest.raises(Deposed), older.fenced():
        done.append("routes of who was replaced")
    assert done == ["routes"]
    older.close()
    newer.close()
