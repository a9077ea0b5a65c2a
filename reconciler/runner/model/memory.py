"""Computes the memory that a rank will need, from a model without reading its tensors.

MLX is lazy: arrays know their shapes and types before anything is computed, and so do the parts that ``shard`` and
``pipeline`` leave to a rank and the caches that a forward pass would fill. Nothing here is computed.

Written against mlx 0.32.4 and mlx-lm 0.32.2.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import mlx.core as mx
from mlx.utils import tree_flatten
from mlx_lm.models.cache import make_prompt_cache

from .adapter import FOREIGN_ERRORS

SHORT, LONG = 256, 512
"""Lengths at which caches are compared: they grow in steps of 256 tokens (``KVCache.step``)."""
_COMPUTING = ((mx, "eval"), (mx, "async_eval"), (mx.array, "item"), (mx.array, "tolist"))


class Size:
    """The part of an ``mx.distributed.Group`` that ``shard``, ``pipeline`` and layers use without computing."""

    def __init__(self, ranks: int, rank: int = 0) -> None:
        self._ranks, self._rank = ranks, rank

    def size(self) -> int:
        return self._ranks

    def rank(self) -> int:
        return self._rank


def share(model: Any) -> dict[str, Any]:
    """Return ``wire.node.RankShare`` as plain values, for a model after ``shard`` or ``pipeline``."""
    held = sum(array.nbytes for _, array in tree_flatten(model.parameters()))
    try:
        return {"weights_bytes": held, "cache": _cache(model)}
    except (
        FOREIGN_ERRORS
    ):  # a forward pass that cannot do without values: the model's shape alone has to tell
        return {"weights_bytes": held}


def _cache(model: Any) -> list[list[int]]:
    """Return pairs of tokens and bytes per token: the bytes for each token of a sequence, up to that number of tokens
    (0: all)."""
    with _uncomputed():
        short, long = _filled(model, SHORT), _filled(model, LONG)
    sizes: Counter[int] = Counter()
    for before, after in zip(short, long, strict=True):
        per_token = math.ceil((after.nbytes - before.nbytes) / (LONG - SHORT))
        sizes[_tokens_max(after)] += per_token
        sizes[1] += max(0, before.nbytes - per_token * SHORT)  # as states are that do not grow
    return [[tokens, size] for tokens, size in sorted(sizes.items()) if size]


def _filled(model: Any, tokens: int) -> list[Any]:
    """Return the parts of a cache that has seen ``tokens`` tokens of one sequence."""
    caches = make_prompt_cache(model)
    model(mx.zeros((1, tokens), dtype=mx.int32), cache=caches)
    return [part for cache in caches for part in getattr(cache, "caches", (cache,))]


def _tokens_max(cache: Any) -> int:
    """Return the number of tokens that a cache keeps; 0 if it keeps all."""
    tokens = getattr(cache, "max_size", None)
    return tokens if type(tokens) is int and tokens > 0 else 0


def _same(array: Any, *_: Any, **__: Any) -> Any:
    return array


def _blank(shape: Any, dtype: Any, *_: Any, **__: Any) -> Any:
    return mx.zeros(shape, dtype)


_COLLECTIVES: dict[str, Callable[..., Any]] = {
    "all_sum": _same,
    "all_gather": _same,  # of what it gives, layers use as much as they gave
    "send": _same,
    "recv_like": _same,
    "recv": _blank,
}


def _refuse(*_: Any, **__: Any) -> Any:
    raise RuntimeError("this would compute with the weights")


@contextmanager
def _uncomputed() -> Iterator[None]:
    """Replace collectives by functions that keep shapes and communicate with nobody; computing values is refused."""
    changes: list[tuple[Any, str, Any]] = [
        (mx.distributed, name, stand_in) for name, stand_in in _COLLECTIVES.items()
    ]
    changes += [(owner, name, _refuse) for owner, name in _COMPUTING]
    before = [(owner, name, getattr(owner, name)) for owner, name, _ in changes]
    try:
        for owner, name, stand_in in changes:
            setattr(owner, name, stand_in)
        yield
    finally:
        for owner, name, original in before:
            setattr(owner, name, original)
