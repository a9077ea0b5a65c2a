"""Weights as sentence-transformers writes them: without the outer name, and without a head."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
import pytest
from mlx_lm.utils import load, load_model

from reconciler.runner.embedding.embedder import Embedder
from reconciler.runner.embedding.weights import classes, expected
from reconciler.runner.examination import examine
from reconciler.runner.model.files import inspect
from reconciler.runner.model.loading import load_shard
from reconciler.runner.rank import _names_expected
from reconciler.wire.launch import ExitCode, RankEnd, RopeKind, RopeScaling
from reconciler.wire.question import Pooling
from tests.runner.conftest import change_json

from .models import lay_out

TEXT = tuple(range(5, 20))


@pytest.fixture
def headless(endless: Path, tmp_path: Path) -> Path:
    """The same weights with the names of the inner model alone."""
    directory = Path(shutil.copytree(endless, tmp_path / "model"))
    weights: Any = mx.load(str(directory / "model.safetensors"))
    inner = {name.removeprefix("model."): array for name, array in weights.items() if "lm_head" not in name}
    mx.save_safetensors(str(directory / "model.safetensors"), inner, metadata={"format": "mlx"})
    return directory


def vector(model: Any) -> Any:
    (found,) = Embedder(model, Pooling(), model.args.hidden_size).vectors([TEXT], [None])
    return np.frombuffer(found, "<f4")


@pytest.mark.parametrize("tied", [True, False])
def test_they_make_the_vectors_of_the_whole_model(endless: Path, headless: Path, tied: bool) -> None:
    change_json(headless / "config.json", tie_word_embeddings=tied)
    model, _ = load_model(headless, get_model_classes=classes)
    np.testing.assert_allclose(vector(model), vector(load(str(endless))[0]), rtol=1e-5, atol=1e-5)


def test_a_rank_that_generates_does_not_take_them(headless: Path) -> None:
    files = inspect(str(headless))
    with _names_expected(embeds=True):
        load_shard(files, None, "tensor", trust_remote_code=False)
    with _names_expected(embeds=False), pytest.raises(RankEnd) as end:
        load_shard(files, None, "tensor", trust_remote_code=False)
    assert end.value.code == ExitCode.WEIGHTS


def test_so_they_do_with_scaled_positions(headless: Path) -> None:
    scaling = RopeScaling(RopeKind.LINEAR, 4.0, 1024)
    with expected():
        scaled = load_shard(inspect(str(headless)), None, "tensor", False, scaling).model
    change_json(headless / "config.json", rope_scaling={"type": "linear", "factor": 4.0})
    plain, _ = load_model(headless, get_model_classes=classes)
    np.testing.assert_allclose(vector(scaled), vector(plain), rtol=1e-5, atol=1e-5)


def test_weights_with_all_names_are_loaded_as_ever(endless: Path) -> None:
    model, _ = load_model(endless, get_model_classes=classes)
    plain = load(str(endless))[0]
    np.testing.assert_array_equal(np.array(model(mx.array([TEXT]))), np.array(plain(mx.array([TEXT]))))


def test_a_node_finds_that_they_can_be_served_on_one_node(headless: Path) -> None:
    change_json(headless / "config.json", tie_word_embeddings=False)
    found = examine(lay_out(headless))
    assert "problem" not in found
    assert set(found["unsplittable"]) == {"tensor", "pipeline"}
    assert found["unsplittable"]["tensor"] == "a model for embeddings runs on one node"
    assert found["embeds"] is True
    assert (found["reuse"], found["reread"]) == (
        "none",
        "a model for embeddings keeps nothing of one text for the next",
    )


def test_it_finds_so_of_weights_that_only_lack_a_head_and_refuses_the_names_of_no_layout(
    endless: Path, headless: Path, tmp_path: Path
) -> None:
    converted = Path(shutil.copytree(endless, tmp_path / "converted"))
    weights: Any = mx.load(str(converted / "model.safetensors"))
    kept = {name: array for name, array in weights.items() if "lm_head" not in name}
    mx.save_safetensors(str(converted / "model.safetensors"), kept, metadata={"format": "mlx"})
    change_json(converted / "config.json", tie_word_embeddings=False)
    assert "problem" not in examine(converted)
    assert "not in model" in examine(headless)["problem"]


def test_an_encoder_is_refused_by_its_name(headless: Path) -> None:
    change_json(headless / "config.json", model_type="bert")
    assert (
        examine(lay_out(headless))["problem"] == "the installed mlx-lm does not know the architecture 'bert'"
    )
