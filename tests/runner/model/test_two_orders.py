"""Two transports that are right differ by the rounding of their sums, and are never taken for a wrong one.

The sums are taken in two orders by four real ranks, in the type in which most models compute.
"""

from __future__ import annotations

import json

import pytest

from reconciler.runner.model.long_prompt import DEVIATION_MAX
from tests.runner.ranks import each_rank

from .architectures import ARCHITECTURES, write_architecture

pytestmark = pytest.mark.second_tier

RANKS, PROMPTS = 4, 1
SECONDS = 300.0


@pytest.fixture(scope="module")
def apart(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[float]]:
    """How far two right readings are apart, for each architecture."""
    folders = [write_architecture(tmp_path_factory.mktemp(name), name) for name in ARCHITECTURES]
    jobs = [(str(folder), "tensor", "bfloat16", PROMPTS) for folder in folders]
    ranks = each_rank(RANKS, "tests.runner.model.two_orders", json.dumps(jobs), seconds=SECONDS)
    return {
        name: list(map(max, zip(*found, strict=True)))
        for name, *found in zip(ARCHITECTURES, *ranks, strict=True)
    }


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_another_order_of_sums_is_no_alarm(apart: dict[str, list[float]], name: str) -> None:
    assert len(apart[name]) == PROMPTS
    assert 0 < max(apart[name]) < DEVIATION_MAX
