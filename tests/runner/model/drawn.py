"""Small models of every architecture of mlx-lm, built from the fields that its ``ModelArgs`` have, with random weights."""

from __future__ import annotations

import pkgutil
from importlib import import_module
from typing import Any

import mlx.core as mx
from mlx.utils import tree_map
from mlx_lm import models

COMMON: dict[str, Any] = {
    "vocab_size": 128,
    "embedding_size": 128,
    "hidden_size": 64,
    "d_model": 64,
    "n_embd": 64,
    "model_dim": 64,
    "hidden_dim": 64,
    "dim": 64,
    "num_hidden_layers": 4,
    "num_layers": 4,
    "n_layer": 4,
    "n_layers": 4,
    "num_transformer_layers": 4,
    "decoder_layers": 4,
    "num_attention_heads": 8,
    "n_head": 8,
    "n_heads": 8,
    "num_heads": 8,
    "num_key_value_heads": 4,
    "n_kv_heads": 4,
    "num_kv_heads": 4,
    "num_attention_groups": 4,
    "head_dim": 16,
    "intermediate_size": 64,
    "ffn_hidden_size": 64,
    "expert_ffn_hidden_size": 32,
    "mlp_hidden_size": 64,
    "n_inner": 64,
    "intermediate_size_mlp": 64,
    "ff_intermediate_size": 64,
    "ffn_intermediate_size": 64,
    "feed_forward_length": 64,
    "shared_intermediate_size": 32,
    "dense_intermediate_size": 64,
    "moe_intermediate_size": 32,
    "shared_expert_intermediate_size": 32,
    "moe_shared_expert_intermediate_size": 32,
    "moe_expert_ffn": 32,
    "num_experts": 4,
    "num_local_experts": 4,
    "n_routed_experts": 4,
    "moe_num_experts": 4,
    "num_experts_per_tok": 2,
    "moe_topk": 2,
    "moe_k": 2,
    "moe_top_k": 2,
    "n_shared_experts": 1,
    "num_shared_experts": 1,
    "moe_num_shared_experts": 1,
    "num_shared_expert": 1,
    "n_group": 1,
    "topk_group": 1,
    "num_expert_groups": 1,
    "routed_scaling_factor": 1.0,
    "first_k_dense_replace": 1,
    "moe_layer_freq": 1,
    "moe_layer_interval": 1,
    "topk_method": "noaux_tc",
    "scoring_func": "sigmoid",
    "norm_topk_prob": True,
    "kv_lora_rank": 16,
    "q_lora_rank": 16,
    "qk_rope_head_dim": 8,
    "qk_nope_head_dim": 8,
    "v_head_dim": 8,
    "index_head_dim": 16,
    "index_n_heads": 4,
    "index_topk": 64,
    "rms_norm_eps": 1e-5,
    "norm_eps": 1e-5,
    "layer_norm_eps": 1e-5,
    "layer_norm_epsilon": 1e-5,
    "layernorm_epsilon": 1e-5,
    "max_position_embeddings": 4096,
    "n_positions": 4096,
    "n_ctx": 4096,
    "model_max_length": 4096,
    "max_seq_len": 4096,
    "block_size": 4096,
    "rope_theta": 10000.0,
    "attention_bias": False,
    "mlp_bias": False,
    "use_bias": False,
    "use_qkv_bias": False,
    "tie_word_embeddings": False,
    "use_qk_norm": False,
    "qk_norm": True,
    "post_norm": True,
    "rope_scaling": None,
    "partial_rotary_factor": 0.5,
    "sliding_window": 32,
    "sliding_window_size": 32,
    "window_size": 32,
    "attention_window_size": 32,
    "decoder_sparse_step": 1,
    "mlp_only_layers": [],
    "num_dense_layers": 1,
    "linear_num_value_heads": 4,
    "linear_num_key_heads": 2,
    "linear_key_head_dim": 16,
    "linear_value_head_dim": 16,
    "linear_conv_kernel_dim": 4,
    "linear_allow_neg_eigval": False,
    "full_attention_interval": 2,
    "conv_kernel": 4,
    "conv_bias": True,
    "conv_L_cache": 3,
    "use_conv_bias": True,
    "conv_window": 2,
    "conv1d_width": 4,
    "mamba_d_conv": 4,
    "mamba_d_state": 16,
    "mamba_expand": 2,
    "mamba_num_heads": 4,
    "mamba_head_dim": 16,
    "mamba_n_heads": 4,
    "mamba_d_head": 32,
    "mamba_d_ssm": 64,
    "mamba_chunk_size": 16,
    "mamba_n_groups": 1,
    "mamba_proj_bias": False,
    "mamba_conv_bias": True,
    "mamba_dt_rank": 8,
    "ssm_state_size": 16,
    "state_size": 16,
    "time_step_rank": 8,
    "time_step_limit": (0.0, 1e9),
    "n_groups": 1,
    "num_key_heads": 2,
    "attn_layer_offset": 1,
    "attn_layer_period": 2,
    "expert_layer_offset": 1,
    "expert_layer_period": 2,
    "layer_norm_type": None,
    "hidden_act": "silu",
    "hidden_activation": "silu",
    "embedding_multiplier": 1.0,
    "residual_multiplier": 1.0,
    "attention_multiplier": 0.25,
    "logits_scaling": 1.0,
    "scale_depth": 1.4,
    "scale_emb": 1.0,
    "dim_model_base": 64,
    "a_low_rank_dim": 8,
    "v_low_rank_dim": 8,
    "gate_low_rank_dim": 8,
    "decay_low_rank_dim": 8,
    "rotary_dim": 8,
    "rotary_pct": 0.5,
    "rotary_emb_base": 10000,
}
KINDS = ["sliding_attention", "full_attention"] * 2
YARN = {
    "rope_type": "yarn",
    "type": "yarn",
    "factor": 4.0,
    "original_max_position_embeddings": 16,
    "beta_fast": 32,
    "beta_slow": 1,
    "mscale": 1.0,
    "mscale_all_dim": 1.0,
    "rope_theta": 10000.0,
}
BY_LAYER = {
    "sliding_attention": {"rope_theta": 1e4, "rope_type": "default"},
    "full_attention": {"rope_theta": 1e4, "rope_type": "default"},
}
LFM = {
    "block_dim": 64,
    "block_multiple_of": 16,
    "block_ffn_dim_multiplier": 1.0,
    "block_auto_adjust_ff_dim": True,
    "block_ff_dim": 64,
    "use_expert_bias": True,
    "full_attn_idxs": [1, 3],
    "layer_types": ["conv", "full_attention"] * 2,
}
GROUPS = {"layer_group_size": 2, "group_norm_size": 2}
KDA = {
    "linear_attn_config": {
        "kda_layers": [1, 3],
        "full_attn_layers": [2, 4],
        "num_heads": 4,
        "head_dim": 32,
        "short_conv_kernel_size": 4,
    }
}
LONGCAT = {
    "attention_method": "MLA",
    "zero_expert_type": "identity",
    "zero_expert_num": 1,
    "mla_scale_q_lora": True,
    "mla_scale_kv_lora": True,
}
OVER: dict[str, dict[str, Any]] = {
    "afm7": {"num_kv_reuse_layers": 2},
    "baichuan_m1": {
        "sliding_window_layers": [0, 2],
        "num_swa_attention_heads": 8,
        "num_swa_key_value_heads": 2,
    },
    "bailing_hybrid": GROUPS,
    "bailing_moe_linear": GROUPS,
    "cohere2": {"head_dim": 8},
    "deepseek_v2": {"rope_scaling": YARN},
    "minicpm3": {"rope_scaling": YARN},
    "exaone": {"head_dim": 8},
    "exaone4": {"sliding_window_pattern": "LG"},
    "exaone_moe": {"is_moe_layer": [False, True, True, True]},
    "falcon_h1": {"mamba_d_head": 16},
    "gemma3": {"sliding_window_pattern": 2},
    "gemma3_text": {"sliding_window_pattern": 2},
    "gemma3n": {
        "num_kv_shared_layers": 2,
        "vocab_size_per_layer_input": 128,
        "rope_local_base_freq": 1e4,
        "final_logit_softcapping": 30.0,
        "activation_sparsity_pattern": [0.9, 0.0, 0.0, 0.0],
        "hidden_size_per_layer_input": 16,
        "altup_num_inputs": 4,
        "altup_coef_clip": 120.0,
        "altup_correct_scale": True,
        "altup_active_idx": 0,
        "laurel_rank": 8,
    },
    "gemma4": {
        "num_kv_shared_layers": 2,
        "global_head_dim": 32,
        "hidden_size_per_layer_input": 16,
        "vocab_size_per_layer_input": 128,
    },
    "gemma4_text": {
        "num_kv_shared_layers": 2,
        "global_head_dim": 32,
        "hidden_size_per_layer_input": 16,
        "vocab_size_per_layer_input": 128,
    },
    "glm_moe_dsa": {"rope_parameters": {"rope_theta": 1e4, "rope_type": "default"}},
    "granitemoehybrid": {"layer_types": ["mamba", "attention"] * 2},
    "hunyuan": {
        "rope_scaling": {"type": "dynamic", "factor": 1.0, "alpha": 1000.0},
        "use_mixed_mlp_moe": True,
        "use_cla": True,
        "cla_share_factor": 2,
    },
    "kimi_k3": dict(
        hidden_act="situ",
        activation_situ_beta=1.0,
        activation_situ_linear_beta=1.0,
        **KDA,
        moe_layer_freq=1,
        num_experts_per_token=2,
    ),
    "kimi_linear": KDA,
    "lfm2": LFM,
    "lfm2-vl": LFM,
    "lfm2_moe": LFM,
    "llama4": {"attention_chunk_size": 512, "interleave_moe_layer_step": 2, "num_experts_per_tok": 1},
    "llama4_text": {"no_rope_layers": [1, 1, 1, 0]},
    "longcat_flash": LONGCAT,
    "longcat_flash_ngram": LONGCAT,
    "mellum": {"rope_parameters": BY_LAYER},
    "spark2_5": {"rope_parameters": BY_LAYER, "hidden_act": "gelu"},
    "mimo_v2_flash": {
        "hybrid_layer_pattern": [1, 0, 1, 0],
        "moe_layer_freq": [0, 1, 1, 1],
        "add_swa_attention_sink_bias": True,
        "add_full_attention_sink_bias": False,
        "swa_rope_theta": 1e4,
        "swa_num_attention_heads": 8,
        "swa_num_key_value_heads": 8,
        "swa_head_dim": 16,
        "swa_v_head_dim": 8,
    },
    "minimax_m3_vl": {"moe_layer_freq": [0, 1, 1, 1]},
    "ministral3": {"rope_parameters": {**YARN, "llama_4_scaling_beta": 0.5}},
    "mistral4": {"rope_parameters": {**YARN, "llama_4_scaling_beta": 0.5}},
    "muse_spark": {
        "post_norm_eps": 1e-5,
        "rope_parameters": {"rope_theta": 1e4},
        "layer_rope_theta": [1e4] * 4,
        "final_logit_softcapping": 30.0,
        "output_multiplier": 1.0,
        "moe_hidden_size": 32,
        "num_shared_experts": 0,
    },
    "nemotron-nas": {
        "block_configs": [
            {"attention": {"n_heads_in_group": 2}, "ffn": {"ffn_mult": 1.0}},
            {"attention": {"no_op": True}, "ffn": {"ffn_mult": 1.0}},
            {"attention": {"replace_with_linear": True}, "ffn": {"ffn_mult": 1.0}},
            {"attention": {"n_heads_in_group": 4}, "ffn": {"ffn_mult": 1.0}},
        ]
    },
    "nemotron_h": {"layer_types": None, "hybrid_override_pattern": ["M", "*", "E", "-"]},
    "openelm": {
        "ffn_dim_divisor": 8,
        "num_query_heads": [8] * 4,
        "num_kv_heads": [2, 2, 4, 4],
        "ffn_multipliers": [1.0] * 4,
    },
    "phi3small": {"dense_attention_every_n_layers": 2, "gegelu_limit": 20.0},
    "recurrent_gemma": {
        "logits_soft_cap": 30.0,
        "block_types": ["recurrent", "attention"],
        "attention_window_size": 32,
    },
    "qwen": {"kv_channels": 8},
    "dbrx": {
        "ffn_config": {"ffn_hidden_size": 32, "moe_num_experts": 2, "moe_top_k": 1},
        "attn_config": {"kv_n_heads": 4, "clip_qkv": 8.0, "rope_theta": 1e4},
    },
}


NEEDS_METAL = ("bitnet", "muse_spark")
ENDS_ITS_PROCESS = ("phi3small",)
"""On a CPU, with so small a model: memory is corrupted."""
NEEDS_MORE = ("olmo", "prism_hadamard_qwen35")
"""One needs a package of its own, one a manifest of packed weights."""


def architectures() -> list[str]:
    """Modules with a model that can be built and run here."""
    found = sorted(each.name for each in pkgutil.iter_modules(models.__path__))
    left_out = (*NEEDS_METAL, *ENDS_ITS_PROCESS, *NEEDS_MORE)
    return [name for name in found if name not in left_out and hasattr(_module(name), "ModelArgs")]


def _module(kind: str) -> Any:
    return import_module(f"mlx_lm.models.{kind}")


def config(kind: str) -> dict[str, Any]:
    """A config with every field that an architecture may read; of its text model as well."""
    fields = {**COMMON, "model_type": kind, "layer_types": KINDS, **OVER.get(kind, {})}
    return {**fields, "text_config": dict(fields)}


def build(kind: str) -> Any:
    """A model as it would be loaded, with random weights."""
    module = _module(kind)
    model = module.Model(module.ModelArgs.from_dict(config(kind)))
    mx.random.seed(0)
    model.update(tree_map(_drawn, model.parameters()))
    model.eval()
    mx.eval(model.parameters())
    return model


def _drawn(array: Any) -> Any:
    if not mx.issubdtype(array.dtype, mx.floating):
        return array
    return (0.1 * mx.random.normal(array.shape)).astype(array.dtype)
