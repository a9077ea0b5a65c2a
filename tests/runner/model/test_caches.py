"""What an examination says that requests take is what they take: of every architecture of mlx-lm that runs here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import mlx.core as mx
import pytest
from mlx_lm.models.cache import make_prompt_cache

from reconciler.planning.context.memory_needs import ModelNeeds, kv_cache_bytes, needs
from reconciler.runner.model.adapter import compile_nothing_on_a_cpu
from reconciler.runner.model.loading import check_batching
from reconciler.runner.model.memory import Size, share, uncommunicated
from reconciler.wire.codec import from_wire
from reconciler.wire.launch import CACHE_STEP, RankEnd
from reconciler.wire.node import ModelReport
from reconciler.wire.weights import RankShare
from tests.runner.model.drawn import architectures, build

pytestmark = pytest.mark.second_tier
PIECE = 256
LENGTHS = (1, 200, 700)
BATCH = 4
UNBATCHED = ("gpt_bigcode",)
"""Of these mlx-lm reads one prompt at a time."""
EVERY_RUN = 4
"""One of so many architectures is tried in every run, and all of them every night."""
SMALL_BYTES = 4096
"""Positions and paddings, a few numbers for each layer and row."""


@pytest.fixture(scope="module", autouse=True)
def _compiled() -> None:
    compile_nothing_on_a_cpu()


def arrays(kept: Any, found: dict[int, Any]) -> list[Any]:
    """Every array that a cache holds, once."""
    if isinstance(kept, mx.array):
        found[id(kept)] = kept
    elif isinstance(kept, list | tuple | dict):
        for each in kept.values() if isinstance(kept, dict) else kept:
            arrays(each, found)
    elif hasattr(kept, "__dict__"):
        arrays(vars(kept), found)
    return list(found.values())


def held(caches: Any) -> int:
    return sum(array.nbytes for array in arrays(caches, {}))


def read(model: Any, tokens: int) -> list[Any]:
    """The caches of a prompt that was read piece by piece."""
    caches = make_prompt_cache(model)
    for start in range(0, tokens, PIECE):
        out = model(mx.zeros((1, min(PIECE, tokens - start)), dtype=mx.int32), cache=caches)
        mx.eval(out, arrays(caches, {}))
    return list(caches)


def decoded(model: Any, tokens: int) -> list[Any]:
    """The caches of several such prompts in one batch, each with two tokens more."""
    prompts = [read(model, tokens) for _ in range(BATCH)]
    caches = [prompts[0][at].merge([each[at] for each in prompts]) for at in range(len(prompts[0]))]
    for _ in range(2):
        out = model(mx.zeros((BATCH, 1), dtype=mx.int32), cache=caches)
        mx.eval(out, arrays(caches, {}))
    return caches


def charged(model: Any, tokens: int, batch: int, piece: bool) -> tuple[int, int]:
    """What requests of so many tokens are charged, and what 256 tokens of each take."""
    told = from_wire(RankShare, share(model))
    assert told.cache is not None, "its code says what it keeps"
    report = ModelReport("m", "/m", True, shares={"tensor/1": (RankShare(0, told.cache),)})
    wanted = ModelNeeds(tokens, batch, prefix_cache=0)
    (running,) = kv_cache_bytes(wanted, report, "tensor", 1)
    if piece:
        (need,), (nothing,) = (
            needs(wanted, each, "tensor", 1)
            for each in (report, ModelReport("m", "/m", True, shares={"tensor/1": (RankShare(0, ()),)}))
        )
        running = need - nothing
    return running, batch * CACHE_STEP * sum(size for most, size in told.cache if most != 1)


def check(model: Any, lengths: Sequence[int], batched: bool) -> None:
    for tokens in lengths:
        most, step = charged(model, tokens, 1, piece=True)
        assert held(read(model, tokens)) <= most + SMALL_BYTES, tokens
        least, _ = charged(model, tokens, 1, piece=False)
        assert least <= held(read(model, tokens)) + step + SMALL_BYTES, tokens
    if batched:
        most, step = charged(model, 300 + 2, BATCH, piece=False)
        found = held(decoded(model, 300))
        assert found <= most + SMALL_BYTES
        assert most <= found + step + SMALL_BYTES


@pytest.mark.parametrize(
    "kind",
    [
        pytest.param(kind, marks=[] if at % EVERY_RUN == 0 else pytest.mark.nightly)
        for at, kind in enumerate(architectures())
    ],
)
def test_requests_take_what_the_examination_says(kind: str) -> None:
    model = build(kind)
    if not _is_refused(model):
        check(model, LENGTHS, kind not in UNBATCHED)


def _is_refused(model: Any) -> bool:
    """Whether no group is formed with such a model, so that it is charged nothing."""
    try:
        check_batching(model, "")
    except RankEnd:
        return True
    return False


@pytest.mark.nightly
@pytest.mark.parametrize("rank", [0, 1])
@pytest.mark.parametrize("strategy", ["tensor", "pipeline"])
@pytest.mark.parametrize("kind", architectures())
def test_requests_take_on_each_rank_what_the_examination_says(kind: str, strategy: str, rank: int) -> None:
    """Where a family can be split, by two ranks that are alone: what others would send has the shape of their own."""
    model = build(kind)
    part = model if strategy == "tensor" else getattr(model, "model", None)
    split = getattr(part, "shard" if strategy == "tensor" else "pipeline", None)
    if split is not None and not _is_refused(model):
        try:
            split(Size(2, rank))
        except ValueError:  # so small a model has dimensions that do not divide
            return
        with uncommunicated():
            check(model, LENGTHS[1:2], batched=False)
