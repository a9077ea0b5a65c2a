"""Files that do not hold what was written are found out before anything more is written to them, or done about them."""

from __future__ import annotations

import os
import resource
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from reconciler.errors import Damaged, Deposed, Invalid
from reconciler.store import EventFilter, Store, set_aside
from reconciler.store.aside import DAMAGED_KEPT, counters, damaged_stores, last_epochs
from reconciler.store.connection import Connection
from tests.store.test_store import ATTEMPT, GROUP, TINY, event

PAGE_BYTES = 4096
NOISE = bytes(range(256)) * 16
"""As long as a page, and like none."""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store.db"


@pytest.fixture
def store(path: Path) -> Iterator[Store]:
    opened = Store(path)
    opened.allocate(GROUP, ATTEMPT)
    yield opened
    opened.close()


def overwrite(file: Path, place: int, content: bytes) -> None:
    """Write into a file as a failing disk or another program does: from outside, with a later time."""
    before = file.stat().st_mtime_ns
    for _ in range(10_000):
        if file.stat().st_mtime_ns != before:
            return
        with file.open("r+b") as open_file:
            open_file.seek(place)
            open_file.write(content)
    raise AssertionError("the clock of this file system stands still")


def spoil(path: Path) -> None:
    """Overwrite a store and its log, which may have all that the store's own file has."""
    for file in (path, Path(f"{path}-wal")):
        size = file.stat().st_size if file.exists() else 0
        if size:
            overwrite(file, 0, (NOISE * (size // len(NOISE) + 1))[:size])


@contextmanager
def no_file_can_be_opened() -> Iterator[None]:
    """As in a process with as many open files as it may have."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def cut_off(file: Path) -> None:
    os.truncate(file, 0)


HARM: dict[str, Callable[[Path], None]] = {
    "no database any more": spoil,
    "all but its header": lambda path: overwrite(path, PAGE_BYTES, NOISE * 30),
    "an empty file": cut_off,
    "noise in its log": lambda path: overwrite(Path(f"{path}-wal"), 0, NOISE * 30),
    "no content in its log": lambda path: cut_off(Path(f"{path}-wal")),
}


@pytest.mark.parametrize("harm", HARM)
def test_no_epoch_is_written_to_a_store_that_was_damaged_while_it_is_open(
    store: Store, path: Path, harm: str
) -> None:
    if "log" not in harm:
        store._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        store.verify()
    assert not store.altered
    HARM[harm](path)
    assert store.altered
    size = Path(f"{path}-wal").stat().st_size
    for _ in range(2):
        with pytest.raises(Damaged, match=r"store\.db is damaged: "):
            store.allocate(replace(GROUP, epoch=2), replace(ATTEMPT, epoch=2))
        with pytest.raises(Damaged):
            store.verify()
    assert Path(f"{path}-wal").stat().st_size == size
    assert store.altered, "it is not forgotten"


@pytest.mark.parametrize("ending", ["", "-wal", "-shm"])
def test_a_store_one_of_whose_files_is_gone_is_written_to_no_more(
    store: Store, path: Path, ending: str
) -> None:
    Path(f"{path}{ending}").unlink()
    with pytest.raises(Deposed, match=rf"store\.db{ending} was removed"):
        store.prove(TINY, 1, 9.0)


def test_what_a_store_writes_itself_is_no_damage_and_costs_no_look(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Connection, "_newest_on_disk", lambda self: pytest.fail("it has looked"))
    for round_ in range(20):  # several checkpoints
        store.add_events(event(f"{round_}/{number}" + "x" * 3000) for number in range(200))
        assert not store.altered
    store.verify()


def test_what_somebody_else_has_written_is_looked_at_once(store: Store, path: Path) -> None:
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("DELETE FROM agents")
    assert store.altered
    store.verify()
    assert not store.altered
    store.prove(TINY, 1, 9.0)


def test_what_cannot_be_looked_at_for_the_moment_is_no_damage_and_is_looked_at_later(
    store: Store, path: Path
) -> None:
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("DELETE FROM agents")
    with no_file_can_be_opened():
        store.verify()
        assert store.altered
    store.verify()
    assert not store.altered


def test_damage_that_nobody_has_written_is_found_when_the_store_is_doubted(store: Store, path: Path) -> None:
    store._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    store.verify()
    before = path.stat()
    HARM["all but its header"](path)
    os.truncate(path, before.st_size)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert not store.altered
    store.doubt()
    assert store.altered
    with pytest.raises(Damaged):
        store.prove(TINY, 1, 9.0)


def test_another_store_in_its_place_is_not_written_to(store: Store, path: Path, tmp_path: Path) -> None:
    other = Store(tmp_path / "other.db")
    other.renew(above=70)
    other.close()
    store._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    store.verify()
    cut_off(path)
    overwrite(path, 0, (tmp_path / "other.db").read_bytes())
    with pytest.raises(Deposed):
        store.prove(TINY, 1, 9.0)


def test_damage_is_found_in_the_rows_behind_the_first_one(tmp_path: Path) -> None:
    path = tmp_path / "rows.db"
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("CREATE TABLE rows (text TEXT)")
        db.executemany("INSERT INTO rows VALUES (?)", [("x" * 100,)] * 2000)
    overwrite(path, path.stat().st_size - PAGE_BYTES, NOISE)
    ways: tuple[Callable[[sqlite3.Cursor], object], ...] = (
        list,
        lambda cursor: cursor.fetchall(),
        lambda cursor: [cursor.fetchone() for _ in range(2000)],
    )
    for read in ways:
        with closing(Connection(path)) as db:
            cursor = db.execute("SELECT text FROM rows")
            with pytest.raises(Damaged):
                read(cursor)
            assert db.damage


@pytest.mark.parametrize("harm", ["no database any more", "all but its header"])
def test_a_damaged_store_is_told_from_one_of_a_newer_version(store: Store, path: Path, harm: str) -> None:
    store.close()
    HARM[harm](path)
    with pytest.raises(Damaged, match=r"store\.db is damaged: "):
        Store(path)


def test_a_store_of_a_newer_version_is_never_damaged(store: Store, path: Path) -> None:
    """What it writes may look like damage to this one."""
    store.close()
    with closing(sqlite3.connect(path)) as db:
        db.execute("PRAGMA user_version = 99")
        db.commit()
    HARM["all but its header"](path)
    with pytest.raises(Invalid, match="newer reconciler"):
        Store(path)


# --- set aside ------------------------------------------------------------------------------------


def test_what_is_set_aside_can_be_looked_at_and_the_newest_stay(path: Path) -> None:
    kept = []
    for number in range(DAMAGED_KEPT + 2):
        store = Store(path)
        store.add_events([event(f"of store {number}")])
        # As a process that was killed leaves them: with the log.
        files = {ending: Path(f"{path}{ending}").read_bytes() for ending in ("", "-wal")}
        store.close()
        for ending, content in files.items():
            Path(f"{path}{ending}").write_bytes(content)
        kept.append(set_aside(path, 1_800_000_000.0 + number))
        assert not list(path.parent.glob("store.db")) + list(path.parent.glob("store.db-*"))
    assert kept[0].name == "store.db.damaged-20270115T080000000000Z"
    assert damaged_stores(path) == kept[-DAMAGED_KEPT:]
    left = {file.name.removesuffix("-wal") for file in path.parent.iterdir()}
    assert left == {each.name for each in kept[-DAMAGED_KEPT:]}
    again = Store(kept[-1])
    assert [each.message for _, each in again.events(EventFilter())] == [f"of store {DAMAGED_KEPT + 1}"]
    again.close()


def test_numbers_are_taken_from_what_can_still_be_read(store: Store, path: Path, tmp_path: Path) -> None:
    store.allocate(replace(GROUP, epoch=7), replace(ATTEMPT, epoch=7))
    store.renew(above=40)
    (page,) = store._db.execute("SELECT rootpage FROM sqlite_master WHERE name = 'counters'").fetchone()
    store.close()
    overwrite(path, (page - 1) * PAGE_BYTES, NOISE)
    assert counters(path) == []
    assert last_epochs(path) == [("tiny", 0, 7)]
    new = Store(tmp_path / "new.db")
    new.outgrow(path)
    assert new.last_epochs() == {TINY: 7}
    assert new.problem == ""
    new.outgrow(tmp_path / "nowhere.db")
    new.release(TINY)
    new.close()


def test_a_number_that_no_cluster_reaches_is_not_believed(store: Store, path: Path, tmp_path: Path) -> None:
    store.close()
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("UPDATE counters SET value = ? WHERE name = 'token'", (2**62,))
    new = Store(tmp_path / "new.db")
    new.outgrow(path)
    assert new.token < 10
    assert new.last_epochs() == {TINY: 1}
    new.close()
