"""A guess takes from a ``config.json`` what each layer keeps."""

from __future__ import annotations

from typing import Any

import pytest

from reconciler.planning.context.guessed_cache import STATE_WIDTH, guessed

LAYERS = 8
PLAIN: dict[str, Any] = {
    "num_hidden_layers": LAYERS,
    "hidden_size": 64,
    "num_attention_heads": 4,
    "sliding_window": 128,
}
EACH = 2 * 64 * 2
"""Bytes of one token in one layer."""
STATE = 2 * 64 * STATE_WIDTH * 4


@pytest.mark.parametrize(
    ("said", "full", "windows", "states"),
    [
        ({}, 8, 0, 0),
        ({"linear_attn_config": {"kda_layers": [1, 2, 3, 5, 6, 7]}}, 2, 0, 6),
        ({"linear_attn_config": {"kda_layers": [8]}}, 7, 0, 1),
        ({"linear_attn_config": {"kda_layers": [0, 9]}}, 8, 0, 0),
        ({"linear_attn_config": {"kda_layers": []}}, 8, 0, 0),
        ({"sliding_window_pattern": "L"}, 1, 7, 0),
        ({"sliding_window_pattern": "LG"}, 4, 4, 0),
        ({"sliding_window_pattern": "GL"}, 5, 3, 0),
        ({"sliding_window_pattern": "LLLG"}, 2, 6, 0),
        ({"sliding_window_pattern": 4}, 2, 6, 0),
        ({"full_attention_interval": 4}, 2, 0, 6),
        ({"attn_layer_period": 4, "attn_layer_offset": 0}, 2, 0, 6),
        ({"attn_layer_period": 8, "attn_layer_offset": 8}, 0, 0, 8),
    ],
    ids=str,
)
def test_a_config_says_which_layers_keep_all_tokens(
    said: dict[str, Any], full: int, windows: int, states: int
) -> None:
    sizes = ((0, full * EACH), (1, states * STATE), (128, windows * EACH))
    assert guessed({**PLAIN, **said}, "tensor", 1) == tuple((tokens, size) for tokens, size in sizes if size)
