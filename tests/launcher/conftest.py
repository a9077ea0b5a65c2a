"""The launchers of each test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.launcher.ranks import Launchers


@pytest.fixture
def launchers(tmp_path: Path) -> Iterator[Launchers]:
    made = Launchers(tmp_path)
    yield made
    made.close()
