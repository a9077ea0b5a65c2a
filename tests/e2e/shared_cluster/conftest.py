"""One quickstart cluster for all scenarios that leave it as they found it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.e2e.cluster import Cluster, quickstart


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
