"""Computes the memory that a rank will need, from a model without reading its tensors.

MLX is lazy: arrays know their shapes and types before anything is computed, and so do the parts that ``shard`` and
``pipeline`` leave to a rank and the caches that a forward pass would fill. Nothing here is computed.

Written against mlx 0.32.4 and mlx-lm 0.32.2.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import mlx.core as mx
from mlx.utils import tree_flatten
from mlx_lm.models.cache import make_prompt_cache

from .adapter import FOREIGN_ERRORS

SHORT, LONG = 256, 512
"""Lengths at which caches are compared: they grow in steps of 256 tokens (``KVCache.step``)."""
VALUES = (0, 1)
"""Answers to a model that asks for a value, such as the number of an expert. Its cache must have the same size for
both."""
ASKED_MAX = 10_000
"""Values that a model may ask for. A model that asks until the answer changes would never end."""
OWN_MODULES = "mlx_lm."
"""Modules whose code may be told any value. Code that comes with weights may end its process because of one."""


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
    except FOREIGN_ERRORS:  # a forward pass that cannot do without values
        return {"weights_bytes": held}


def _cache(model: Any) -> list[list[int]]:
    """Return pairs of tokens and bytes per token: the bytes for each token of a sequence, up to that number of tokens
    (0: all). Raises ``ValueError`` where they depend on values, or as the model does."""
    told = type(model).__module__.startswith(OWN_MODULES)
    with _uncomputed(VALUES[0] if told else None) as asked:
        found = _sizes(model)
    if asked:
        with _uncomputed(VALUES[1]):
            if _sizes(model) != found:
                raise ValueError("how much it keeps depends on what it computes")
    return found


def _sizes(model: Any) -> list[list[int]]:
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


_CONVERSIONS = {"item": int, "__bool__": bool, "__int__": int, "__index__": int, "__float__": float}
"""Methods of an array that compute its value, and the type of that."""


def _nested(shape: Sequence[int], value: int) -> Any:
    return [_nested(shape[1:], value) for _ in range(shape[0])] if shape else value


def _blank(shape: Any, dtype: Any, *_: Any, **__: Any) -> Any:
    return mx.zeros(shape, dtype)


def _gathered(array: Any, *_: Any, group: Any = None, **__: Any) -> Any:
    """Return what all ranks would give, along the first axis; stages of a pipeline name no group, and use what one gave."""
    return mx.concatenate([array] * (group.size() if group is not None else 1), axis=0)


_COLLECTIVES: dict[str, Callable[..., Any]] = {
    "all_sum": _same,
    "all_gather": _gathered,
    "send": _same,
    "recv_like": _same,
    "recv": _blank,
}


@contextmanager
def _uncomputed(value: int | None) -> Iterator[list[str]]:
    """Replace collectives by functions that keep shapes and communicate with nobody, and functions that compute values by
    ones that compute nothing and say ``value``; without one they raise ``RuntimeError``. Yield a list that grows with each
    value that is asked for."""
    asked: list[str] = []

    def answer(name: str) -> int:
        asked.append(name)
        if value is None or len(asked) > ASKED_MAX:
            raise RuntimeError("this would compute with the weights")
        return value

    def said(name: str, kind: type) -> Callable[[Any], Any]:
        return lambda _: kind(answer(name))

    def listed(array: Any) -> Any:
        return _nested(array.shape, answer("tolist"))

    def nothing(*_: Any, **__: Any) -> None:
        """Compute nothing: nobody needs it."""

    changes: list[_Change] = [
        (mx, "eval", nothing),
        (mx, "async_eval", nothing),
        (mx.array, "tolist", listed),
    ]
    changes += [(mx.array, name, said(name, kind)) for name, kind in _CONVERSIONS.items()]
    with uncommunicated(), replaced(changes):
        yield asked


def uncommunicated() -> AbstractContextManager[None]:
    """Replace collectives by functions that keep shapes and communicate with nobody."""
    return replaced([(mx.distributed, name, stand_in) for name, stand_in in _COLLECTIVES.items()])


_Change = tuple[Any, str, Any]
"""An owner, the name of something that it has, and what it has meanwhile."""


@contextmanager
def replaced(changes: Sequence[_Change]) -> Iterator[None]:
    """Change parts of foreign modules for a while."""
    before = [(owner, name, getattr(owner, name)) for owner, name, _ in changes]
    try:
        for owner, name, stand_in in changes:
            setattr(owner, name, stand_in)
        yield
    finally:
        for owner, name, original in before:
            setattr(owner, name, original)
