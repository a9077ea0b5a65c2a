"""Attacks on the rights that machines give away: real sudo, nftables and systemd, as root in namespaces."""

from __future__ import annotations

from pathlib import Path

import pytest

HERE = f"{Path(__file__).parent}/"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """They belong to the second tier: the first one should not take root."""
    for item in items:
        if str(item.path).startswith(HERE):
            item.add_marker(pytest.mark.second_tier)
            item.add_marker(pytest.mark.needs("root", "namespaces"))
