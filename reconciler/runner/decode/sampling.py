"""Which token comes next: equal on every rank of a group, and the same again when an answer is resumed."""

from __future__ import annotations

import hashlib
import math
from typing import Any

import mlx.core as mx

from reconciler.runner.model.agreed_batch import Sampler
from reconciler.wire.sampling import Sampling

GREEDY_BELOW = 1e-5
"""A temperature or ``top_p`` below this leaves nothing but the likeliest token, and floats no room."""


class Agreement:
    """Makes rank 0's token every rank's token.

    Floating point may differ between machines, and one different token would be a different answer. All
    ranks give theirs, so that this collective comes after the step's others in every rank's graph; rank 0's
    are the first rows of what each of them gets. Gathering takes half the way of a sum around the ring.
    """

    def __init__(self, group: Any, vocabulary: int) -> None:
        """``group`` is an ``mx.distributed.Group``, or None for a rank alone; ids are below ``vocabulary``."""
        self._group = group
        self._vocabulary = vocabulary

    def on(self, tokens: Any) -> Any:
        """Return the tokens that rank 0 chose, one per row."""
        tokens = tokens.astype(mx.uint32)
        if self._group is None:
            return tokens
        gathered = mx.distributed.all_gather(tokens, group=self._group)[: tokens.shape[0]]
        return known_ids(gathered, self._vocabulary)


def known_ids(tokens: Any, vocabulary: int) -> Any:
    """Map any ``uint32`` to a valid id.

    A collective that fails because a peer is gone leaves arbitrary memory, and later operations run before the error is
    raised (``mlx/distributed/ring/ring.cpp``). Nothing in MLX checks indices, so the rank would crash instead of
    reporting that its peer is gone.
    """
    return mx.minimum(tokens, vocabulary - 1)


def keep_likely(logprobs: Any, top_p: float, top_k: int, min_p: float) -> Any:
    """Return log-probabilities without unlikely tokens, like ``mlx_lm``'s samplers.

    Theirs are compiled again for every value of a parameter, which clients choose; this one is never compiled. Tokens
    as likely as the last kept one are kept too.
    """
    length = logprobs.shape[-1]
    least = mx.array(-math.inf)
    if min_p > 0:
        least = mx.max(logprobs, axis=-1, keepdims=True) + math.log(min_p)
    by_mass, by_count = top_p < 1, 0 < top_k < length
    if by_mass or by_count:
        ordered = mx.sort(logprobs, axis=-1)
    if by_mass:
        mass = mx.exp(ordered)
        above = mx.cumsum(mass, axis=-1, reverse=True, inclusive=False)
        dropped = (above >= top_p * mx.sum(mass, axis=-1, keepdims=True)).sum(axis=-1, keepdims=True)
        least = mx.maximum(least, mx.take_along_axis(ordered, dropped, axis=-1))
    if by_count:
        least = mx.maximum(least, ordered[..., length - top_k, None])
    return mx.where(logprobs < least, -math.inf, logprobs)


def sampler(sampling: Sampling, position: int) -> Sampler:
    """Return the sampler of one sequence. ``position`` is the number of tokens that the answer already has.

    Greedy sequences share one sampler, which then decides a batch at once.
    """
    greedy = min(sampling.temperature, sampling.top_p) < GREEDY_BELOW
    return _greedy if greedy else _Drawn(sampling, position)


def _greedy(logprobs: Any) -> Any:
    return mx.argmax(logprobs, axis=-1)


class _Drawn:
    """Draws each token with a key made of the seed and the token's place in the answer, and nothing else."""

    def __init__(self, sampling: Sampling, position: int) -> None:
        self._sampling = sampling
        self._position = position

    def __call__(self, logprobs: Any) -> Any:
        sampling = self._sampling
        # A model's half precision ends at 65504, which a small temperature leaves behind.
        likely = keep_likely(logprobs.astype(mx.float32), sampling.top_p, sampling.top_k, sampling.min_p)
        key = mx.random.key(_key(sampling.seed, self._position))
        self._position += 1
        return mx.random.categorical(likely * (1 / sampling.temperature), key=key)


def _key(seed: int, position: int) -> int:
    return int.from_bytes(hashlib.blake2b(f"{seed}:{position}".encode(), digest_size=8).digest(), "big")
