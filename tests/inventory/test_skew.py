"""How far a node's clock is from the controller's, as far as the time of an answer lets it be known."""

from __future__ import annotations

from dataclasses import replace

import pytest

from reconciler.inventory.changes import skew
from reconciler.wire.node import Load
from tests.worlds import two_nodes


@pytest.mark.parametrize(
    ("clock", "expected"),
    [(99.0, -1.0), (100.0, 0.0), (101.5, 0.0), (103.0, 0.0), (104.26, 1.3), (0.0, -100.0)],
)
def test_what_the_time_of_the_answer_explains_is_no_skew(clock: float, expected: float) -> None:
    world = two_nodes()
    world.settle()
    report = next(iter(world.observed().nodes.values())).report
    assert report is not None
    assert skew(replace(report, load=Load(clock)), 100.0, 103.0) == expected
    assert skew(replace(report, load=None), 100.0, 103.0) == 0.0
