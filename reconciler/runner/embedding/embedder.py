"""Vectors of texts: the model's last hidden states, made one, cut and normalized.

Written against mlx-lm 0.32.2, whose models compute the hidden states in ``model.model``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import mlx.core as mx
from mlx_lm.models.cache import make_prompt_cache

from reconciler.runner.model.adapter import FOREIGN_ERRORS
from reconciler.runner.model.files import invalid_weights
from reconciler.runner.model.loading import first_line
from reconciler.wire.question import Pool, Pooling

PART_TOKENS = 2048
"""A longer text is read in parts of so many tokens, and alone."""
LENGTH_MIN = 1e-12
"""sentence-transformers divides by no less."""


class Embedder:
    """A model for embeddings. Attention is causal, so that what pads a text at its end changes nothing of it."""

    def __init__(self, model: Any, pooling: Pooling, size: int | None) -> None:
        """``size``: the ``hidden_size`` of its ``config.json``. Raises ``RankEnd(WEIGHTS)`` if the model shows no hidden
        states."""
        self._model = model
        self._pooling = pooling
        self.size = self._checked(size)
        """Numbers of a vector."""

    def vectors(self, texts: Sequence[tuple[int, ...]], dimensions: Sequence[int | None]) -> list[bytes]:
        """Return the vector of each text of token ids, as 32-bit numbers, the lowest byte first.

        ``dimensions``: how many numbers of each are wanted. Raises MLX's errors.
        """
        if len(texts) == 1 and len(texts[0]) > PART_TOKENS:
            pooled = self._in_parts(texts[0])
        else:
            pooled = self._together(texts)
        found: list[Any] = [
            self._finished(vector, wanted) for vector, wanted in zip(pooled, dimensions, strict=True)
        ]
        mx.eval(found)
        return [bytes(memoryview(vector)) for vector in found]

    def _checked(self, expected: int | None) -> int:
        try:
            shape = self._model.model(mx.array([[0, 0]])).shape
            if expected is not None and shape == (1, 2, expected):
                return expected
            problem = f"its inner model gives numbers of shape {shape}, its hidden_size is {expected}"
        except FOREIGN_ERRORS as error:
            problem = first_line(error)
        raise invalid_weights(
            f"mlx-lm shows no hidden states of this model, of which vectors are made: {problem}"
        )

    def _together(self, texts: Sequence[tuple[int, ...]]) -> Any:
        width = max(map(len, texts))
        hidden = self._model.model(mx.array([text + (0,) * (width - len(text)) for text in texts]))
        lengths = mx.array([len(text) for text in texts])
        if self._pooling.pool == Pool.FIRST:
            return hidden[:, 0]
        if self._pooling.pool == Pool.LAST:
            return hidden[mx.arange(len(texts)), lengths - 1]
        inside = mx.arange(width)[None] < lengths[:, None]
        total = mx.where(inside[..., None], hidden.astype(mx.float32), 0.0).sum(axis=1)
        return total / lengths[:, None]

    def _in_parts(self, text: tuple[int, ...]) -> Any:
        cache = make_prompt_cache(self._model)
        total: Any = None
        for at in range(0, len(text), PART_TOKENS):
            hidden = self._model.model(mx.array([text[at : at + PART_TOKENS]]), cache)
            if self._pooling.pool == Pool.MEAN:
                part = hidden.astype(mx.float32).sum(axis=1)
                total = part if total is None else total + part
            elif self._pooling.pool == Pool.LAST:
                total = hidden[:, -1]
            else:
                total = hidden[:, 0] if total is None else total
            mx.eval(total, [kept.state for kept in cache])
        return total / len(text) if self._pooling.pool == Pool.MEAN else total

    def _finished(self, vector: Any, dimensions: int | None) -> Any:
        vector = vector.astype(mx.float32)[: dimensions or self.size]
        if self._pooling.normalize:
            vector = vector / mx.maximum(mx.linalg.norm(vector), LENGTH_MIN)
        return mx.contiguous(vector)
