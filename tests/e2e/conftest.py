"""One quickstart cluster for all scenarios that leave it as they found it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from .cluster import Cluster, quickstart

SECONDS_MAX = 400
"""Of a test with processes of a whole cluster, on a busy machine: what it waits for has bounds of its own."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.parent == Path(__file__).parent and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(SECONDS_MAX))


@pytest.fixture(scope="session")
def shared() -> Iterator[Cluster]:
    with quickstart() as cluster:
        yield cluster


@pytest.fixture
def tiny(shared: Cluster) -> Iterator[Cluster]:
    """The shared cluster, settled before the test and settled after it: nothing is left to do."""
    shared.wait_settled()
    yield shared
    shared.wait_settled()
