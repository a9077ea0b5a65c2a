"""Copies of a store are looked at as a whole before they are used."""

from __future__ import annotations

from pathlib import Path

import pytest

from reconciler.errors import Invalid
from reconciler.state import NodeName, Reboot
from reconciler.store import Store, carry_over, copy, upgrade_copy
from tests.store.test_damage import NOISE, PAGE_BYTES, overwrite
from tests.store.test_store import ATTEMPT, GROUP


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    """A copy of a store with one group."""
    store = Store(tmp_path / "store.db")
    store.allocate(GROUP, ATTEMPT)
    store.close()
    made = tmp_path / "copy.db"
    copy(tmp_path / "store.db", made)
    return made


def test_a_copy_that_is_whole_is_used(copied: Path) -> None:
    upgrade_copy(copied)


def test_a_copy_that_is_damaged_anywhere_is_no_copy(copied: Path) -> None:
    """Not a damaged store, whose controller would begin a new one."""
    overwrite(copied, copied.stat().st_size - PAGE_BYTES, NOISE)
    with pytest.raises(Invalid, match=r"its copy\.db is not a store of reconciler: "):
        upgrade_copy(copied)


def test_no_machine_is_on_its_way_any_more_in_a_store_that_is_restored(tmp_path: Path) -> None:
    store = Store(tmp_path / "store.db")
    store.note_reboot(NodeName("a"), Reboot(5000.0, "boot-1", "somebody asked for it"))
    store.close()
    carry_over(tmp_path / "store.db", tmp_path / "none.db", (), 900.0)
    store = Store(tmp_path / "store.db")
    assert store.reboots.all() == {NodeName("a"): Reboot(4100.0, "boot-1", "somebody asked for it")}
    store.close()
