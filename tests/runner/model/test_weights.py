"""Weights that cannot be served are refused in one clear sentence, before anything expensive."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mlx.core as mx
import pytest
from mlx.utils import tree_flatten
from mlx_lm.models import llama4

from reconciler.runner.model.files import check_division, inspect
from reconciler.runner.model.loading import load_shard
from reconciler.wire.launch import ExitCode, RankEnd
from reconciler.wire.sampling import SamplingDefaults
from tests.runner.conftest import change_json
from tests.runner.ranks import running

CHUNKED: dict[str, Any] = {
    "model_type": "llama4",
    "text_config": {
        "attention_bias": False,
        "attention_chunk_size": 128,
        "head_dim": 16,
        "hidden_size": 32,
        "interleave_moe_layer_step": 1,
        "intermediate_size": 32,
        "intermediate_size_mlp": 32,
        "max_position_embeddings": 256,
        "model_type": "llama4_text",
        "num_attention_heads": 2,
        "num_experts_per_tok": 1,
        "num_hidden_layers": 1,
        "num_key_value_heads": 2,
        "num_local_experts": 2,
        "rms_norm_eps": 1e-6,
        "rope_scaling": None,
        "rope_theta": 10000.0,
        "use_qk_norm": False,
        "vocab_size": 304,
    },
}
"""An architecture whose caches cannot be merged."""


def remove_config(model: Path) -> None:
    (model / "config.json").unlink()


def break_config(model: Path) -> None:
    (model / "config.json").write_text("{")


def remove_weights(model: Path) -> None:
    (model / "model.safetensors").unlink()


def cut_weights(model: Path) -> None:
    file = model / "model.safetensors"
    file.write_bytes(file.read_bytes()[:-100])


def cut_header(model: Path) -> None:
    (model / "model.safetensors").write_bytes(b"\x10")


def lose_a_shard(model: Path) -> None:
    index = {"weight_map": {"a": "model.safetensors", "b": "model-00002-of-00002.safetensors"}}
    (model / "model.safetensors.index.json").write_text(json.dumps(index))


def lose_an_offset(model: Path) -> None:
    header = json.dumps({"a": {"dtype": "F32", "shape": [1]}}).encode()
    (model / "model.safetensors").write_bytes(struct.pack("<Q", len(header)) + header)


@pytest.mark.parametrize(
    ("damage", "sentence"),
    [
        (remove_config, "cannot read .*config.json"),
        (break_config, "config.json is not JSON"),
        (remove_weights, "it has no model.*safetensors files"),
        (cut_weights, "model.safetensors is cut short: "),
        (cut_header, "model.safetensors is not a safetensors file"),
        (lose_an_offset, "its header cannot be read"),
        (lose_a_shard, "model-00002-of-00002.safetensors is missing"),
    ],
)
def test_damaged_files_are_found_before_loading(
    copy: Path, damage: Callable[[Path], None], sentence: str
) -> None:
    damage(copy)
    with pytest.raises(RankEnd, match=sentence) as end:
        inspect(str(copy))
    assert end.value.code == ExitCode.WEIGHTS


@pytest.mark.parametrize("kind", ["perceptron", "out of memory"])
def test_an_unknown_architecture_is_named_whatever_it_says(copy: Path, kind: str) -> None:
    """The second one's name is what MLX says where a node has too little memory."""
    change_json(copy / "config.json", model_type=kind)
    with pytest.raises(RankEnd, match=kind) as end:
        load_shard(inspect(str(copy)), None, "tensor", trust_remote_code=False)
    assert end.value.code == ExitCode.WEIGHTS


def test_code_that_comes_with_weights_is_run_only_where_it_is_trusted(copy: Path) -> None:
    ran = copy / "ran"
    code = f"import pathlib\nfrom mlx_lm.models.qwen3 import *\npathlib.Path({str(ran)!r}).touch()\n"
    (copy / "own.py").write_text(code)
    change_json(copy / "config.json", model_file="own.py")
    with pytest.raises(RankEnd, match="trust_remote_code") as end:
        load_shard(inspect(str(copy)), None, "tensor", trust_remote_code=False)
    assert (end.value.code, ran.exists()) == (ExitCode.WEIGHTS, False)
    load_shard(inspect(str(copy)), None, "tensor", trust_remote_code=True)
    assert ran.exists()


def test_a_model_is_loaded_with_its_own_way_to_choose_tokens(copy: Path) -> None:
    (copy / "generation_config.json").write_text(json.dumps({"temperature": 0.6, "top_k": 20}))
    loaded = load_shard(inspect(str(copy)), None, "tensor", trust_remote_code=False)
    assert loaded.sampling == SamplingDefaults(temperature=0.6, top_k=20)


def test_a_model_whose_requests_cannot_be_batched_is_refused(copy: Path) -> None:
    (copy / "config.json").write_text(json.dumps(CHUNKED))
    model = llama4.Model(llama4.ModelArgs.from_dict(CHUNKED))
    weights = dict(tree_flatten(model.parameters()))
    mx.save_safetensors(str(copy / "model.safetensors"), weights, metadata={"format": "mlx"})
    with pytest.raises(RankEnd, match="cannot answer several requests of llama4 models together") as end:
        load_shard(inspect(str(copy)), None, "tensor", trust_remote_code=False)
    assert end.value.code == ExitCode.WEIGHTS


@pytest.mark.parametrize("nested", [None, []])
def test_a_config_with_an_empty_text_model_is_refused_as_such(copy: Path, nested: object) -> None:
    change_json(copy / "config.json", vocab_size=None, text_config=nested)
    check_division(inspect(str(copy)), 2)
    with pytest.raises(RankEnd, match="cannot load") as end:
        load_shard(inspect(str(copy)), None, "tensor", trust_remote_code=False)
    assert end.value.code == ExitCode.WEIGHTS


def test_heads_that_do_not_divide_are_named(endless: Path) -> None:
    with pytest.raises(RankEnd, match="cannot shard 8 attention heads across 3 ranks"):
        check_division(inspect(str(endless)), 3)


def test_a_rank_says_what_is_wrong_with_its_weights_and_exits_with_a_status_of_its_own(copy: Path) -> None:
    cut_weights(copy)
    with running(copy, 1) as group:
        rank = group.ranks[0]
        assert rank.exit_code() == ExitCode.WEIGHTS
        assert "is cut short: " in rank.last.detail
        assert rank.last.detail in rank.text()


def test_a_model_that_cannot_be_a_pipeline_is_refused_by_every_rank(endless: Path) -> None:
    with running(endless, 2, strategy="pipeline") as group:
        codes = {rank.exit_code() for rank in group.ranks}
        assert ExitCode.WEIGHTS in codes
        assert codes <= {ExitCode.WEIGHTS, ExitCode.PEER_LOST}
