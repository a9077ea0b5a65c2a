"""Which strategy a group gets, and what is said where none works."""

from __future__ import annotations

from typing import Any

import pytest

from reconciler.planning.context.sharding import Split, Unsplit, alternatives, split, splits
from reconciler.state import Plan, RefusedBecause
from reconciler.wire.node import ModelReport
from tests.worlds import TINY, World, deployment, model, node

NO_PIPELINE = {"pipeline": "mlx-lm cannot run qwen3 models as a pipeline"}


def weights(unsplittable: dict[str, str] | None = None, ranks_tried: int = 8, **config: Any) -> ModelReport:
    body = {**TINY, **config}
    return ModelReport("m", "/m", True, 1, body, unsplittable=unsplittable or {}, ranks_tried=ranks_tried)


def why_not(wanted: str, report: ModelReport, ranks: int) -> str:
    answer = split(wanted, report, ranks)
    assert isinstance(answer, Unsplit), answer
    return answer.text


def test_auto_takes_tensor_where_it_works_and_a_pipeline_where_not_and_says_why() -> None:
    assert split("auto", weights(), 2) == Split("tensor", "auto: the model can be split by tensor")
    assert split("auto", weights(), 3) == Split(
        "pipeline", "auto: not by tensor, its 8 heads do not divide by 3"
    )
    assert why_not("auto", weights(NO_PIPELINE), 3) == (
        "its 8 heads do not divide by 3; mlx-lm cannot run qwen3 models as a pipeline"
    )


@pytest.mark.parametrize(
    ("unsplittable", "layers", "lasting"),
    [
        ({"tensor": "never", "pipeline": "never"}, 4, True),
        ({"tensor": "never"}, 1, False),
        ({"pipeline": "never", "tensor/2": "it failed"}, 4, False),
    ],
)
def test_a_model_can_never_be_split_only_if_neither_strategy_ever_works(
    unsplittable: dict[str, str], layers: int, lasting: bool
) -> None:
    answer = split("auto", weights(unsplittable, num_hidden_layers=layers), 2)
    assert isinstance(answer, Unsplit)
    assert answer.lasting is lasting


def test_one_rank_needs_no_strategy() -> None:
    report = weights({"tensor": "no", "pipeline": "no"})
    assert isinstance(split("pipeline", report, 1), Split)


@pytest.mark.parametrize(
    ("wanted", "ranks", "unsplittable", "strategies"),
    [
        ("auto", 2, {}, ["tensor", "pipeline"]),
        ("auto", 1, {}, ["tensor"]),
        ("auto", 2, NO_PIPELINE, ["tensor"]),
        ("auto", 3, {}, ["pipeline"]),
        ("tensor", 2, {}, ["tensor"]),
        ("pipeline", 2, {}, ["pipeline"]),
    ],
)
def test_auto_has_a_second_choice_where_both_work(
    wanted: str, ranks: int, unsplittable: dict[str, str], strategies: list[str]
) -> None:
    possible = splits(wanted, weights(unsplittable), ranks)
    assert isinstance(possible, tuple)
    assert [each.strategy for each in possible] == strategies


def test_what_cannot_be_split_at_all_has_no_choice() -> None:
    answer = splits("auto", weights({"tensor": "no", "pipeline": "never"}), 2)
    assert answer == Unsplit("no; never", lasting=True)
    assert splits("tensor", weights(), 3) == Unsplit("its 8 heads do not divide by 3", lasting=False)


@pytest.mark.parametrize(
    ("config", "ranks", "text"),
    [
        ({}, 16, "its 8 heads do not divide by 16"),
        ({}, 8, "its 4 KV heads do not divide by 8"),
        (
            {
                "num_key_value_heads": None,
                "text_config": {"num_attention_heads": 6},
                "num_attention_heads": None,
            },
            4,
            "",
        ),
        ({"text_config": {"num_experts": 3}}, 2, ""),
        ({"num_attention_heads": "many"}, 3, "its 4 KV heads do not divide by 3"),
    ],
)
def test_heads_must_divide(config: dict[str, Any], ranks: int, text: str) -> None:
    answer = split("tensor", weights(**config), ranks)
    assert (answer.text if isinstance(answer, Unsplit) else "") == text


def test_a_text_model_one_level_deeper_is_found() -> None:
    nested = {"text_config": {"num_attention_heads": 8, "num_key_value_heads": 4, "num_hidden_layers": 2}}
    report = ModelReport("m", "/m", True, 1, nested)
    assert why_not("tensor", report, 8) == "its 4 KV heads do not divide by 8"
    assert why_not("pipeline", report, 3) == "its 2 layers are fewer than 3 stages"


def test_what_the_runtime_tried_counts_before_what_the_shape_suggests() -> None:
    tried = "Cannot shard the output of size 384 across 4 devices"
    assert why_not("tensor", weights({"tensor/4": tried}), 4) == tried
    quantized: Any = {"quantization": {"group_size": 64, "bits": 4, "model.norm": False}}
    assert isinstance(split("tensor", weights(**quantized), 4), Split)
    assert why_not("tensor", weights(ranks_tried=0, **quantized), 4) == (
        "its intermediate_size of 384 is no multiple of 4 quantization groups of 64"
    )
    array = "Array split does not result in sub arrays with equal size"
    assert why_not("tensor", weights({"tensor/4": array}, **quantized), 4) == (
        "its intermediate_size of 384 is no multiple of 4 quantization groups of 64"
    )
    whole = weights({"tensor/4": array}, intermediate_size=383)
    assert why_not("tensor", whole, 4) == array, "without quantization there are no groups"
    experts: Any = {**quantized, "moe_intermediate_size": 64}
    assert "moe_intermediate_size of 64" in why_not("tensor", weights(ranks_tried=0, **experts), 2)


def test_the_nearest_that_works_is_named() -> None:
    assert alternatives("tensor", weights(NO_PIPELINE), range(1, 5)) == "nodes: 1, 2 or 4"
    assert alternatives("pipeline", weights(NO_PIPELINE), range(1, 4)) == (
        "nodes: 1 or strategy: tensor with 2 nodes"
    )
    assert alternatives("auto", weights({**NO_PIPELINE, "tensor": "no"}), range(2, 4)) == ""


def test_an_architecture_that_cannot_be_split_is_refused_before_anything_is_started() -> None:
    world = World([node("node-a"), node("node-b"), model(), deployment(strategy="pipeline")])
    world.says["tiny"] = {"unsplittable": NO_PIPELINE}
    decided = world.settle()
    (refused,) = decided.refused
    assert (refused.reason, world.alive()) == (RefusedBecause.NOT_SUPPORTED, [])
    assert refused.text == (
        "model tiny cannot be split as a pipeline over 2 nodes: mlx-lm cannot run qwen3 models as a pipeline; "
        "works: nodes: 1 or strategy: tensor with 2 nodes"
    )


def test_the_strategy_that_was_taken_is_written_down_and_told_to_every_rank() -> None:
    nodes = [node(f"node-{letter}") for letter in "abc"]
    world = World([*nodes, model(), deployment(nodes=3, strategy="auto")])
    assert world.settle() == Plan()
    record = world.group()
    assert (record.strategy, record.strategy_why) == (
        "pipeline",
        "auto: not by tensor, its 8 heads do not divide by 3",
    )
    starts = [step for step in world.history if hasattr(step, "spec")]
    assert {step.spec.config.strategy for step in starts} == {"pipeline"}
