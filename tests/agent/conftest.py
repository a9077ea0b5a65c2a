"""The bench of each test."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.agent.bench import Bench


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    """A node of its own for one test."""
    made = Bench.make()
    yield made
    await made.close()
