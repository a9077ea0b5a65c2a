"""A cluster repo, a person who pushes to it as in the tests of the source, and what a controller makes of both."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from reconciler.source.git import hooks
from reconciler.source.git.repository import ClusterRepo
from reconciler.source.hook import objection_to
from reconciler.source.sources import GitSource
from tests.source.conftest import home, person

from .test_desired_state import Controller

__all__ = ["home", "person"]


@pytest.fixture
def repo(home: Path) -> ClusterRepo:
    """As commands open it: they check what they commit themselves, without the hook's process."""
    return ClusterRepo.create(home / "cluster.git", hooks.command(), objection_to)


@pytest.fixture
def now() -> float:
    """When a controller begins."""
    return 100.0


@pytest.fixture
def controller(repo: ClusterRepo, home: Path, now: float) -> Iterator[Controller]:
    made = Controller(GitSource(repo), home / "store.db", now)
    yield made
    made.store.close()
