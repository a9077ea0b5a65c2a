"""Every world of a test ends with it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from .up import end_all


@pytest.fixture(autouse=True)
def ends() -> Iterator[None]:
    """End the worlds of a test with it."""
    yield
    end_all()
