"""How long the context of a group is, and why."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.planning.placement.contexts import LEAST, STEP, Contexts, Made, explained, made_for
from reconciler.resources import Manifest
from reconciler.state import Plan, RefusedBecause, StartRank
from reconciler.wire.launch import CACHE_STEP, CONTEXT_MAX, RankId, RopeKind, RopeScaling
from reconciler.wire.node import ModelReport
from reconciler.wire.weights import RankShare
from tests.worlds import TINY, World, deployment, model, node

GIB = 2**30
LLAMA: dict[str, Any] = {
    "model_type": "llama",
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "hidden_size": 4096,
    "num_hidden_layers": 32,
    "torch_dtype": "bfloat16",
    "max_position_embeddings": 131072,
    "rope_theta": 500000.0,
    "rope_scaling": {
        "factor": 8.0,
        "original_max_position_embeddings": 8192,
        "rope_type": "llama3",
    },
}
"""Of Llama 3.1 8B: 128 KiB of cache for each token."""
YARN = {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768}


@pytest.mark.parametrize(
    ("config", "made"),
    [
        (LLAMA, Made(131072, "max_position_embeddings")),
        ({"max_position_embeddings": 40960, "rope_scaling": None}, Made(40960, "max_position_embeddings")),
        ({"max_position_embeddings": 40960, "rope_scaling": YARN}, Made(131072, "rope_scaling: yarn")),
        (
            {
                "max_position_embeddings": 163840,
                "rope_scaling": {"type": "yarn", "factor": 40, "original_max_position_embeddings": 4096},
            },
            Made(163840, "max_position_embeddings"),
        ),
        (
            {"max_position_embeddings": 4096, "rope_scaling": {"type": "linear", "factor": 4}},
            Made(16384, "rope_scaling: linear"),
        ),
        (
            {
                "model_type": "gemma3",
                "text_config": {
                    "model_type": "gemma3_text",
                    "max_position_embeddings": 131072,
                    "rope_scaling": {"rope_type": "linear", "factor": 8.0},
                },
            },
            Made(131072, "max_position_embeddings"),
        ),
        (
            {
                "max_position_embeddings": 131072,
                "rope_scaling": {"type": "longrope", "short_factor": [1], "long_factor": [1]},
            },
            Made(131072, "max_position_embeddings"),
        ),
        (
            {
                "max_position_embeddings": 4096,
                "rope_parameters": {
                    "full_attention": {"rope_type": "linear", "factor": 2.0},
                    "sliding_attention": {"rope_type": "default"},
                },
            },
            Made(8192, "rope_scaling: linear"),
        ),
        (
            {"max_position_embeddings": 8192, "model_max_length": 131072},
            Made(131072, "model_max_length"),
        ),
        ({"n_positions": 1024}, Made(1024, "n_positions")),
        ({"text_config": {"max_position_embeddings": 262144}}, Made(262144, "max_position_embeddings")),
        ({"model_type": "mamba2"}, None),
        ({"max_position_embeddings": "many"}, None),
        (
            {"max_position_embeddings": 2048, "rope_scaling": {"type": "yarn", "factor": None}},
            Made(2048, "max_position_embeddings"),
        ),
    ],
    ids=["Llama 3.1", "Qwen 3", "Qwen 3 stretched", "DeepSeek V3", "Vicuna 16k", "Gemma 3", "Phi 3", "several kinds of layers", "Command R", "GPT 2", "with images", "Mamba 2", "nonsense", "a factor of null"],
)  # fmt: skip
def test_a_config_says_what_its_model_was_made_for(config: dict[str, Any], made: Made | None) -> None:
    assert made_for(config) == made


numbers = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=2)


@given(
    st.dictionaries(
        st.sampled_from(["max_position_embeddings", "n_positions", "text_config", "rope_scaling"]),
        numbers
        | st.dictionaries(
            st.sampled_from(["type", "factor", "original_max_position_embeddings", "full_attention"]),
            numbers | st.just("yarn") | st.just("linear"),
        ),
    )
)
def test_no_config_stops_the_planner(config: dict[str, Any]) -> None:
    found = Contexts.of(deployment(), ModelReport("m", "/m", True, config=config))
    assert 1 <= found.least <= found.most <= CONTEXT_MAX


@given(st.integers(1, CONTEXT_MAX), st.integers(0, CONTEXT_MAX))
def test_the_longest_that_fits_is_found_to_a_step(most: int, room: int) -> None:
    contexts, tried = Contexts(min(most, LEAST), most), list[int]()

    def fits(context: int) -> bool:
        tried.append(context)
        return context <= room

    found = contexts.largest(fits)
    assert contexts.least not in tried
    assert all(context in (most, found) or context % STEP == 0 for context in tried)
    assert contexts.least <= found <= contexts.most
    assert found <= room or found == contexts.least
    assert found == contexts.most or found + STEP > min(room, contexts.most)


def world(*memory: int, config: dict[str, Any] | None = None, **serving: Any) -> World:
    """One node for each number of GiB, and a deployment on one of them."""
    names = [f"node-{chr(ord('a') + at)}" for at in range(len(memory))]
    found = World([*map(node, names), model(), deployment(nodes=1, serving=serving)])
    found.weights["tiny"] = (5 * GIB, LLAMA if config is None else config)
    found.memory_of = {name: size * GIB for name, size in zip(names, memory, strict=True)}
    return found


def formed(found: World, name: str = "tiny") -> tuple[tuple[str, ...], int]:
    assert found.settle() == Plan()
    record = found.group(name)
    return tuple(record.members), record.context


def test_a_context_is_what_the_model_was_made_for_where_memory_allows() -> None:
    assert formed(world(64, config={**TINY, "max_position_embeddings": 40960})) == (("node-a",), 40960)
    assert formed(world(1024)) == (("node-a",), 131072)


def test_where_memory_is_short_a_context_leaves_as_much_to_others_as_it_takes() -> None:
    found = world(48, maxBatch=15, prefixCache="0B")
    _, context = formed(found)
    record = found.group()
    least = 15 * (4096 + CACHE_STEP) * 128 * 2**10 + 5 * GIB + 2**29
    assert context % STEP == 0
    assert 4096 < context < 131072
    taken = record.charges[0] - least
    left = 48 * GIB - record.charges[0]
    assert 0 <= left - taken < 2 * 15 * STEP * 128 * 2**10, "not a step more would do"
    found.manifests.append(deployment("other", nodes=1, serving={"maxBatch": 15, "prefixCache": "0B"}))
    assert formed(found, "other")[1] >= 4096


def test_the_least_context_takes_whatever_memory_there_is() -> None:
    assert formed(world(15, prefixCache="0B")) == (("node-a",), 4096)


def test_what_has_no_room_for_the_least_context_is_refused_with_what_would_fit() -> None:
    (refusal,) = world(10, prefixCache="0B").settle().refused
    assert refusal.reason is RefusedBecause.NO_MEMORY
    assert re.search(r"fits: context: 2048 or maxBatch: 8", refusal.text), refusal.text


def test_a_node_that_allows_much_more_is_preferred_and_one_that_allows_a_little_more_is_not() -> None:
    assert formed(world(32, 96))[0] == ("node-b",)
    assert formed(world(80, 96))[0] == ("node-a",)


def test_layers_with_a_window_allow_a_longer_context() -> None:
    """Of 32 layers, four see everything."""
    found = world(32)
    all_layers = formed(found)[1]
    window = RankShare(5 * GIB, ((0, 16 * 2**10), (1024, 112 * 2**10)))
    found = world(32)
    found.says["tiny"] = {"shares": {"tensor/1": (window,)}, "ranks_tried": 1}
    assert formed(found)[1] > 5 * all_layers


def test_a_model_that_does_not_say_what_it_was_made_for_gets_the_least() -> None:
    assert formed(world(1024, config=TINY)) == (("node-a",), LEAST)


def test_a_number_is_taken_as_it_is() -> None:
    assert formed(world(64, context=2000)) == (("node-a",), 2000)


def test_a_number_that_the_model_was_not_made_for_is_refused_with_the_figures() -> None:
    found = scalable(world(1024, config={**LLAMA, "rope_scaling": None}, context=200_000))
    (refusal,) = found.settle().refused
    assert refusal.reason is RefusedBecause.CONTEXT_TOO_LONG
    assert refusal.text == (
        "context: 200000 is more than model tiny was made for: 131072, by max_position_embeddings in its config.json;"
        " lower it, or leave it out, or, if its authors say that it can take it, set"
        " ropeScaling: {type: yarn, factor: 2, originalContext: 131072}"
    )
    (refusal,) = world(1024, config={**TINY, "n_positions": 1024}, context=2048).settle().refused
    assert refusal.text.endswith("; lower it, or leave it out"), "its positions cannot be scaled"


SCALING = {"type": "yarn", "factor": 2, "originalContext": 40960}
QWEN = {**TINY, "max_position_embeddings": 40960}


def scalable(found: World, *kinds: str) -> World:
    """A world whose runtime can scale the positions of the model."""
    found.says["tiny"] = {"rope": kinds or RopeKind.ALL}
    return found


def test_scaled_positions_allow_a_longer_context() -> None:
    found = scalable(world(1024, config=QWEN, ropeScaling=SCALING))
    assert formed(found) == (("node-a",), 81920)
    (config, *_) = (step.spec.config for step in found.done(StartRank))
    assert config.rope_scaling == RopeScaling(RopeKind.YARN, 2.0, 40960)
    auto = deployment(serving={"ropeScaling": SCALING})
    report = ModelReport("m", "/m", True, config=QWEN, rope=RopeKind.ALL)
    assert explained(auto, report, 81920) == "a context of 81920, by serving.ropeScaling of the deployment"
    assert explained(auto, report, 9216) == (
        "a context of 9216, for which there was room, of 81920 that serving.ropeScaling allows"
    )


def test_another_scaling_of_positions_needs_another_group() -> None:
    found = scalable(world(1024, config=QWEN))
    formed(found)
    found.manifests[-1] = deployment(nodes=1, serving={"ropeScaling": SCALING})
    assert formed(found)[1] == 81920
    assert found.group().epoch == 2


@pytest.mark.parametrize(
    ("kinds", "serving", "text"),
    [
        (
            ("linear", "llama3"),
            {},
            "mlx-lm cannot scale the positions of model tiny (qwen3) by yarn, it can by linear or llama3;"
            " change or remove serving.ropeScaling",
        ),
        (
            (),
            {},
            "mlx-lm cannot scale the positions of model tiny (qwen3) by yarn, nor by any other kind;"
            " change or remove serving.ropeScaling",
        ),
        (
            RopeKind.ALL,
            {"ropeScaling": {**SCALING, "originalContext": 65536}},
            "originalContext: 65536 is more than model tiny was made for: 40960, by max_position_embeddings in its"
            " config.json; lower it",
        ),
    ],
    ids=["another kind", "no kind, or a runtime that does not tell", "a length that it was not made for"],
)
def test_positions_that_cannot_be_scaled_so_are_refused(
    kinds: tuple[str, ...], serving: dict[str, Any], text: str
) -> None:
    found = world(1024, config=QWEN, **{"ropeScaling": SCALING, **serving})
    found.says["tiny"] = {"rope": kinds}
    (refusal,) = found.settle().refused
    assert (refusal.reason, refusal.text) == (RefusedBecause.ROPE_SCALING, text)


def test_a_context_beyond_what_scaled_positions_allow_is_refused() -> None:
    found = scalable(world(1024, config=QWEN, ropeScaling=SCALING, context=100_000))
    (refusal,) = found.settle().refused
    assert refusal.reason is RefusedBecause.CONTEXT_TOO_LONG
    assert refusal.text == (
        "context: 100000 is more than serving.ropeScaling allows: 81920; lower it, or raise the factor"
    )


def test_what_a_group_was_formed_with_stays_whatever_memory_there_is() -> None:
    found = world(64)
    before = formed(found)
    found.memory_of["node-a"] = 1024 * GIB
    assert found.settle() == Plan()
    assert formed(found) == before
    assert found.group().epoch == 1
    found.end_rank(RankId("tiny", 0, 1, 0), signal=9)
    assert formed(found)[1] > before[1], "the next group takes what there is then"


def test_a_group_that_is_formed_again_has_no_shorter_context_because_others_came_meanwhile() -> None:
    """Answers go on with it, which may be as long as the context."""
    found = world(64)
    before = formed(found)
    found.manifests.append(deployment("other", nodes=1))
    formed(found, "other")
    for _ in range(3):
        found.end_rank(found.group().rank_id(0), signal=9)
        assert formed(found) == before


def test_a_group_that_is_formed_again_takes_no_more_than_the_first_time() -> None:
    found = world(64)
    before = formed(found)
    for _ in range(3):
        found.end_rank(found.group().rank_id(0), signal=9)
        assert formed(found) == before


def test_a_group_of_another_spec_leaves_as_much_to_others_as_a_new_one() -> None:
    found = world(64)
    before = formed(found)[1]
    found.manifests.append(deployment("other", nodes=1))
    formed(found, "other")
    found.manifests[-2] = deployment(nodes=1, restartedAt="2026-01-01T00:00:00Z")
    assert formed(found)[1] < before
    assert found.group().epoch == 2


@pytest.mark.parametrize("memory", [24, 64], ids=["less than half of the longest", "half of the longest"])
def test_a_group_that_is_formed_again_stays_where_its_context_has_room(memory: int) -> None:
    found = world(memory)
    before = formed(found)
    found.manifests.append(node("node-b"))
    found.memory_of["node-b"] = 1024 * GIB
    found.settle()
    found.end_rank(found.group().rank_id(0), signal=9)
    assert formed(found) == before


def test_a_change_from_a_number_to_auto_forms_the_group_anew() -> None:
    found = world(64, context=8192)
    assert formed(found)[1] == 8192
    found.manifests[-1] = deployment(nodes=1)
    assert formed(found)[1] > 8192
    assert found.group().epoch == 2


def test_every_rank_is_started_with_the_context_of_its_group() -> None:
    found = world(64)
    _, context = formed(found)
    assert {report.context for _, report in found.ranks.values()} == {context}
    found.lose_store()
    assert formed(found)[1] == context, "an adopted group keeps it"


def test_clients_are_told_the_context_that_every_group_takes() -> None:
    manifests: list[Manifest] = [node("node-a"), node("node-b"), model()]
    found = World([*manifests, deployment(nodes=1, replicas=2)])
    found.weights["tiny"] = (5 * GIB, LLAMA)
    found.memory_of = {"node-a": 96 * GIB, "node-b": 48 * GIB}

    def told() -> int:
        (route,) = found.routes(Plan())
        return route.context

    assert told() == 0, "it is not decided yet"
    found.settle()
    contexts = [record.context for record in found.groups.values()]
    assert len(set(contexts)) == 2
    assert told() == min(contexts)


def test_people_are_told_why_a_context_is_what_it_is() -> None:
    auto, report = deployment(), ModelReport("m", "/m", True, config=LLAMA)
    assert explained(auto, report, 131072) == "a context of 131072, by max_position_embeddings of the model"
    assert explained(auto, report, 9216) == (
        "a context of 9216, for which there was room, of 131072 that the model was made for"
    )
    assert explained(deployment(serving={"context": 64}), report, 64) == ""
