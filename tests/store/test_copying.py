"""Copies of a store are looked at as a whole before they are used."""

from __future__ import annotations

from pathlib import Path

import pytest

from reconciler.errors import Invalid
from reconciler.store import Store, copy, upgrade_copy
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
