"""Checks collectives by arrays whose sums and rows every rank can compute for itself.

No error tells of a wrong result. Two ways to get one over RDMA on Macs have been reported. Neither was measured here.
Sums of large arrays are wrong, each time alike (github.com/ml-explore/mlx/issues/4342, github.com/exo-explore/exo
issues 2208 and 2270). A driver receives zeros into a buffer across a boundary of 4 GiB (mesh-flow, 2026-09). The
second depends on where buffers lie, which differs from process to process. So each buffer is used whenever a group is formed.

All numbers are small, so that each sum is exact in any order and type: a result is right or wrong, without a tolerance.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import mlx.core as mx

from reconciler.wire.launch import PIECE_TOKENS_MAX, ExitCode, RankEnd

BUFFERS = tuple(4096 << power for power in range(8))
"""Bytes of the buffers through which JACCL sends (``mlx/distributed/jaccl/mesh.cpp``): it has some of each size."""
NUMBER_BYTES = 2
"""Of ``bfloat16``, in which models compute."""
NUMBERS = 29
"""A prime, so that no two buffers have the same content at the same place. The sum over 8 ranks is below 256, up to which
``bfloat16`` has every integer."""


def sizes(largest: int) -> Iterator[int]:
    """Yield the bytes of arrays to try: around each buffer, then doubled up to ``largest``, and that."""
    for size in BUFFERS:
        yield from (size - NUMBER_BYTES, size, size + NUMBER_BYTES)
    size = 2 * BUFFERS[-1]
    while size < largest:
        yield size + NUMBER_BYTES
        size *= 2
    if largest > BUFFERS[-1]:
        yield largest


def largest_array(hidden: int) -> int:
    """Return the bytes of the largest array that a step of a model exchanges: a hidden state for each token."""
    return PIECE_TOKENS_MAX * hidden * NUMBER_BYTES


def check(group: mx.distributed.Group, largest: int, going_on: Callable[[], None]) -> int:
    """Check sums and gathered rows of many sizes, as all ranks do. Return the bytes of the largest.

    ``going_on`` is called after each. Raises ``RankEnd(WRONG_RESULT)``, and MLX's errors.
    """
    tried = BUFFERS[-1]
    for number, size in enumerate(sizes(largest)):
        check_sum(group, size, number)
        if size <= BUFFERS[-1]:
            _check_rows(group, size, number)
        tried = max(tried, size)
        going_on()
    return tried


def check_buffers(group: mx.distributed.Group) -> None:
    """Check one sum through the buffers of each size. Raises ``RankEnd(WRONG_RESULT)``, and MLX's errors."""
    for number, size in enumerate(BUFFERS):
        check_sum(group, size, number)


def check_sum(group: mx.distributed.Group, size: int, number: int) -> None:
    """Check one sum of ``size`` bytes. Equal ``number``s have equal content. Raises ``RankEnd(WRONG_RESULT)``, and MLX's
    errors."""
    count, ranks = size // NUMBER_BYTES, range(group.size())
    total = mx.distributed.all_sum(_numbers(count, group.rank(), number), group=group)
    expected = sum((_numbers(count, rank, number) for rank in ranks), mx.zeros((), mx.bfloat16))
    _compare(f"the sum of arrays of {size} bytes", total, expected)


def _check_rows(group: mx.distributed.Group, size: int, number: int) -> None:
    count, ranks = size // NUMBER_BYTES, range(group.size())
    rows = mx.distributed.all_gather(_numbers(count, group.rank(), number), group=group)
    expected = mx.concatenate([_numbers(count, rank, number) for rank in ranks])
    _compare(f"gathered arrays of {size} bytes each", rows, expected)


def _numbers(count: int, rank: int, number: int) -> mx.array:
    return ((mx.arange(count, dtype=mx.uint32) + (7 * rank + number)) % NUMBERS).astype(mx.bfloat16)


def _compare(what: str, found: mx.array, expected: mx.array) -> None:
    mx.eval(found)
    differs: Any = found != expected
    wrong: Any = mx.sum(differs).item()
    if wrong:
        first: Any = mx.argmax(differs).item()
        raise RankEnd(
            ExitCode.WRONG_RESULT,
            f"{what} is wrong at {wrong} of {found.size} places, first at byte {first * NUMBER_BYTES}:"
            f" {found[first].item():g} instead of {expected[first].item():g}",
        )
