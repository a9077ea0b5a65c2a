"""A store of its own for each test."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from reconciler.store import Store


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = Store(tmp_path / "store.db")
    yield opened
    opened.close()
