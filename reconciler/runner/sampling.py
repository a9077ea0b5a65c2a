"""Which token comes next: equal on every rank of a group, and the same again when an answer is resumed."""

from __future__ import annotations

import hashlib
from typing import Any

import mlx.core as mx

from reconciler.wire.generation import Sampling

from .adapter import Sampler, keep_likely

GREEDY_BELOW = 1e-5
"""Temperatures below this are greedy: their inverse would overflow in half precision."""


class Agreement:
    """Makes rank 0's token every rank's token.

    Floating point may differ between machines, and one different token would be a different answer. The
    tokens of other ranks count as zero in a sum; they still take part in it, so that the sum comes after
    this step's other collectives in every rank's graph.
    """

    def __init__(self, group: Any) -> None:
        """``group`` is an ``mx.distributed.Group``, or None for a rank alone."""
        self._group = group
        self._weight = 1 if group is None or group.rank() == 0 else 0

    def on(self, tokens: Any) -> Any:
        """Tokens, one per row, as rank 0 chose them."""
        tokens = tokens.astype(mx.int32)
        if self._group is None:
            return tokens
        return mx.distributed.all_sum(tokens * self._weight, group=self._group)


class Samplers:
    """A sampler for each sequence; greedy ones share one, which then decides a whole batch at once."""

    def __init__(self, agreement: Agreement) -> None:
        self._agreement = agreement
        self._greedy: Sampler = lambda logprobs: agreement.on(mx.argmax(logprobs, axis=-1))

    def sampler(self, sampling: Sampling, position: int) -> Sampler:
        """``position`` is how many tokens of the answer there are already."""
        if sampling.temperature < GREEDY_BELOW:
            return self._greedy
        return _Drawn(sampling, position, self._agreement)


class _Drawn:
    """Draws each token with a key made of the seed and the token's place in the answer, and nothing else."""

    def __init__(self, sampling: Sampling, position: int, agreement: Agreement) -> None:
        self._sampling = sampling
        self._position = position
        self._agreement = agreement

    def __call__(self, logprobs: Any) -> Any:
        wish = self._sampling
        likely = keep_likely(logprobs, wish.top_p, wish.top_k, wish.min_p)
        key = mx.random.key(_key(wish.seed, self._position))
        self._position += 1
        return self._agreement.on(mx.random.categorical(likely * (1 / wish.temperature), key=key))


def _key(seed: int, position: int) -> int:
    return int.from_bytes(hashlib.blake2b(f"{seed}:{position}".encode(), digest_size=8).digest(), "big")
