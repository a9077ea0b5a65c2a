"""A disk that takes nothing more: it is said, nothing is half written, and it ends with the want of room."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from reconciler.errors import Unwritable
from reconciler.store import EventFilter, Store
from tests.store.test_store import ATTEMPT, GROUP, TINY, event


@contextmanager
def files_no_longer_than(limit: int) -> Iterator[None]:
    """As on a full disk: every write beyond fails, in this process."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.fixture
def store(store: Store) -> Store:
    store.allocate(GROUP, ATTEMPT)
    return store


def test_what_cannot_be_written_is_said_and_what_was_written_stays(store: Store, tmp_path: Path) -> None:
    size = (tmp_path / "store.db-wal").stat().st_size
    with files_no_longer_than(size):
        with pytest.raises(Unwritable, match=r"store\.db cannot be written now: "):
            store.allocate(replace(GROUP, epoch=2), ATTEMPT)
        assert "cannot be written now" in store.problem
        store.recover()
        assert store.problem, "there is no room yet"
        assert store.groups() == {TINY: GROUP}
        with pytest.raises(Unwritable):
            store.add_events([event("lost")])
    store.recover()
    assert store.problem == ""
    store.allocate(replace(GROUP, epoch=2), ATTEMPT)
    assert store.last_epochs() == {TINY: 2}
    assert store.events(EventFilter()) == []


def test_a_store_that_cannot_be_made_is_said(tmp_path: Path) -> None:
    path = tmp_path / "new.db"
    with files_no_longer_than(0), pytest.raises(Unwritable, match=r"new\.db cannot be written now"):
        Store(path)
    Store(path).close()
