"""For all tests: properties are checked on machines that are busy with other things.

``make test`` runs several processes of pytest. What shares costly things, such as a cluster or a group of
ranks, stays together in one of them; the scenarios with whole clusters take longest, and begin first.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import settings

settings.register_profile("reconciler", deadline=None)
settings.load_profile("reconciler")

TESTS = Path(__file__).parent
WHOLE_CLUSTERS = ("e2e", "documents")


@pytest.hookimpl(tryfirst=True)  # before pytest-xdist looks at the marks
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """One group a folder, for pytest-xdist; whole clusters are one, so that two of them rarely run at once."""
    for item in items:
        item.add_marker(pytest.mark.xdist_group(_group(item)))
    items.sort(key=lambda item: _group(item) != WHOLE_CLUSTERS[0])


def _group(item: pytest.Item) -> str:
    folder = item.path.relative_to(TESTS).parts[0]
    return WHOLE_CLUSTERS[0] if folder in WHOLE_CLUSTERS else folder
