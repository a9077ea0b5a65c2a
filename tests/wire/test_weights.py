"""Paths of weights tell fetched ones from a person's own."""

from __future__ import annotations

import pytest

from reconciler.wire.weights import hub_path, is_hub_path

OWN = (
    "hub",
    "hub/tiny",
    "hub/org--tiny/a/b",
    "hubs/org/tiny",
    "hub-old/org/tiny",
    "my/hub/tiny",
    "Hub/org/tiny",
)


def test_the_path_of_a_commit_counts_as_fetched() -> None:
    assert is_hub_path(hub_path("org/tiny", "a" * 40))


@pytest.mark.parametrize("path", OWN)
def test_no_other_path_counts_as_fetched(path: str) -> None:
    assert not is_hub_path(path)
