"""Time limits of tests with whole clusters."""

from __future__ import annotations

from pathlib import Path

import pytest

SECONDS_MAX = 400
"""Of a test with processes of a whole cluster, on a busy machine: what it waits for has bounds of its own."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent) and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(SECONDS_MAX))
