"""The caches in which ``mlx_lm`` keeps the tokens that a model has read: their size, and whether other sequences can
use them.

Written against mlx-lm 0.32.2.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Iterable, Sequence
from typing import Any

import mlx.core as mx
from mlx_lm.models.cache import ArraysCache, CacheList, KVCache, RotatingKVCache, make_prompt_cache

from reconciler.wire.weights import PromptReuse

from . import memory

Cache = list[Any]
"""The caches of one sequence, one for each layer of this rank."""

NOT, EXACT, ANY = range(3)
"""Ways to use the cache of a sequence for others: not at all, only with all of its tokens, or with any first part."""
NAMES = (PromptReuse.NONE, PromptReuse.WHOLE, PromptReuse.ANY)
"""Their names on the wire."""
SIZES_MAX = 6
"""Most different lengths of windows in one model."""


@dataclasses.dataclass(frozen=True)
class Footprint:
    """The size of a sequence's cache on each rank of a group, and the way in which it can be reused."""

    reuse: int
    """``NOT``, ``EXACT`` or ``ANY``: the least that holds for the layers of every rank."""
    ranks: tuple[tuple[tuple[int, int], ...], ...]
    """For each rank, pairs of tokens and bytes: the bytes for each token, up to that number of tokens (0: all)."""
    why: str = ""
    """For ``NOT`` the reason, if this rank's layers give one."""

    def bytes(self, tokens: int) -> int:
        """Return the bytes that this number of tokens takes on the rank that needs the most."""
        return max(self.bytes_on(rank, tokens) for rank in range(len(self.ranks)))

    def bytes_on(self, rank: int, tokens: int) -> int:
        return sum(size * min(tokens, most or tokens) for most, size in self.ranks[rank])

    def fitting(self, size: int) -> int:
        """Return the most tokens whose cache takes at most ``size`` bytes on every rank; 0 if one token takes more."""
        low, high = 0, 1
        while self.bytes(high) <= size and high < 1 << 40:
            low, high = high, 2 * high
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self.bytes(middle) <= size else (low, middle)
        return low


def footprint(model: Any, group: Any) -> Footprint:
    """Return the footprint for all ranks of a group. A collective, unless ``group`` is None."""
    sizes = memory.share(model).get("cache")
    reuse, why = reusable(model, sizes)
    row = [reuse, *(number for pair in sizes or () if reuse != NOT for number in pair)]
    row += [0] * (1 + 2 * SIZES_MAX - len(row))
    rows: Any = [row]
    if group is not None:
        gathered = mx.distributed.all_gather(mx.array([row], dtype=mx.int64), group=group)
        mx.eval(gathered)
        rows = gathered.tolist()
    ranks = tuple(
        tuple((row[at], row[at + 1]) for at in range(1, len(row), 2) if row[at + 1]) for row in rows
    )
    return Footprint(min(row[0] for row in rows), ranks, why)


def reusable(model: Any, sizes: Sequence[object] | None) -> tuple[int, str]:
    """Return ``NOT``, ``EXACT`` or ``ANY`` for a model, and for ``NOT`` the reason; ``sizes`` are those of
    ``memory.share``."""
    kinds = {type(part) for part in _parts(make_prompt_cache(model))}
    foreign = sorted(kind.__name__ for kind in kinds - {KVCache, RotatingKVCache, ArraysCache})
    if foreign:
        return NOT, f"what it has read is kept as {foreign[0]}, which cannot be shared"
    if sizes is None:
        return NOT, "mlx-lm cannot tell without computing how much memory a prompt takes"
    if len(sizes) > SIZES_MAX:
        return NOT, f"its layers keep tokens for more than {SIZES_MAX} different lengths"
    return (ANY if kinds <= {KVCache} else EXACT), ""


def _parts(cache: Iterable[Any]) -> list[Any]:
    found = []
    for part in cache:
        found += _parts(part.caches) if isinstance(part, CacheList) else [part]
    return found


def first_part(cache: Sequence[Any], dropped: int) -> Cache:
    """Return a cache without its last tokens, which shares its arrays. Only where any first part can be reused."""
    if not dropped:
        return list(cache)
    shorter = []
    for part in cache:
        part = copy.copy(part)
        if isinstance(part, CacheList):
            part.caches = tuple(first_part(part.caches, dropped))
        else:
            part.trim(dropped)
        shorter.append(part)
    return shorter


def keep(cache: Sequence[Any]) -> Cache:
    """Begin to copy a cache that was taken out of a batch, so that it holds no more memory than its own."""
    mx.async_eval([_own(part) for part in _parts(cache)])  # type: ignore[no-untyped-call]
    return list(cache)


def _own(part: Any) -> list[Any]:
    """Replace views into a batch's arrays by arrays; return these."""
    if isinstance(part, ArraysCache):
        part.cache = [mx.contiguous(array) for array in part.cache]
        return list(part.cache)
    if isinstance(part, RotatingKVCache):
        first, end = max(0, part.keys.shape[2] - part.max_size), part.keys.shape[2]
        part._idx = end - first  # after a long chunk it has more than will be looked at again
    else:
        first, end = 0, part.offset
    part.keys = mx.contiguous(part.keys[..., first:end, :])
    part.values = mx.contiguous(part.values[..., first:end, :])
    return [part.keys, part.values]
