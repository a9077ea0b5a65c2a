"""The figures over time that `top --since` shows."""

from __future__ import annotations

import pytest

from reconciler.cli.commands.read.top import over_time


@pytest.mark.parametrize(
    ("values", "last", "mean", "most"),
    [
        ([2.0, 4.0, 3.0], "3", "3", "4"),
        ([2.0, 4.0, None], "4", "3", "4"),
        ([4.0, None, 2.0], "2", "3", "4"),
        ([4.0, 2.0, None, None], "-", "3", "4"),
        ([None, 0.0], "0", "0", "0"),
    ],
)
def test_the_last_figure_is_of_the_last_two_intervals_or_none(
    values: list[float | None], last: str, mean: str, most: str
) -> None:
    shown = over_time([{"object": "node/node-a", "name": "load", "values": values}])
    assert shown.splitlines()[1].split()[:5] == ["node/node-a", "load", last, mean, most]
