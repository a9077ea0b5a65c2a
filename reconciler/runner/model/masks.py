"""Which tokens may come next, as bits that are written without MLX and as an array that it computes with."""

from __future__ import annotations

from typing import Any

import mlx.core as mx
import numpy as np

WORD_BITS = 32


def words_of(rows: int, vocabulary: int) -> Any:
    """Return a bit for each token of several sequences, all set: an array of ``int32``, a row for each sequence."""
    return np.full((rows, -(-vocabulary // WORD_BITS)), -1, dtype=np.int32)


def allowed_of(words: Any, vocabulary: int) -> Any:
    """Return an array of booleans, a row for each sequence, from such bits."""
    bits = np.unpackbits(words.view(np.uint8), axis=-1, count=vocabulary, bitorder="little")
    return mx.array(bits.view(np.bool_))
