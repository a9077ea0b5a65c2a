"""Guesses the size of a sequence's cache by a model's ``config.json``, if nothing better is known.

The guess holds until a node's runtime has said what the model's own code keeps. It knows latent attention, windows, states
and shared layers, and nothing else: ``tests/runner/model/test_caches.py`` has its error for each architecture of mlx-lm.
The names are those of configs on the Hugging Face hub, as the classes ``ModelArgs`` of mlx-lm 0.32.2 read them.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from .sharding import Strategy, number, text_config

Cache = tuple[tuple[int, int], ...]
"""Pairs of tokens and bytes: the bytes of each token, up to this number of tokens (0: of all)."""

FULL, WINDOW, STATE, NOTHING = "full", "window", "state", "nothing"
EXPANDED = ("deepseek_v2", "minicpm3", "youtu_llm")
"""Types with latent attention for which mlx-lm 0.32.2 keeps the keys and values instead of the latent."""
STATE_WIDTH = 256
"""The most values of a state for each of twice the hidden size. Mamba 2 and gated delta nets have 128, and up to twice as
many channels."""
_HIDDEN = ("hidden_size", "n_embd", "d_model", "model_dim", "hidden_dim")
_HEADS = ("num_attention_heads", "n_head", "n_heads", "num_heads")
_KEPT_HEADS = ("num_key_value_heads", "n_kv_heads", "num_kv_heads")
_STATE_SIZES = ("state_size", "ssm_state_size", "a_low_rank_dim")
_LAYERS = ("num_hidden_layers", "n_layer", "n_layers", "num_layers", "num_transformer_layers")
_STATES = ("linear", "mamba", "conv", "recurrent", "M")
_WINDOWS = ("sliding", "chunked", "local", "L")
_NONE = ("mlp", "moe", "-", "E")


def guessed(config: Mapping[str, Any], strategy: Strategy | str, ranks: int) -> Cache:
    """Return the cache of one sequence on each of ``ranks`` ranks."""
    config = text_config(config)
    sizes: Counter[int] = Counter()
    latent = _latent(config)
    stages = ranks if strategy == "pipeline" else 1
    for kind, layers in Counter(_kinds(config)).items():
        layers = math.ceil(layers / stages)
        if kind == STATE:
            sizes[1] += layers * 2 * _first(config, *_HIDDEN) * STATE_WIDTH * 4
        elif kind != NOTHING:
            # Every rank of a tensor split keeps all of a latent, because all heads need it.
            divided = 1 if latent or stages > 1 else ranks
            each = latent or _keys_and_values(config, kind)
            sizes[_window(config) if kind == WINDOW else 0] += layers * math.ceil(each / divided)
    return tuple((tokens, size) for tokens, size in sorted(sizes.items()) if size)


def _value_bytes(config: Mapping[str, Any]) -> int:
    return 4 if config.get("torch_dtype", config.get("dtype")) == "float32" else 2


def _latent(config: Mapping[str, Any]) -> int:
    """Return the bytes of one token in a layer that keeps a latent in place of keys and values; 0 for other models."""
    rank = number(config, "kv_lora_rank")
    if not rank:
        return 0
    rope, index = number(config, "qk_rope_head_dim"), 2 * number(config, "index_head_dim")
    values = rank + rope + index
    if config.get("model_type") in EXPANDED:
        width = number(config, "qk_nope_head_dim") + rope + number(config, "v_head_dim")
        values = number(config, "num_attention_heads", 1) * width
    return values * _value_bytes(config)


def _keys_and_values(config: Mapping[str, Any], kind: str) -> int:
    """Return the bytes of one token in a layer with keys and values of its own."""
    heads = _first(config, *_HEADS) or 1
    width = _first(config, *_HIDDEN) // heads
    other = "swa_" if kind == WINDOW else "global_"
    kept = number(config, f"{other}num_key_value_heads", _first(config, *_KEPT_HEADS))
    head = number(config, f"{other}head_dim", number(config, "head_dim", width))
    values = number(config, f"{other}v_head_dim", number(config, "v_head_dim", head))
    return (kept or heads) * (head + values) * _value_bytes(config)


def _window(config: Mapping[str, Any]) -> int:
    return _first(config, "sliding_window", "sliding_window_size", "window_size", "attention_chunk_size")


def _kinds(config: Mapping[str, Any]) -> list[str]:
    """Return the kind of each layer's cache."""
    layers = _first(config, *_LAYERS)
    usual = STATE if _first(config, *_STATE_SIZES) and not _first(config, *_HEADS) else FULL
    found = [_kind(name) for name in _names(config, layers)] or [usual] * layers
    if not _window(config):
        found = [FULL if kind == WINDOW else kind for kind in found]
    shared = min(number(config, "num_kv_shared_layers"), len(found))
    return found[: len(found) - shared]


def _names(config: Mapping[str, Any], layers: int) -> Sequence[object]:
    """Return the names that a config has for the kinds of its layers; empty if it has none."""
    for field in ("layer_types", "layers_block_type", "hybrid_override_pattern", "block_types"):
        listed = config.get(field)
        if isinstance(listed, list | str) and listed:
            return [listed[at % len(listed)] for at in range(max(layers, len(listed)))]
    linear = config.get("linear_attn_config")
    states = linear.get("kda_layers") if isinstance(linear, Mapping) else None
    if isinstance(states, list):  # counted from 1
        return ["linear" if at + 1 in states else FULL for at in range(layers)]
    for every, other in (
        ("full_attention_interval", "linear"),
        ("attn_layer_period", "mamba"),
        ("layer_group_size", "linear"),
        ("sliding_window_pattern", "sliding"),
    ):
        period = number(config, every)
        if period:
            at_full = number(config, "attn_layer_offset", period - 1)
            return [FULL if at % period == at_full else other for at in range(layers)]
    pattern = config.get("sliding_window_pattern")
    if isinstance(pattern, str) and pattern:
        return [pattern[at % len(pattern)] if at < layers - 1 else FULL for at in range(layers)]
    return ()


def _kind(name: object) -> str:
    layer = str(name)
    for kind, words in ((STATE, _STATES), (WINDOW, _WINDOWS), (NOTHING, _NONE)):
        if any(layer.startswith(word) for word in words):
            return kind
    return FULL


def _first(config: Mapping[str, Any], *fields: str) -> int:
    """Return the first of these fields that has a number; 0 if none has."""
    return next((found for field in fields if (found := number(config, field))), 0)
