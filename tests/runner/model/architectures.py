"""Models of every architecture that is held to say sharded what it says whole: random weights, in float32.

Small, and yet with what each architecture has of its own: experts and layers without, shared experts, groups of
experts, latent attention, windows that are shorter than a prompt, sinks, biases, scaled positions.
"""

from __future__ import annotations

import json
import math
import re
from importlib import import_module
from pathlib import Path
from typing import Any

import mlx.core as mx
from mlx.utils import tree_flatten

from tests.runner.conftest import write_config, write_tokenizer

LAYERS = 4
WINDOWS = ["sliding_attention", "full_attention"] * (LAYERS // 2)
YARN = {"factor": 4.0, "original_max_position_embeddings": 16, "beta_fast": 32, "beta_slow": 1, "mscale": 1.0}
EXPERTS = {"moe_intermediate_size": 32, "num_experts_per_tok": 2, "norm_topk_prob": True}
GROUPS = {
    "n_routed_experts": 8, "n_shared_experts": 1, "first_k_dense_replace": 1, "n_group": 2, "topk_group": 1,
    "routed_scaling_factor": 1.5, "topk_method": "noaux_tc", "scoring_func": "sigmoid",
}  # fmt: skip
LATENT = {
    **EXPERTS, **GROUPS, "kv_lora_rank": 16, "q_lora_rank": 16, "qk_rope_head_dim": 8, "qk_nope_head_dim": 8,
    "v_head_dim": 8, "num_key_value_heads": 8, "moe_layer_freq": 1,
    "rope_scaling": {"type": "yarn", "mscale_all_dim": 1.0, **YARN},
}  # fmt: skip
ARCHITECTURES: dict[str, dict[str, Any]] = {
    "llama": {
        "attention_bias": True,
        "mlp_bias": True,
        "rope_scaling": {
            "rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
            "original_max_position_embeddings": 16,
        },
    },
    "qwen2": {},
    "qwen3": {},
    "qwen3_moe": {**EXPERTS, "num_experts": 4, "decoder_sparse_step": 1, "mlp_only_layers": [0]},
    "deepseek_v3": LATENT,
    "kimi_k25": {**LATENT, "n_group": 1},
    "glm4_moe": {
        **EXPERTS, **GROUPS, "use_qk_norm": True, "attention_bias": True, "partial_rotary_factor": 0.5,
        "rope_scaling": None,
    },
    "gpt_oss": {
        "num_local_experts": 4, "num_experts_per_tok": 2, "sliding_window": 8, "layer_types": WINDOWS,
        "rope_scaling": {"rope_type": "yarn", **YARN},
    },
    "ministral3": {
        "sliding_window": 8, "layer_types": WINDOWS,
        "rope_parameters": {
            "type": "yarn", "rope_theta": 10000.0, "llama_4_scaling_beta": 0.5, "mscale_all_dim": 1.0, **YARN,
        },
    },
}  # fmt: skip
"""What each has beside ``write_config``'s fields."""
HYBRIDS: dict[str, dict[str, Any]] = {
    "qwen3_next": {
        **EXPERTS, "num_experts": 4, "decoder_sparse_step": 1, "mlp_only_layers": [],
        "shared_expert_intermediate_size": 32, "partial_rotary_factor": 0.5, "full_attention_interval": 2,
        "linear_num_value_heads": 4, "linear_num_key_heads": 2, "linear_key_head_dim": 32,
        "linear_value_head_dim": 32, "linear_conv_kernel_dim": 4,
    },
    "falcon_h1": {
        "mamba_d_ssm": 64, "mamba_d_head": 16, "mamba_n_heads": 4, "mamba_d_state": 16, "mamba_chunk_size": 16,
    },
}  # fmt: skip
"""Those whose layers keep, instead of every token or beside it, one state of all that was read."""
LEFT_OUT = {
    "kimi_k25": "vision_tower.patch_embed.proj.weight",
    "glm4_moe": f"model.layers.{LAYERS}.eh_proj.weight",
}
"""What their checkpoints hold and mlx-lm does not load: eyes, and a layer that guesses ahead."""
SEEDS = {
    "llama": 0, "qwen2": 3, "qwen3": 6, "qwen3_moe": 9, "deepseek_v3": 9, "kimi_k25": 9, "glm4_moe": 8, "gpt_oss": 4,
    "ministral3": 6,
}  # fmt: skip
"""Of those tried, they have the likeliest token stand out the most."""
NESTED = {"kimi_k25": "kimi_k2"}
"""Their text model's config is one level deeper, with a type of its own."""


def write_architecture(folder: Path, kind: str, **fields: Any) -> Path:
    """A folder with a model of an architecture as it could have been downloaded, every layer in a file of its own."""
    write_tokenizer(folder)
    config = {
        **write_config(folder, kind),
        "num_hidden_layers": LAYERS,
        "tie_word_embeddings": False,
        "max_position_embeddings": 64,
        **{**ARCHITECTURES, **HYBRIDS}[kind],
        **fields,
    }
    if kind in NESTED:
        config = {
            "model_type": kind,
            "eos_token_id": 0,
            "text_config": {**config, "model_type": NESTED[kind]},
        }
    (folder / "config.json").write_text(json.dumps(config))
    module = import_module(f"mlx_lm.models.{kind}")
    model = module.Model(module.ModelArgs.from_dict(config))
    mx.random.seed(SEEDS.get(kind, 0))
    weights = {name: _drawn(name, blank.shape) for name, blank in sorted(tree_flatten(model.parameters()))}
    if kind in LEFT_OUT:
        weights[LEFT_OUT[kind]] = mx.zeros((8, 8))
    files = {name: f"model-{_layer(name):05}-of-{LAYERS:05}.safetensors" for name in weights}
    for file in set(files.values()):
        part = {name: weight for name, weight in weights.items() if files[name] == file}
        mx.save_safetensors(str(folder / file), part, metadata={"format": "mlx"})
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": files}))
    return folder


def _layer(name: str) -> int:
    found = re.search(r"\.layers\.(\d+)\.", name)
    return min(int(found[1]) if found else LAYERS, LAYERS)


def _drawn(name: str, shape: tuple[int, ...]) -> Any:
    """Values of a size that has every part matter, and the likeliest token stand out from the next."""
    noise = mx.random.normal(shape)
    if "norm" in name:
        return 1 + 0.2 * noise
    if len(shape) == 1:
        return 0.3 * noise
    if name.endswith("embed_tokens.weight"):
        return noise
    gain = 4.0 if "lm_head" in name else 1.5
    drawn = noise * (gain / math.sqrt(shape[-1]))
    if "lm_head" in name:
        drawn[0] = 0  # the end token, which nobody is to say
    return drawn
