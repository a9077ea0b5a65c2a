"""The reading of a long prompt by a model, to compare two ways in which its ranks exchange arrays.

Garbage above some 2,000 to 4,500 tokens was reported of groups over RDMA, deterministic and with clean short answers
(github.com/ml-explore/mlx/issues/4342). A short completion does not show that.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Sequence
from typing import Any

import mlx.core as mx
from mlx.utils import tree_flatten
from mlx_lm.generate import generation_stream
from mlx_lm.models.cache import make_prompt_cache

from reconciler.wire.launch import PIECE_TOKENS_MAX

from .adapter import Loaded

TOKENS = 4_864
"""Above the lengths that were reported, and no multiple of ``PIECE_TOKENS_MAX``: the last piece is a short one."""
DEVIATION_MAX = 0.25
"""``deviation`` above which two readings are not the same. ``docs/faults.md`` says what was measured."""
EVERY = 16
"""Of the tokens in the cache, one of so many is kept for the comparison."""
OUTLIERS = 1 / 3
"""The part of the tokens that may differ more. Rounding decides which expert reads a token, where two are about equally
good for it, so that a few tokens differ entirely though both readings are right."""
SINGLE = 16
"""Tokens at the end that are read one at a time, as a model reads what it has said."""


@dataclasses.dataclass
class Reading:
    """The results of reading a prompt. All arrays are of ``float32``."""

    kept: list[list[mx.array]] = dataclasses.field(default_factory=list)
    """For each piece, a sample of each array in the cache."""
    rows: list[mx.array] = dataclasses.field(default_factory=list)
    """For each of the last tokens, the log-probabilities of the one that comes next."""


def tokens(loaded: Loaded, context: int) -> list[int]:
    """Return the prompt: text without an end, cut off where ``TOKENS`` or the context end."""
    length = min(TOKENS, context - 1)
    found: list[int] = []
    for first in itertools.count(step=500):
        text = " ".join(
            f"The square of {number} is {number * number}." for number in range(first, first + 500)
        )
        found += loaded.tokenizer.plain(text)
        if len(found) >= length:
            return found[:length]
    raise AssertionError("there is always more text")


def read(
    loaded: Loaded, prompt: Sequence[int], going_on: Callable[[], None], piece_tokens: int = PIECE_TOKENS_MAX
) -> Reading:
    """Read a prompt in pieces as long as those of any request. ``going_on`` is called after each. Raises MLX's errors."""
    reading = Reading()
    pieces, singles = prompt[:-SINGLE], prompt[-SINGLE:]
    with mx.stream(generation_stream):
        cache = make_prompt_cache(loaded.model)
        for start in range(0, len(pieces), piece_tokens):
            piece = pieces[start : start + piece_tokens]
            loaded.model(mx.array([piece]), cache=cache)
            reading.kept.append(_sample(cache, len(piece)))
            mx.eval([part.state for part in cache], reading.kept)
            going_on()
        for token in singles:
            logits = loaded.model(mx.array([[token]]), cache=cache)[0, -1].astype(mx.float32)
            reading.rows.append(logits - mx.logsumexp(logits))
            mx.eval(reading.rows)
        going_on()
    return reading


def _sample(cache: list[Any], length: int) -> list[mx.array]:
    leaves: Any = tree_flatten([part.state for part in cache])
    arrays = [
        leaf for _, leaf in leaves if isinstance(leaf, mx.array) and mx.issubdtype(leaf.dtype, mx.floating)
    ]
    newest = [leaf[..., -length::EVERY, :] if leaf.ndim == 4 else leaf for leaf in arrays]
    return [mx.contiguous(leaf.astype(mx.float32)) for leaf in newest if leaf.size]


def deviation(found: Reading, expected: Reading) -> float:
    """Return how far apart two readings are, as a part of the size of the expected numbers.

    All but ``OUTLIERS`` of the vectors are within this distance, in each array of the cache and in the rows. Readings that have
    nothing to do with each other are 1.4 apart or more."""
    parts = [
        _apart(array, other, other)
        for arrays, others in zip(found.kept, expected.kept, strict=True)
        for array, other in zip(arrays, others, strict=True)
    ]
    rows, others = mx.stack(found.rows), mx.stack(expected.rows)
    parts.append(_apart(rows, others, others - mx.mean(others, axis=-1, keepdims=True)))
    worst: Any = mx.max(mx.stack(parts)).item()
    return worst if worst == worst else float("inf")  # not a number


def _apart(found: mx.array, expected: mx.array, size: mx.array) -> mx.array:
    """Vectors lie along the last axis. Each distance is a part of how long the vectors of ``size`` are."""
    distances = mx.sort(mx.sqrt(mx.sum((found - expected) ** 2, axis=-1)).reshape(-1))
    usual = mx.sqrt(mx.mean(mx.sum(size**2, axis=-1)))
    return distances[int((1 - OUTLIERS) * (distances.size - 1))] / mx.maximum(usual, 1e-15)
