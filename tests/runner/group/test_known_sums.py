"""Sums and gathered rows are compared with what they should be, without a tolerance."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mlx.core as mx
import pytest

from reconciler.runner.group import known_sums
from reconciler.runner.group.known_sums import BUFFERS, NUMBER_BYTES, sizes
from reconciler.wire.launch import ExitCode, RankEnd


class Ranks:
    """A group that this process plays alone: whatever one rank sends, the others send theirs."""

    def __init__(self, size: int, rank: int) -> None:
        self._size, self._rank = size, rank

    def size(self) -> int:
        return self._size

    def rank(self) -> int:
        return self._rank


@pytest.fixture(params=[(2, 0), (2, 1), (8, 5)], ids=str)
def group(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    ranks = Ranks(*request.param)
    number = 0

    def others(array: Any) -> list[Any]:
        """What every rank sends, known by this one's: they count on from each other."""
        own = known_sums._numbers(array.size, ranks.rank(), number)
        assert mx.array_equal(array, own)
        return [known_sums._numbers(array.size, rank, number) for rank in range(ranks.size())]

    def all_sum(array: Any, *, group: Any) -> Any:
        nonlocal number
        number = ranks.number  # type: ignore[attr-defined]
        return ranks.spoil(sum(others(array), mx.zeros(array.shape, array.dtype)))  # type: ignore[attr-defined]

    def all_gather(array: Any, *, group: Any) -> Any:
        return ranks.spoil(mx.concatenate(others(array)))  # type: ignore[attr-defined]

    monkeypatch.setattr(mx.distributed, "all_sum", all_sum)
    monkeypatch.setattr(mx.distributed, "all_gather", all_gather)
    ranks.number, ranks.spoil = 0, lambda array: array  # type: ignore[attr-defined]
    return ranks


def check(group: Any, largest: int) -> int:
    def counted() -> None:
        group.number += 1

    return known_sums.check(group, largest, counted)


@pytest.mark.parametrize("largest", [0, BUFFERS[-1], 3 * BUFFERS[-1]])
def test_right_results_are_right_at_every_size(group: Any, largest: int) -> None:
    assert check(group, largest) == max(largest, BUFFERS[-1] + NUMBER_BYTES)
    assert group.number == len(list(sizes(largest)))


def test_every_buffer_is_tried_below_at_and_above_its_size_and_then_the_largest() -> None:
    tried = list(sizes(5 * 2**20))
    assert {size + off for size in BUFFERS for off in (-2, 0, 2)} <= set(tried)
    assert tried[-3:] == [2**21 + 2, 2**22 + 2, 5 * 2**20]
    assert tried == sorted(tried)


def off_by_one(array: Any) -> Any:
    """In the last number alone."""
    return mx.concatenate([array[:-1], array[-1:] + 1])


def half_lost(array: Any) -> Any:
    return mx.concatenate([array[: array.size // 2], mx.zeros(array.size - array.size // 2, array.dtype)])


def moved(array: Any) -> Any:
    """As from a buffer that begins 128 bytes later."""
    return mx.concatenate([array[64:], array[:64]])


@pytest.mark.parametrize("spoil", [off_by_one, half_lost, moved])
@pytest.mark.parametrize("at", [0, 13, 24])
def test_a_wrong_result_at_any_size_ends_the_rank(group: Any, spoil: Callable[[Any], Any], at: int) -> None:
    tried = list(sizes(3 * BUFFERS[-1]))
    group.spoil = lambda array: spoil(array) if group.number == at else array
    with pytest.raises(RankEnd) as end:
        check(group, tried[-1])
    assert end.value.code == ExitCode.WRONG_RESULT
    assert end.value.sentence.startswith(f"the sum of arrays of {tried[at]} bytes is wrong at ")


def test_the_place_and_the_numbers_are_told(group: Any) -> None:
    group.spoil = off_by_one
    with pytest.raises(RankEnd) as end:
        known_sums.check_sum(group, 4096, 0)
    places = 4096 // NUMBER_BYTES
    right = sum((7 * rank + places - 1) % known_sums.NUMBERS for rank in range(group.size()))
    assert end.value.sentence == (
        f"the sum of arrays of 4096 bytes is wrong at 1 of {places} places, first at byte 4094: {right + 1} instead of {right}"
    )
