"""A controller begins with a store whatever became of the last one, and says so once."""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path

import pytest

from reconciler.bootstrap import Home
from reconciler.bootstrap.store import open_store
from reconciler.errors import Invalid, Unwritable
from reconciler.state import NodeName
from reconciler.store import EventFilter, Store
from reconciler.store.aside import damaged_stores
from tests.store.test_damage import NOISE, overwrite, spoil
from tests.store.test_full_disk import files_no_longer_than
from tests.store.test_store import ATTEMPT, GROUP, TINY

NOW = 1_800_000_000.0


@pytest.fixture
def home(tmp_path: Path) -> Home:
    made = Home(tmp_path / "home")
    made.create()
    return made


def serve(home: Home) -> int:
    """Run a cluster for a while, with two controllers, and return the newest token."""
    open_store(home, NOW).close()
    store = open_store(home, NOW)
    store.allocate(replace(GROUP, epoch=7), replace(ATTEMPT, epoch=7))
    token = store.token
    store.close()
    home.routes.write_text("{}")
    agent = home.node(NodeName("node-a"))
    agent.mkdir()
    (agent / "agent.lock").touch()
    return token


def reasons(store: Store) -> list[str]:
    return [event.reason for _, event in store.events(EventFilter())]


def damage(home: Home, harm: str) -> None:
    if harm == "no database":
        spoil(home.store)
    else:
        overwrite(home.store, home.store.stat().st_size - len(NOISE), NOISE)


@pytest.mark.parametrize("harm", ["no database", "a part of it"])
def test_a_damaged_store_is_moved_aside_and_told_once(
    home: Home, harm: str, caplog: pytest.LogCaptureFixture
) -> None:
    serve(home)
    damage(home, harm)
    before = home.store.read_bytes()
    with caplog.at_level(logging.ERROR):
        store = open_store(home, NOW)
    (kept,) = damaged_stores(home.store)
    assert kept.read_bytes() == before
    assert "store.db is damaged: " in caplog.text
    assert str(kept) in caplog.text
    ((_, told),) = store.events(EventFilter())
    assert (told.reason, told.warning, str(told.object)) == ("StoreDamaged", True, "cluster/main")
    assert "running groups are adopted" in told.message
    assert str(kept) in told.message
    assert store.agents.all().keys() == {"node-a"}
    assert store.damaged() == [kept.name]
    store.close()
    again = open_store(home, NOW)
    assert reasons(again) == ["StoreDamaged"]
    again.close()


def test_epochs_and_tokens_go_on_above_what_the_damaged_store_still_says(home: Home) -> None:
    token = serve(home)
    damage(home, "a part of it")
    store = open_store(home, NOW)
    assert store.last_epochs() == {TINY: 7}
    assert store.token >= token
    store.close()


def test_a_store_that_is_gone_is_told_once_and_a_first_one_is_not(home: Home) -> None:
    first = open_store(home, NOW)
    assert reasons(first) == []
    first.close()
    serve(home)
    for file in home.root.glob("store.db*"):
        file.unlink()
    store = open_store(home, NOW)
    assert reasons(store) == ["StoreLost"]
    assert store.agents.all().keys() == {"node-a"}
    store.close()
    again = open_store(home, NOW)
    assert reasons(again) == ["StoreLost"]
    again.close()


def test_a_store_of_a_newer_version_stays_where_it_is(home: Home) -> None:
    serve(home)
    store = Store(home.store)
    store._db.execute("PRAGMA user_version = 99")
    store.close()
    damage(home, "a part of it")
    before = home.store.read_bytes()
    with pytest.raises(Invalid, match="newer reconciler"):
        open_store(home, NOW)
    assert home.store.read_bytes() == before
    assert damaged_stores(home.store) == []


def test_a_store_on_a_full_disk_stays_where_it_is(home: Home) -> None:
    serve(home)
    before = home.store.read_bytes()
    with files_no_longer_than(0), pytest.raises(Unwritable):
        open_store(home, NOW)
    assert damaged_stores(home.store) == []
    assert home.store.read_bytes() == before
    open_store(home, NOW).close()
