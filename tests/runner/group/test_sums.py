"""Ranks sum the same bits, whichever way they exchange them."""

from __future__ import annotations

import pytest

from tests.runner.ranks import each_rank

from .summing import SHAPES


@pytest.mark.parametrize("size", [2, 3])
def test_a_sum_has_the_bits_of_mlx_on_every_rank(size: int) -> None:
    first, *others = each_rank(size, "tests.runner.group.summing", seconds=120.0)
    assert all(other == first for other in others)
    for ours, mlx in first["sums"]:
        assert ours == mlx
    assert first["gathered"] == ([list(shape) for shape in SHAPES[:-1]] * 3 if size == 2 else [])
