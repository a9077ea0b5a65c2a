"""Sums of two ranks' arrays over MLX's ring: in one exchange, where MLX takes two.

MLX's ring first adds halves up and then passes them around, which saves bytes from three ranks on; two ranks send as many
bytes either way (``mlx/distributed/ring/ring.cpp``). A step of a model has two sums in each layer, and on a small array a
sum takes as long as its exchanges do.
"""

from __future__ import annotations

from typing import Any

import mlx.core as mx

SMALL_BYTES_MAX = 256 * 1024
"""MLX divides larger arrays between both of its connections."""

_all_sum = mx.distributed.all_sum


def exchange_once(ring: Any) -> None:
    """Let this process sum small arrays over ``ring``, an ``mx.distributed.Group``, in one exchange if it has two ranks.

    Models look the function up at each call. The sum has the same bits on both ranks, and the same as MLX's: there are
    only two numbers to add.
    """

    def all_sum(array: Any, *, group: Any = None, stream: Any = None) -> Any:
        if group is not ring or array.ndim == 0 or array.nbytes > SMALL_BYTES_MAX:
            return _all_sum(array, group=group, stream=stream)
        both = mx.distributed.all_gather(array, group=group, stream=stream)
        return both[: array.shape[0]] + both[array.shape[0] :]

    distributed: Any = mx.distributed
    distributed.all_sum = all_sum if ring.size() == 2 else _all_sum
