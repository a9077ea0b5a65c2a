"""What needs more memory than there is by a guess alone is not refused for it, and no guess is told without that word."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from reconciler.planning.context.guessed_cache import guessed
from reconciler.state import Plan, RefusedBecause, WaitingFor
from reconciler.wire.node import ModelReport
from reconciler.wire.weights import FailedExamination, RankShare
from tests.worlds import TINY, World, deployment, model, node, shares

GIB = 2**30
FAILED = FailedExamination("it took longer than 120 s", 1, since=1000.0, again=1030.0)
KIMI_K2: dict[str, Any] = {
    "model_type": "kimi_k2", "hidden_size": 7168, "num_hidden_layers": 61, "num_attention_heads": 64,
    "num_key_value_heads": 64, "kv_lora_rank": 512, "q_lora_rank": 1536, "qk_rope_head_dim": 64, "qk_nope_head_dim": 128,
    "v_head_dim": 128, "max_position_embeddings": 131_072, "torch_dtype": "bfloat16",
}  # fmt: skip
"""The fields of its ``config.json`` that say what its cache takes."""
LARGE: dict[str, Any] = {**TINY, "num_hidden_layers": 4000}
"""By a guess, 8 requests of 8192 tokens take 256 GiB."""


def world(
    *, nodes: int = 1, weights: int = 20 * GIB, config: dict[str, Any] = LARGE, **serving: Any
) -> World:
    """Nodes whose runtime has not said what a model's code keeps."""
    manifests = [node(f"node-{letter}") for letter in "abcdefgh"[:nodes]]
    found = World(
        [*manifests, model(), deployment(nodes=nodes, serving={"context": 8192, "maxBatch": 8, **serving})]
    )
    found.weights["tiny"] = (weights, config)
    found.says["tiny"] = {"shares": {}, "examination": FAILED}
    return found


def test_what_does_not_fit_by_a_guess_waits_for_the_next_examination() -> None:
    found = world()
    plan = found.settle()
    assert plan.refused == ()
    (waiting,) = plan.waiting
    assert (waiting.reason, waiting.until) == (WaitingFor.EXAMINATION, FAILED.again)
    assert "GiB (guessed) on a node, node-a has the most free: 64.0 GiB" in waiting.text
    assert waiting.text.endswith(
        "the examination of its weights on node-a failed: it took longer than 120 s; it is tried again at 00:17:10 UTC"
    )
    found.says["tiny"] = {"shares": {"tensor/1": (RankShare(20 * GIB, ((0, 1000),)),)}}
    assert found.settle() == Plan()
    assert not found.group().guessed


def test_what_would_not_fit_without_any_request_is_refused_whoever_has_yet_to_say_more() -> None:
    (refusal,) = world(weights=100 * GIB).settle().refused
    assert refusal.reason is RefusedBecause.NO_MEMORY
    assert "(guessed)" in refusal.text
    assert refusal.text.endswith("its weights alone need 100.5 GiB")


@pytest.mark.parametrize("told", [{}, {"tensor/1": (RankShare(20 * GIB),)}], ids=["unasked", "untold"])
def test_where_nobody_will_say_more_the_deployment_can(told: dict[str, tuple[RankShare, ...]]) -> None:
    found = world()
    found.says["tiny"] = {"shares": told}
    (refusal,) = found.settle().refused
    assert "GiB (guessed)" in refusal.text
    assert refusal.text.endswith("or say what requests may take: serving.kvCache")
    found = world(kvCache="8GiB", prefixCache="0B")
    found.says["tiny"] = {"shares": told}
    assert found.settle() == Plan()
    record = found.group()
    assert record.charges == (28 * GIB + GIB // 2,)
    assert record.guessed


def test_what_fits_by_a_guess_is_placed_and_told_as_one() -> None:
    found = world(config=TINY)
    assert found.settle() == Plan()
    assert found.group().guessed


def test_another_node_s_examination_of_the_same_weights_counts_also_where_it_is_not_used() -> None:
    found = world(nodes=1)
    found.manifests.insert(0, node("node-z", unschedulable=True))
    examined = ModelReport("tiny", "/models/tiny", True, 20 * GIB, LARGE, shares=shares(20 * GIB, TINY))
    found.reports["node-z"] = {"models": (examined,)}
    assert found.settle() == Plan()
    assert found.group().members == ("node-a",)
    assert not found.group().guessed


OTHERS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "another version of mlx": ({}, {"runtime": {"mlx": "0.32.3", "mlx-lm": "0.32.2", "llguidance": "1.9.1"}}),
    "another version of mlx-lm": (
        {},
        {"runtime": {"mlx": "0.32.4", "mlx-lm": "0.32.1", "llguidance": "1.9.1"}},
    ),
    "weights of another size": ({"weights_bytes": 20 * GIB + 1}, {}),
    "another config": ({"config": TINY}, {}),
    "no shares": ({"shares": {}}, {}),
}


@pytest.mark.parametrize("other", OTHERS)
def test_another_node_s_examination_of_something_else_does_not_count(other: str) -> None:
    weights, runtime = OTHERS[other]
    found = world(nodes=1)
    found.manifests.insert(0, node("node-z", unschedulable=True))
    examined = ModelReport("tiny", "/models/tiny", True, 20 * GIB, LARGE, shares=shares(20 * GIB, TINY))
    found.reports["node-z"] = {"models": (replace(examined, **weights),), **runtime}
    (waiting,) = found.settle().waiting
    assert waiting.reason is WaitingFor.EXAMINATION


def test_kimi_k2_needs_by_a_guess_what_it_needs() -> None:
    """Compressed attention: 576 values for each token and layer. With keys and values of all heads it would be 57 times as much."""
    found = world(nodes=4, weights=600 * GIB, config=KIMI_K2, context=131_072, maxBatch=16)
    found.memory_bytes = 512 * GIB
    assert found.settle() == Plan()
    (need, *others) = found.group().charges
    assert not others or set(others) == {need}
    assert 150 * GIB < need < 190 * GIB


def test_a_model_without_a_latent_keeps_keys_and_values_whatever_its_heads_are_made_of() -> None:
    plain = {**TINY, "kv_lora_rank": None}
    turned = {**plain, "qk_rope_head_dim": 64, "qk_nope_head_dim": 128}
    assert guessed(turned, "tensor", 1) == guessed(plain, "tensor", 1)
