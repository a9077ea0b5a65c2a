"""What an examination says that ranks hold is what they hold: of architectures that share in different ways."""

from __future__ import annotations

import gc
import json
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import mlx.core as mx
import pytest
from mlx.utils import tree_flatten
from mlx_lm.models.cache import make_prompt_cache
from mlx_lm.utils import load_model

from reconciler.runner.examination import examine
from reconciler.runner.model.memory import Size, share
from tests.runner.conftest import write_config, write_tokenizer

EXPERTS = {"moe_intermediate_size": 32, "num_experts_per_tok": 2, "norm_topk_prob": True}
LATENT = {
    **EXPERTS, "kv_lora_rank": 16, "q_lora_rank": 16, "qk_rope_head_dim": 8, "qk_nope_head_dim": 8, "v_head_dim": 8,
    "n_routed_experts": 4, "n_shared_experts": 1, "first_k_dense_replace": 1, "n_group": 1, "topk_group": 1,
    "routed_scaling_factor": 1.0, "topk_method": "noaux_tc", "scoring_func": "sigmoid", "moe_layer_freq": 1,
    "num_key_value_heads": 8, "attention_bias": False, "rope_scaling": None,
}  # fmt: skip
WINDOWED = {
    "num_local_experts": 4, "num_experts_per_tok": 2, "sliding_window": 128, "rope_scaling": None,
    "layer_types": ["sliding_attention", "full_attention"] * 2,
}  # fmt: skip
FAMILIES: dict[str, dict[str, Any]] = {
    "llama": {},
    "qwen2": {},
    "qwen3_moe": {**EXPERTS, "num_experts": 4, "decoder_sparse_step": 1, "mlp_only_layers": []},
    "deepseek_v3": LATENT,
    "gpt_oss": WINDOWED,
}
LAYERS = 4
FLOAT = 4
"""Bytes."""
KEPT_BYTES_MAX = 16384
"""So much more than a part of a tensor MLX keeps rather than to copy the part (``Contiguous``)."""


@pytest.fixture(scope="session")
def examined(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Path, dict[str, Any]]]:
    """Random weights of each family, and what its examination says."""
    found = {}
    for kind, fields in FAMILIES.items():
        folder = tmp_path_factory.mktemp(kind)
        write_tokenizer(folder)
        config = {**write_config(folder, kind), "num_hidden_layers": LAYERS, **fields}
        (folder / "config.json").write_text(json.dumps(config))
        module = import_module(f"mlx_lm.models.{kind}")
        weights = dict(tree_flatten(module.Model(module.ModelArgs.from_dict(config)).parameters()))
        file = "model-00001-of-00001.safetensors"
        mx.save_safetensors(str(folder / file), weights, metadata={"format": "mlx"})
        index = {"weight_map": dict.fromkeys(weights, file)}
        (folder / "model.safetensors.index.json").write_text(json.dumps(index))
        found[kind] = (folder, examine(folder))
    return found


def of_ranks(shares: dict[str, Any], key: str) -> list[dict[str, Any]]:
    """What each rank holds."""
    found: list[dict[str, Any]] = shares[key]
    return found * int(key.rpartition("/")[2]) if len(found) == 1 else found


def really_held(folder: Path, key: str, rank: int) -> tuple[int, int]:
    """Bytes that MLX holds more once a rank's part was read, and of how many tensors."""
    strategy, _, ranks = key.partition("/")
    gc.collect()  # models of earlier tests have circles, and would be freed meanwhile
    before = mx.get_active_memory()
    model, _ = load_model(folder, lazy=True, strict=True)
    group = Size(int(ranks), rank)
    if strategy == "pipeline":
        model.model.pipeline(group)
    elif group.size() > 1:
        model.shard(group)
    mx.eval(model.parameters())
    return int(mx.get_active_memory() - before), len(tree_flatten(model.parameters()))


@pytest.mark.parametrize("kind", FAMILIES)
def test_every_rank_s_weights_are_known_before_any_tensor_is_read(
    kind: str, examined: dict[str, tuple[Path, dict[str, Any]]]
) -> None:
    folder, answer = examined[kind]
    keys = [key for key in answer["shares"] if int(key.rpartition("/")[2]) <= 4]
    assert {"tensor/1", "tensor/2", "tensor/4"} <= set(keys)
    for key in keys:
        for rank, declared in enumerate(of_ranks(answer["shares"], key)):
            held, tensors = really_held(folder, key, rank)
            assert 0 <= held - declared["weights_bytes"] <= KEPT_BYTES_MAX * tensors, (key, rank)


@pytest.mark.parametrize("kind", FAMILIES)
def test_the_cache_of_a_sequence_is_known_before_any_token_is_read(
    kind: str, examined: dict[str, tuple[Path, dict[str, Any]]]
) -> None:
    folder, answer = examined[kind]
    model, _ = load_model(folder, lazy=True, strict=True)
    (declared,) = answer["shares"]["tensor/1"]
    for tokens in (100, 700, 1500):
        caches = make_prompt_cache(model)
        for start in range(0, tokens, 100):
            model(mx.zeros((1, min(100, tokens - start)), dtype=mx.int32), cache=caches)
        held = sum(cache.nbytes for cache in caches)
        expected = sum(size * min(tokens, most or tokens) for most, size in declared["cache"])
        # in steps of 256 tokens, or, of a window, with the latest piece of a prompt
        assert expected <= held <= expected + 256 * sum(size for _, size in declared["cache"])


def test_every_rank_of_a_tensor_split_holds_all_of_a_latent_cache(
    examined: dict[str, tuple[Path, dict[str, Any]]],
) -> None:
    shares = examined["deepseek_v3"][1]["shares"]
    undivided = [[0, LAYERS * (16 + 8) * FLOAT]]
    assert [shares[key][0]["cache"] for key in ("tensor/1", "tensor/2", "tensor/4")] == [undivided] * 3
    halves = [[0, LAYERS // 2 * (16 + 8) * FLOAT]]
    assert [stage["cache"] for stage in of_ranks(shares, "pipeline/2")] == [halves] * 2


def test_kv_heads_are_divided_and_a_window_bounds_what_is_kept(
    examined: dict[str, tuple[Path, dict[str, Any]]],
) -> None:
    shares = examined["gpt_oss"][1]["shares"]
    per_layer = 2 * 4 * 16 * FLOAT
    assert shares["tensor/1"][0]["cache"] == [[0, 2 * per_layer], [128, 2 * per_layer]]
    assert shares["tensor/4"][0]["cache"] == [[0, 2 * per_layer // 4], [128, 2 * per_layer // 4]]


def test_stages_of_a_pipeline_hold_their_own_layers_and_all_of_the_embeddings(
    examined: dict[str, tuple[Path, dict[str, Any]]],
) -> None:
    stages = [stage["weights_bytes"] for stage in of_ranks(examined["qwen2"][1]["shares"], "pipeline/3")]
    assert stages[0] > stages[1] == stages[2]  # two layers, one, one
    assert sum(stages) > examined["qwen2"][1]["shares"]["tensor/1"][0]["weights_bytes"]


class _Curious:
    """A model whose forward pass wants to know values: what it keeps depends on them, or does not."""

    layers = (None,)
    __module__ = "mlx_lm.models.curious"

    def __init__(self, ask: Callable[[Any], int], depends: bool) -> None:
        self._ask, self._depends = ask, depends

    def parameters(self) -> dict[str, Any]:
        return {"weight": mx.zeros((4, 4))}

    def __call__(self, tokens: Any, cache: Any) -> Any:
        size = 4 + (self._ask(tokens.sum()) if self._depends else 0 * self._ask(tokens.sum()))
        kept = mx.zeros((1, 1, tokens.shape[1], size))
        return cache[0].update_and_fetch(kept, kept)


ASKING: dict[str, Callable[[Any], int]] = {
    "item": lambda array: int(array.item()),
    "tolist": lambda array: int(array.reshape(1, 1).tolist()[0][0]),
    "bool": lambda array: 1 if array else 0,
    "int": int,
    "float": lambda array: int(float(array)),
    "index": lambda array: len(range(array)),
}


@pytest.mark.parametrize("ask", ASKING.values(), ids=ASKING)
def test_nothing_is_computed_to_find_out(ask: Callable[[Any], int]) -> None:
    """A value that is asked for is made up, and twice: what does not depend on it is known all the same."""
    assert share(_Curious(ask, depends=False)) == {"weights_bytes": 64, "cache": [[0, 2 * 4 * FLOAT]]}
    assert share(_Curious(ask, depends=True)) == {"weights_bytes": 64}
    assert ask(mx.array(3)) in (1, 3), "computed as ever"


class _FromTheWeights(_Curious):
    """The same, of code that comes with weights."""

    __module__ = "weights.fragile"


def test_code_that_comes_with_weights_is_told_no_value() -> None:
    """It may end its process because of one."""
    told: list[int] = []

    def ask(array: Any) -> int:
        told.append(int(array.item()))
        return 0

    assert (share(_FromTheWeights(ask, depends=False)), told) == ({"weights_bytes": 64}, [])


def test_a_model_that_asks_until_the_answer_is_another_is_left_alone() -> None:
    def ask(array: Any) -> int:
        while array.item() < 2:
            pass
        return 0

    assert share(_Curious(ask, depends=False)) == {"weights_bytes": 64}
