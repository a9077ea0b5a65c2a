"""Vectors beside a plain computation of the same: one text at a time, with numpy after the model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
import pytest
from mlx_lm.utils import load

from reconciler.runner.embedding import embedder as embedder_module
from reconciler.runner.embedding.embedder import Embedder
from reconciler.wire.launch import RankEnd
from reconciler.wire.question import Pool, Pooling

TEXTS = [tuple(range(5, 5 + length)) for length in (1, 9, 3, 40, 2)]


@pytest.fixture(scope="module")
def model(endless: Path) -> Any:
    return load(str(endless))[0]


def plainly(model: Any, text: tuple[int, ...], pooling: Pooling, dimensions: int | None = None) -> Any:
    hidden = np.array(model.model(mx.array([text]))[0].astype(mx.float32))
    pooled = {Pool.LAST: hidden[-1], Pool.MEAN: hidden.mean(axis=0), Pool.FIRST: hidden[0]}[pooling.pool]
    cut = pooled[:dimensions]
    return cut / np.linalg.norm(cut) if pooling.normalize else cut


@pytest.mark.parametrize("pool", Pool.ALL)
@pytest.mark.parametrize("normalize", [True, False])
@pytest.mark.parametrize("part", [2048, 16])
def test_texts_that_are_read_together_or_in_parts_have_the_vectors_of_each_alone(
    model: Any, monkeypatch: pytest.MonkeyPatch, pool: str, normalize: bool, part: int
) -> None:
    monkeypatch.setattr(embedder_module, "PART_TOKENS", part)
    pooling = Pooling(pool, normalize)
    embedder = Embedder(model, pooling, model.args.hidden_size)
    found = [np.frombuffer(vector, "<f4") for vector in embedder.vectors(TEXTS, [None] * len(TEXTS))]
    found += [np.frombuffer(embedder.vectors([text], [None])[0], "<f4") for text in TEXTS]
    for vector, text in zip(found, TEXTS * 2, strict=True):
        assert vector.shape == (embedder.size,)
        np.testing.assert_allclose(vector, plainly(model, text, pooling), rtol=2e-3, atol=2e-3)


def test_fewer_numbers_are_the_first_ones_at_length_one(model: Any) -> None:
    embedder = Embedder(model, Pooling(), model.args.hidden_size)
    (short, whole) = embedder.vectors([TEXTS[1]] * 2, [8, None])
    vector = np.frombuffer(short, "<f4")
    np.testing.assert_allclose(vector, plainly(model, TEXTS[1], Pooling(), 8), rtol=2e-3, atol=2e-3)
    assert (len(vector), len(whole)) == (8, 4 * embedder.size)
    assert np.linalg.norm(vector) == pytest.approx(1, abs=1e-5)


def test_a_model_without_hidden_states_is_refused(model: Any) -> None:
    class Closed:
        def __call__(self, tokens: Any) -> Any:
            return model(tokens)

    with pytest.raises(RankEnd, match="shows no hidden states"):
        Embedder(Closed(), Pooling(), 32)
