"""What the installed mlx-lm says of a model, asked as an agent asks: by a process that runs no foreign code."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mlx.core as mx
import mlx.nn as nn
import pytest
from mlx.utils import tree_flatten
from mlx_lm.models import dbrx, deepseek_v3, qwen3_moe

from reconciler.runner.examination import examine
from reconciler.wire.weights import PromptReuse
from tests.runner.conftest import change_json, write_config, write_tokenizer
from tests.runner.model.architectures import write_architecture

TRAP = "raise SystemExit('code of the folder was run')\n"
KIMI = {
    "model_type": "kimi_k2",
    "kv_lora_rank": 16,
    "q_lora_rank": 16,
    "qk_rope_head_dim": 8,
    "qk_nope_head_dim": 8,
    "v_head_dim": 8,
    "n_routed_experts": None,
    "n_shared_experts": None,
    "moe_intermediate_size": 16,
    "first_k_dense_replace": 2,
}
"""A model whose tokenizer transformers takes from the model's folder alone."""


DBRX = {
    "tie_word_embeddings": False, "d_model": 64, "n_heads": 8, "n_layers": 2, "attn_config": {"kv_n_heads": 4, "clip_qkv": 8.0, "rope_theta": 1e4},
    "ffn_config": {"ffn_hidden_size": 32, "moe_num_experts": 2, "moe_top_k": 1},
}  # fmt: skip


def write_dbrx(folder: Path) -> Path:
    write_tokenizer(folder)
    config = {**write_config(folder, "dbrx"), **DBRX}
    (folder / "config.json").write_text(json.dumps(config))
    weights = dict(tree_flatten(dbrx.Model(dbrx.ModelArgs.from_dict(config)).parameters()))
    mx.save_safetensors(str(folder / "model.safetensors"), weights, metadata={"format": "mlx"})
    return folder


def test_the_answer_says_what_cannot_be_done(endless: Path) -> None:
    answer = examine(endless)
    assert answer["ranks_tried"] == 8
    assert answer["unsplittable"]["pipeline"] == "mlx-lm cannot run qwen3 models as a pipeline"
    assert {key for key in answer["unsplittable"] if "/" in key} == {f"tensor/{n}" for n in (3, 5, 6, 7)}
    assert answer["unsplittable"]["tensor/3"] == "Cannot shard the output of size 128 across 3 devices"


def test_the_answer_says_why_requests_with_tools_will_be_refused(copy: Path) -> None:
    assert examine(copy)["tools"] == ""
    (copy / "chat_template.jinja").write_text("{% for m in messages %}{{ m.content }}{% endfor %}")
    assert examine(copy)["tools"] == "this model's chat template does not show tools to the model"


def test_the_answer_says_whether_what_was_read_can_be_used_again(endless: Path, tmp_path: Path) -> None:
    """Windows and states are kept as a whole. DBRX chooses experts by computed values, of which its cache does not depend."""
    answer = examine(endless)
    assert (answer["reuse"], answer["reread"]) == (PromptReuse.ANY, "")
    assert answer["rope"] == ["yarn", "linear", "llama3"]
    for kind in ("gpt_oss", "qwen3_next"):
        (tmp_path / kind).mkdir()
        answer = examine(write_architecture(tmp_path / kind, kind))
        assert (answer["reuse"], answer["reread"]) == (PromptReuse.WHOLE, "")
    computing = examine(write_dbrx(tmp_path))
    assert (computing["reuse"], computing["reread"]) == (PromptReuse.ANY, "")
    assert computing["shares"]["tensor/1"][0]["cache"] == [[0, 2 * 2 * 4 * 8 * 4]]


def test_a_pipeline_has_as_many_stages_as_layers_at_most(layered: Path) -> None:
    stages = {key for key in examine(layered)["unsplittable"] if key.startswith("pipeline")}
    assert stages == {f"pipeline/{size}" for size in range(3, 9)}
    index = layered / "model.safetensors.index.json"
    index.rename(layered / "index")
    try:
        missing = examine(layered)["unsplittable"]["pipeline"]
        index.write_text('{"weight_map": {"w": "model-00001-of-00009.safetensors"}}')
        foreign = examine(layered)["unsplittable"]["pipeline"]
    finally:
        (layered / "index").rename(index)
    assert missing == "a pipeline needs model.safetensors.index.json, which is missing"
    assert foreign == f"a pipeline needs an index: {index.name} is not used: it names other files than these"


def test_experts_and_quantized_layers_are_tried_as_they_are(copy: Path) -> None:
    """Experts of 96: over 2 and 4 ranks; once quantized in groups of 32, over none but 3."""
    config = {
        **json.loads((copy / "config.json").read_text()),
        "model_type": "qwen3_moe",
        "num_experts": 4,
        "num_experts_per_tok": 2,
        "decoder_sparse_step": 1,
        "mlp_only_layers": [],
        "moe_intermediate_size": 96,
        "norm_topk_prob": True,
    }
    model = qwen3_moe.Model(qwen3_moe.ModelArgs.from_dict(config))
    mx.save_safetensors(str(copy / "model.safetensors"), dict(tree_flatten(model.parameters())))
    (copy / "config.json").write_text(json.dumps(config))
    assert "tensor/2" not in examine(copy)["unsplittable"]

    down = [name for name, _ in model.named_modules() if name.endswith("switch_mlp.down_proj")]
    nn.quantize(model, group_size=32, bits=4, class_predicate=lambda path, module: path in down)
    per_layer = {name: {"group_size": 32, "bits": 4} for name in down}
    mx.save_safetensors(str(copy / "model.safetensors"), dict(tree_flatten(model.parameters())))
    quantization = {"group_size": 64, "bits": 8, **per_layer}
    (copy / "config.json").write_text(json.dumps({**config, "quantization": quantization}))
    assert "tensor/2" in examine(copy)["unsplittable"]


def lose_the_tokenizer(folder: Path) -> None:
    (folder / "tokenizer.json").unlink()


def break_the_tokenizer(folder: Path) -> None:
    (folder / "tokenizer.json").write_text("{")


def lose_tensors(folder: Path) -> None:
    mx.save_safetensors(str(folder / "model.safetensors"), {"model.norm.weight": mx.zeros(64)})


@pytest.mark.parametrize(
    ("damage", "problem"),
    [
        (
            lambda f: change_json(f / "config.json", model_type="perceptron"),
            "does not know the architecture 'perceptron'",
        ),
        (
            lambda f: change_json(f / "config.json", model_type="../../etc"),
            "does not know the architecture '../../etc'",
        ),
        (lambda f: change_json(f / "config.json", model_type="base"), "cannot build it as 'base'"),
        (lambda f: change_json(f / "config.json", model_type=7), "does not know the architecture '7'"),
        (lambda f: (f / "config.json").write_text("{}"), "config.json names no model_type"),
        (lambda f: (f / "config.json").write_text("{"), "Expecting property name"),
        (lambda f: change_json(f / "config.json", quantization={}), "cannot build it as 'qwen3'"),
        (lambda f: change_json(f / "config.json", hidden_size="wide"), "cannot build it as 'qwen3'"),
        (lambda f: change_json(f / "config.json", hidden_size=128), "cannot build it as 'qwen3'"),
        (lose_tensors, "cannot build it as 'qwen3'"),
        (lose_the_tokenizer, "its tokenizer cannot be loaded"),
        (break_the_tokenizer, "its tokenizer cannot be loaded"),
        (
            lambda f: change_json(f / "config.json", max_position_embeddings="many"),
            "its tokenizer cannot be loaded: Validation error for field 'max_position_embeddings': TypeError",
        ),
        (
            lambda f: change_json(f / "config.json", layer_types=["x", "y"]),
            "its tokenizer cannot be loaded: Class validation error for validator 'validate_layer_type'",
        ),
    ],
)
def test_what_no_rank_could_load_is_a_problem(
    copy: Path, damage: Callable[[Path], Any], problem: str
) -> None:
    damage(copy)
    answer = examine(copy)
    assert answer.keys() == {"problem"}
    assert problem in answer["problem"]
    assert len(answer["problem"]) <= 160


def test_code_that_comes_with_weights_is_named_and_not_run(copy: Path) -> None:
    (copy / "evil.py").write_text(TRAP)
    (copy / "mlx_lm.py").write_text(TRAP)
    change_json(copy / "config.json", model_file="evil.py")
    assert examine(copy) == {"code": "config.json names its own model_file 'evil.py'"}


def test_a_tokenizer_that_is_code_is_named_and_not_run(copy: Path) -> None:
    (copy / "tokenization_evil.py").write_text(TRAP)
    auto_map = {"AutoTokenizer": ["tokenization_evil.EvilTokenizer", None]}
    change_json(copy / "tokenizer_config.json", tokenizer_class="EvilTokenizer", auto_map=auto_map)
    change_json(copy / "config.json", **KIMI)
    config = deepseek_v3.ModelArgs.from_dict(json.loads((copy / "config.json").read_text()))
    weights = dict(tree_flatten(deepseek_v3.Model(config).parameters()))
    mx.save_safetensors(str(copy / "model.safetensors"), weights)
    assert examine(copy) == {"code": "its tokenizer is Python code of its own"}
