"""The bench of each test."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.agent.bench import NO_RUNTIME, Bench


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    """A node of its own for one test, without a runtime, of which every new agent would ask the versions."""
    made = Bench.make()
    made.runtime = NO_RUNTIME
    yield made
    await made.close()
