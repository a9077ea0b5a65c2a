"""What each rank is charged: what the runtime says that it holds, and what is taken where nobody says so."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from reconciler.planning.context import guessed_cache
from reconciler.planning.context.memory_needs import (
    RANK_OVERHEAD_BYTES,
    USUAL_CONTEXT,
    ModelNeeds,
    bits,
    guessed,
    kv_cache_bytes,
    needs,
    one_context_bytes,
    prefix_cache_bytes,
)
from reconciler.state import MachineFacts, NodeName, Plan, PortFacts, RefusedBecause, StartRank
from reconciler.wire.launch import CACHE_STEP
from reconciler.wire.node import ModelReport
from reconciler.wire.weights import RankShare
from tests.worlds import TINY, World, deployment, model, node, settled, two_nodes

GIB = 2**30
LATENT = {
    "tensor/1": (RankShare(20 * GIB, ((0, 1000),)),),
    "tensor/2": (RankShare(11 * GIB, ((0, 1000),)),),
    "pipeline/2": (RankShare(14 * GIB, ((0, 600),)), RankShare(8 * GIB, ((0, 400),))),
}
"""Of a model whose cache every rank of a tensor split holds whole."""


def told(shares: dict[str, tuple[RankShare, ...]] = LATENT, **config: Any) -> ModelReport:
    return ModelReport("m", "/m", True, 20 * GIB, {**TINY, **config}, shares=shares, ranks_tried=8)


def world(*nodes: Any, **spec: Any) -> World:
    found = World([*nodes, model(), deployment(**spec)])
    found.weights["tiny"] = (20 * GIB, TINY)
    found.says["tiny"] = {"shares": LATENT, "ranks_tried": 8}
    return found


def test_a_rank_is_charged_what_the_runtime_says_that_it_holds() -> None:
    model, tokens = ModelNeeds(context=2048, batch=4), (2048 + CACHE_STEP) * 4
    assert needs(model, told(), "tensor", 2) == (11 * GIB + tokens * 1000 + RANK_OVERHEAD_BYTES,) * 2
    stages = (14 * GIB + tokens * 600, 8 * GIB + tokens * 400)
    assert needs(model, told(), "pipeline", 2) == tuple(size + RANK_OVERHEAD_BYTES for size in stages)


def test_beside_one_of_a_full_context_there_is_room_for_usual_requests() -> None:
    model = ModelNeeds(context=131_072, batch=16)
    tokens = 131_072 + CACHE_STEP + 15 * (USUAL_CONTEXT + CACHE_STEP)
    assert kv_cache_bytes(model, told(), "pipeline", 2) == (tokens * 600, tokens * 400)
    assert needs(model, told(), "tensor", 2) == (11 * GIB + tokens * 1000 + RANK_OVERHEAD_BYTES,) * 2


def test_a_deployment_says_how_much_there_is_for_requests_but_no_less_than_for_one() -> None:
    full = 2048 + CACHE_STEP
    for wished, each in ((GIB, (GIB, GIB)), (0, (full * 600, full * 400))):
        model = ModelNeeds(context=2048, batch=4, kv_cache=wished)
        assert kv_cache_bytes(model, told(), "pipeline", 2) == each
        without = needs(ModelNeeds(context=0, batch=4, kv_cache=CACHE_STEP * 600), told(), "pipeline", 2)
        charged = needs(model, told(), "pipeline", 2)
        differences = [more - less for more, less in zip(charged, without, strict=True)]
        assert differences == [size - CACHE_STEP * 600 for size in each]


@pytest.mark.parametrize("how", ["declared", "by its files"])
def test_a_model_for_embeddings_is_charged_for_one_text_at_a_time_and_nothing_that_is_kept(how: str) -> None:
    generating = ModelNeeds(context=2048, batch=1, prefix_cache=0)
    model = ModelNeeds(context=2048, batch=32, prefix_cache=None, embeds=how == "declared")
    report = replace(told(), embeds=how != "declared")
    assert needs(model, report, "tensor", 1) == needs(generating, told(), "tensor", 1)
    assert kv_cache_bytes(model, report, "tensor", 1) == ((2048 + CACHE_STEP) * 1000,)
    assert prefix_cache_bytes(model, report, "tensor", 1) == 0


@pytest.mark.parametrize(
    ("wished", "context"), [(None, 8192), ("7MiB", 7083), ("4GiB", 8192)], ids=["unset", "little", "much"]
)
def test_a_context_that_is_chosen_takes_no_more_than_the_deployment_has_for_requests(
    wished: str | None, context: int
) -> None:
    serving = {"context": "auto", "maxBatch": 2, **({"kvCache": wished} if wished else {})}
    found = World([node("node-a"), model(), deployment(nodes=1, serving=serving)])
    found.weights["tiny"] = (20 * GIB, {**TINY, "max_position_embeddings": 8192})
    found.says["tiny"] = {"shares": LATENT, "ranks_tried": 8}
    found.settle()
    (launched,) = found.done(StartRank)
    chosen = launched.spec.config.context
    assert context - 1024 < chosen <= context
    assert launched.spec.config.kv_cache_bytes[0] >= (chosen + CACHE_STEP) * 1000


def test_what_is_kept_of_earlier_requests_is_charged_on_every_rank_alike() -> None:
    model = ModelNeeds(context=2048, batch=4, prefix_cache=None)
    assert prefix_cache_bytes(model, told(), "pipeline", 2) == 2048 * 600, (
        "one context, where it takes the most"
    )
    assert prefix_cache_bytes(model, told({}), "tensor", 2) == 4096 * 2048 // 2
    for wished, kept in ((None, 2048 * 600), (GIB, GIB), (0, 0)):
        without = needs(replace(model, prefix_cache=0), told(), "pipeline", 2)
        found = needs(replace(model, prefix_cache=wished), told(), "pipeline", 2)
        assert found == tuple(need + kept for need in without)


def test_a_group_that_is_placed_by_a_guess_says_so() -> None:
    for shares, guess in ((LATENT, False), ({}, True)):
        found = world(node("node-a"), node("node-b"))
        found.says["tiny"] = {"shares": shares}
        found.settle()
        assert found.group().guessed is guess


def test_a_rank_may_keep_what_it_is_charged_for() -> None:
    world = settled(World([node("node-a"), model(), deployment(nodes=1, serving={"prefixCache": "64MiB"})]))
    (launched,) = world.done(StartRank)
    assert launched.spec.config.prefix_cache_bytes == 64 << 20


def test_a_window_bounds_what_a_sequence_takes() -> None:
    report = told({"tensor/1": (RankShare(GIB, ((0, 100), (1, 5000), (128, 200))),)})
    (running,) = kv_cache_bytes(ModelNeeds(context=2048, batch=2), report, "tensor", 1)
    assert running == 2 * ((2048 + CACHE_STEP) * 100 + 5000 + 128 * 200)


@pytest.mark.parametrize("shares", [{}, {"tensor/2": (RankShare(5 * GIB),) * 3}], ids=["none", "no answer"])
def test_what_nobody_says_is_a_guess_and_taken_to_be_divided_evenly(
    shares: dict[str, tuple[RankShare, ...]],
) -> None:
    cache = 4096 // 2 * (2048 + CACHE_STEP) * 4
    expected = 10 * GIB + cache + RANK_OVERHEAD_BYTES
    assert needs(ModelNeeds(2048, 4), told(shares), "tensor", 2) == (expected, expected)
    assert kv_cache_bytes(ModelNeeds(2048, 4), told(shares), "tensor", 2) == (cache, cache), (
        "rank 0 keeps to it"
    )
    assert guessed(told(shares), "tensor", 2)
    assert not guessed(told(), "tensor", 2)


def test_a_cache_that_the_runtime_cannot_tell_is_told_by_the_model_s_shape() -> None:
    report = told({"tensor/2": (RankShare(5 * GIB),)})
    expected = 5 * GIB + 4096 // 2 * (2048 + CACHE_STEP) * 4 + RANK_OVERHEAD_BYTES
    assert needs(ModelNeeds(2048, 4), report, "tensor", 2) == (expected, expected)
    assert guessed(report, "tensor", 2)
    assert kv_cache_bytes(ModelNeeds(2048, 4), report, "tensor", 2) == (), "rank 0 cannot tell either"


@pytest.mark.parametrize("shares", [{}, {"tensor/2": (RankShare(10 * GIB),)}], ids=["unasked", "untold"])
def test_the_word_of_a_deployment_takes_the_place_of_a_guess(
    shares: dict[str, tuple[RankShare, ...]],
) -> None:
    model = ModelNeeds(1 << 20, 4, kv_cache=GIB)
    assert needs(model, told(shares), "tensor", 2) == (11 * GIB + RANK_OVERHEAD_BYTES,) * 2
    assert one_context_bytes(model, told(shares), "tensor", 2) == 0


def test_what_a_piece_of_a_prompt_takes_beside_a_window_is_charged() -> None:
    report = told({"tensor/1": (RankShare(GIB, ((0, 100), (1, 5000), (1024, 200))),)})
    for context, beside in ((512, 0), (2048, 1024), (131_072, 2048)):
        model = ModelNeeds(context, batch=1)
        (need,), (running,) = needs(model, report, "tensor", 1), kv_cache_bytes(model, report, "tensor", 1)
        assert need == GIB + running + beside * 200 + RANK_OVERHEAD_BYTES


SHAPE = {
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "head_dim": 32,
    "hidden_size": 512,
    "num_hidden_layers": 3,
}
FEW_HEADS = 2 * 3 * 2 * 32
"""Values of the cache of one token: keys and values, three layers, two heads of 32."""
EXPANDED = {
    "model_type": "deepseek_v2",
    "kv_lora_rank": 512,
    "qk_nope_head_dim": 128,
    "qk_rope_head_dim": 64,
    "v_head_dim": 96,
    "num_hidden_layers": 3,
}
"""A latent, of which mlx-lm keeps the keys and values of all heads."""


@pytest.mark.parametrize(
    ("config", "size"),
    [
        ({**SHAPE, "torch_dtype": "float32"}, FEW_HEADS * 4),
        ({**SHAPE, "dtype": "float32"}, FEW_HEADS * 4),
        ({**SHAPE, "torch_dtype": "bfloat16"}, FEW_HEADS * 2),
        (SHAPE, FEW_HEADS * 2),
        ({"text_config": SHAPE}, FEW_HEADS * 2),
        ({key: value for key, value in SHAPE.items() if key != "num_key_value_heads"}, 4 * FEW_HEADS * 2),
        ({key: value for key, value in SHAPE.items() if key != "head_dim"}, 2 * FEW_HEADS * 2),
        ({"hidden_size": 512, "num_hidden_layers": 3}, 2 * 3 * 512 * 2),
        ({"hidden_size": 511, "num_hidden_layers": 3}, 2 * 3 * 511 * 2),
        ({"head_dim": 32, "hidden_size": 512, "num_hidden_layers": 3}, 2 * 3 * 32 * 2),
        ({"num_key_value_heads": 2, "hidden_size": 512, "num_hidden_layers": 3}, 2 * 3 * 2 * 512 * 2),
        ({**EXPANDED, "num_attention_heads": 8}, 3 * 8 * (128 + 64 + 96) * 2),
        (EXPANDED, 3 * (128 + 64 + 96) * 2),
        ({}, 0),
    ],
    ids=["float32", "its newer name", "bfloat16", "not said", "with images", "a head each", "no size of a head", "one head",
        "one odd head", "one small head", "one head and two that are kept", "a latent that is not kept", "the same of one head",
        "nothing"],
)  # fmt: skip
def test_the_cache_of_a_token_follows_from_the_model_s_shape(config: dict[str, Any], size: int) -> None:
    assert dict(guessed_cache.guessed(config, "tensor", 1)).get(0, 0) == size


def test_the_larger_stage_goes_to_the_node_with_more_room_and_each_is_charged_its_own() -> None:
    """Rank 0 holds most, and the first node by its name has too little room for it."""
    found = world(node("node-a"), node("node-b"), strategy="pipeline")
    found.memory_of = {"node-a": 10 * GIB, "node-b": 16 * GIB}
    assert found.settle() == Plan()
    record = found.group()
    assert record.members == ("node-b", "node-a")
    assert record.charges[0] > 14 * GIB > 10 * GIB > record.charges[1] > 8 * GIB
    assert record.rank_bytes == record.charges[0]
    assert [found.ranks[id][1].memory_bytes for id in record.rank_ids] == list(record.charges)


def test_where_it_fits_ranks_are_in_the_order_of_names() -> None:
    found = world(node("node-a"), node("node-b"), strategy="pipeline")
    found.settle()
    assert found.group().members == ("node-a", "node-b")


def test_auto_takes_a_pipeline_where_tensor_parts_have_no_room() -> None:
    found = world(node("node-a"), node("node-b"), strategy="auto")
    found.memory_of = {"node-a": 10 * GIB, "node-b": 16 * GIB}
    assert found.settle() == Plan()
    record = found.group()
    assert (record.strategy, record.members) == ("pipeline", ("node-b", "node-a"))
    assert "more memory than there is" in record.strategy_why
    found = world(node("node-a"), node("node-b"), strategy="auto")
    found.settle()
    assert found.group().strategy == "tensor"


def test_a_group_that_runs_is_charged_what_it_was_placed_with_whatever_agents_say_since() -> None:
    found = world(node("node-a"), node("node-b"))
    found.says.clear()
    found.settle()
    before = found.group()
    found.says["tiny"] = {"shares": {"tensor/2": (RankShare(60 * GIB, ((0, 1),)),)}, "ranks_tried": 8}
    assert found.plan() == Plan()
    assert found.group().charges == before.charges


def test_unequal_ranks_are_adopted_with_what_each_was_charged() -> None:
    found = world(node("node-a"), node("node-b"), strategy="pipeline")
    found.settle()
    charges = found.group().charges
    found.lose_store()
    found.settle()
    record = found.group()
    assert (record.charges, record.secret) == (charges, "")


def test_a_refusal_names_the_rank_that_has_no_room() -> None:
    found = world(node("node-a"), node("node-b"), strategy="pipeline")
    found.memory_of = {"node-a": 16 * GIB, "node-b": 6 * GIB}
    (refused,) = found.settle().refused
    assert refused.reason is RefusedBecause.NO_MEMORY
    assert refused.text.startswith("needs 8.5 GiB on one of 2 nodes, node-b has 6.0 GiB free; fits: ")


def test_fewer_nodes_are_offered_where_one_has_room_for_all_of_it() -> None:
    found = world(node("node-a"), node("node-b"))
    found.memory_of = {"node-a": 64 * GIB, "node-b": 2 * GIB}
    (refused,) = found.settle().refused
    assert "fits: nodes: 1 or weights with 3 bits" in refused.text


@pytest.mark.parametrize("field", ["context", "maxBatch", "nodes"])
def test_what_is_said_to_fit_with_unequal_ranks_does(field: str) -> None:
    serving = {"context": 200_000, "maxBatch": 150, "prefixCache": "0B"}
    found = world(*(node(f"node-{letter}") for letter in "abc"), strategy="auto", serving=serving)
    shares = {
        "tensor/1": (RankShare(20 * GIB, ((0, 30_000),)),),
        "pipeline/2": (RankShare(14 * GIB, ((0, 18_000),)), RankShare(8 * GIB, ((0, 12_000),))),
        "pipeline/3": (RankShare(6 * GIB, ((0, 9_900),)),),
    }
    found.says["tiny"] = {"shares": shares, "ranks_tried": 8, "unsplittable": {"tensor": "no"}}
    found.memory_of = dict(zip(("node-a", "node-b", "node-c"), (23 * GIB, 21 * GIB, 24 * GIB), strict=True))
    (refused,) = found.settle().refused
    offers = dict(
        offer.split(": ") for offer in refused.text.partition("fits: ")[2].split(" or ") if ":" in offer
    )
    value = int(offers[field])
    changed: dict[str, Any] = {"nodes": value} if field == "nodes" else {"serving": {**serving, field: value}}
    found.manifests[-1] = deployment(strategy="auto", **{"serving": serving, **changed})
    assert found.settle() == Plan()


def test_weights_tell_their_bits() -> None:
    assert bits({"torch_dtype": "float32"}) == 32
    assert bits({"torch_dtype": "float16"}) == 16
    assert bits({"dtype": "bfloat16"}) == 16
    assert bits({"text_config": {"torch_dtype": "bfloat16"}}) == 16
    assert bits({"torch_dtype": "bfloat16", "quantization": {"group_size": 64, "bits": 4}}) == 4
    assert bits({}) == 0


def test_two_nodes_of_a_host_share_it_by_what_each_rank_needs() -> None:
    """14.5 and 8.5 GiB: together on a host of 24, not on one of 22, where halves of 11.5 do not fit either."""
    spec = {"strategy": "pipeline"}
    for memory, fits in ((24 * GIB, True), (22 * GIB, False)):
        found = two_nodes(**spec)
        found.weights["tiny"] = (20 * GIB, TINY)
        found.says["tiny"] = {"shares": LATENT, "ranks_tried": 8}
        found.hosts = {"node-a": "mac", "node-b": "mac"}
        found.memory_bytes = memory
        assert bool(found.settle().refused) != fits


def test_an_order_that_only_a_search_finds_is_found() -> None:
    """The largest part takes the first machine that has room, and leaves too little there for the two others."""
    found = world(*(node(f"node-{letter}") for letter in "abc"), strategy="pipeline", nodes=3)
    stages = tuple(RankShare(size * GIB, ()) for size in (14, 12, 8))
    found.says["tiny"] = {"shares": {"pipeline/3": stages}, "ranks_tried": 8}
    found.hosts = {"node-a": "mac-1", "node-b": "mac-1"}
    found.memory_of = {"node-a": 21 * GIB + GIB // 2, "node-b": 21 * GIB + GIB // 2, "node-c": 15 * GIB}
    assert found.settle() == Plan()
    assert found.group().members == ("node-c", "node-a", "node-b")


def test_nodes_that_nobody_prefers_are_taken_where_only_they_can_be_joined() -> None:
    """The cabled pair that has room is neither the first by name nor near the first that is cabled."""
    found = world(*(node(f"node-{letter}") for letter in "abcde"), nodes=2, transport=["ring"])
    found.memory_of = {"node-b": 2 * GIB}
    for here, there in (
        ("node-a", "node-b"),
        ("node-d", "node-b"),
        ("node-e", "node-b"),
        ("node-d", "node-e"),
    ):
        cable(found, here, there)
    assert found.settle() == Plan()
    assert found.group().members == ("node-d", "node-e")


def cable(found: World, *ends: str) -> None:
    for here, there in (ends, ends[::-1]):
        known = found.facts.get(NodeName(here), MachineFacts())
        port = PortFacts(
            ord(there[-1]), connected=True, active=True, gbps=80, peer=(NodeName(there), ord(here[-1])),
            address=f"10.0.{ord(here[-1])}.{ord(there[-1])}",
        )  # fmt: skip
        found.facts[NodeName(here)] = replace(known, ports=(*known.ports, port))
