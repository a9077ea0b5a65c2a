"""Wrong results over an emulated Mac's RDMA, as they were reported of real ones: no error tells of them.

They concern sums over groups of JACCL alone. The ring over TCP, which MLX forms beside it, has the right ones.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .line import Line

LARGE_BYTES = 32 * 1024
"""Arrays above this are wrong with ``sums`` and ``zeros``."""
LONG_TOKENS = 4_500
"""Tokens of a prompt above which it is read wrong with ``long``; single tokens are read right."""


class Results:
    """The sums of one process."""

    def __init__(self, mx: Any, line: Line) -> None:
        self._mx = mx
        self._line = line
        self._right: list[Any] = []
        """Groups that have nothing to do with RDMA."""
        self._reach: Any = 0
        """Tokens of the sequence up to the last one whose position was encoded."""
        mx.distributed.all_sum = self._summing(mx.distributed.all_sum)
        mx.fast.rope = self._noting(mx.fast.rope)

    def leave(self, group: Any) -> Any:
        """Return a group whose sums are always right."""
        self._right.append(group)
        return group

    def _summing(self, all_sum: Callable[..., Any]) -> Callable[..., Any]:
        def summed(array: Any, *, group: Any = None, stream: Any = None) -> Any:
            total = all_sum(array, group=group, stream=stream)
            if not self._line.garbage or any(group is each for each in self._right):
                return total
            return self._spoiled(self._line.garbage, array, total)

        return summed

    def _noting(self, rope: Callable[..., Any]) -> Callable[..., Any]:
        def noted(array: Any, *args: Any, **more: Any) -> Any:
            offset = more.get("offset", 0)
            last = offset if isinstance(offset, int) else self._mx.max(offset)
            self._reach = last + array.shape[-2]
            return rope(array, *args, **more)

        return noted

    def _spoiled(self, how: str, array: Any, total: Any) -> Any:
        mx = self._mx
        if how == "long":
            if array.ndim < 3 or array.shape[-2] == 1:
                return total
            return mx.where(mx.array(self._reach) > LONG_TOKENS, total[..., ::-1], total)
        if array.nbytes <= LARGE_BYTES:
            return total
        flat, own = total.reshape(-1), array.reshape(-1)
        places = mx.arange(flat.size)
        if how == "zeros":  # nothing of the others has arrived in the second half
            flat = mx.where(places >= flat.size // 2, own, flat)
        else:
            flat = mx.where(places % 1024 == 7, flat + 1, flat)
        return flat.reshape(total.shape).astype(total.dtype)
