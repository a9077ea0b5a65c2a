"""A model that two ranks can share as well as three: random weights of six attention heads."""

from __future__ import annotations

import json
from pathlib import Path

import mlx.core as mx
from mlx.utils import tree_flatten
from mlx_lm.models import qwen3

from tests.runner.conftest import write_config, write_tokenizer

SHAPE = {"num_attention_heads": 6, "num_key_value_heads": 6, "hidden_size": 96, "intermediate_size": 192}


def write_model(directory: Path) -> None:
    """Its weights and all that belongs to them. It practically never says the end token."""
    directory.mkdir(parents=True)
    write_tokenizer(directory)
    config = {**write_config(directory, "qwen3"), **SHAPE}
    (directory / "config.json").write_text(json.dumps(config))
    mx.random.seed(7)
    weights = dict(tree_flatten(qwen3.Model(qwen3.ModelArgs.from_dict(config)).parameters()))
    weights["model.embed_tokens.weight"][0] = 0
    mx.save_safetensors(str(directory / "model.safetensors"), weights, metadata={"format": "mlx"})
