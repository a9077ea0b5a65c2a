"""Real ranks on emulated Macs whose RDMA gives wrong results without an error: none of them ever serves."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator
from pathlib import Path

import mlx.core as mx
import pytest
from mlx.utils import tree_flatten
from mlx_lm.models import qwen3

from reconciler.runner.model.long_prompt import DEVIATION_MAX, TOKENS
from reconciler.sandbox.emulated.results import LONG_TOKENS
from reconciler.sandbox.world import changes, macs
from reconciler.wire.launch import ExitCode, Phase
from reconciler.wire.measuring import Measure, Measured
from tests.runner.conftest import TINY, write_config, write_tokenizer
from tests.runner.ranks import READY_SECONDS, connected

from .rig import PHASES, Rig, ends, rig

pytestmark = pytest.mark.second_tier

NAMES = ["studio-1", "studio-2", "studio-3", "studio-4"]
GROUPS = [NAMES[:2], NAMES]
"""With two ranks sums have the same bits in every order, with four they do not."""
SHORT, LONG = 300, TOKENS + 1
"""Contexts: the prompt is as long as the context allows."""
SECONDS = 3 * READY_SECONDS
"""A CPU reads the long prompt slowly."""


@pytest.fixture(scope="module")
def four() -> Iterator[Rig]:
    """Four, each joined to each."""
    with rig(macs.world(NAMES, "studio", macs.MESH, NAMES, time.time() - 600)) as built:
        yield built


@pytest.fixture
def studios(four: Rig) -> Iterator[Rig]:
    """The same, and as before afterwards."""
    before = four.world
    yield four
    four.change(lambda world: before)


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model with little to compute for each token."""
    directory = tmp_path_factory.mktemp("small")
    write_tokenizer(directory)
    config = write_config(directory, "qwen3") | {"num_attention_heads": 4}
    (directory / "config.json").write_text(json.dumps(config))
    mx.random.seed(5)
    weights = dict(tree_flatten(qwen3.Model(qwen3.ModelArgs.from_dict(config)).parameters()))
    weights = {name: weight * 4 if weight.ndim == 2 else weight for name, weight in weights.items()}
    mx.save_safetensors(str(directory / "model.safetensors"), weights, metadata={"format": "mlx"})
    return directory


@pytest.mark.parametrize("members", GROUPS, ids=len)
def test_a_group_with_right_results_is_ready_and_says_what_it_has_proven(
    studios: Rig, members: list[str]
) -> None:
    with studios.running(TINY, members, context=SHORT, prove=True) as group:
        group.ready()
        for rank in group.ranks:
            assert list(dict.fromkeys(report.phase for report in rank.reports)) == PHASES
            proof = rank.last.proof
            assert proof is not None
            assert proof.prompt_tokens == SHORT - 1
            assert proof.deviation < DEVIATION_MAX / 10
            assert proof.largest_bytes == 2 * 2048 * 192


@pytest.mark.parametrize("members", GROUPS, ids=len)
@pytest.mark.parametrize("how", ["sums", "zeros"])
def test_sums_that_are_wrong_end_the_group_when_it_is_formed_proven_or_not(
    studios: Rig, members: list[str], how: str
) -> None:
    spoiled(studios, members[-1], how)
    with studios.running(TINY, members, context=SHORT) as group:
        codes = ends(group)
    assert codes[-1] == ExitCode.WRONG_RESULT
    assert "the sum of arrays of 65536 bytes is wrong" in group.ranks[-1].last.detail
    assert set(codes) <= {ExitCode.WRONG_RESULT, ExitCode.PEER_LOST}
    assert not any(report.phase == Phase.LOADING for report in group.ranks[-1].reports)


@pytest.mark.parametrize("members", GROUPS, ids=len)
def test_answers_that_are_wrong_for_long_prompts_alone_end_the_group_before_it_is_ready(
    studios: Rig, small: Path, members: list[str]
) -> None:
    assert TOKENS > LONG_TOKENS
    spoiled(studios, members[-1], "long")
    with studios.running(small, members, context=LONG, prove=True) as group:
        codes = ends(group, SECONDS)
    assert ExitCode.WRONG_RESULT in codes
    assert set(codes) <= {ExitCode.WRONG_RESULT, ExitCode.PEER_LOST}
    guilty = group.ranks[codes.index(ExitCode.WRONG_RESULT)].last.detail
    assert f"the model reads a prompt of {TOKENS} tokens over RDMA differently than over TCP" in guilty
    assert not any(report.phase == Phase.READY for rank in group.ranks for report in rank.reports)


@pytest.mark.parametrize("members", GROUPS, ids=len)
def test_right_answers_for_long_prompts_are_no_alarm(studios: Rig, small: Path, members: list[str]) -> None:
    with studios.running(small, members, context=LONG, prove=True) as group:
        for rank in group.ranks:
            rank.wait_for(Phase.READY, SECONDS)
            assert rank.last.proof is not None
            assert rank.last.proof.prompt_tokens == TOKENS
            assert rank.last.proof.deviation < DEVIATION_MAX / 10


async def test_a_measurement_checks_sums_in_a_group_that_serves(studios: Rig) -> None:
    with studios.running(TINY, NAMES[:2], context=SHORT) as group:
        group.ready()
        async with connected(group.socket) as client:
            client.send(Measure("right", rounds=4))
            measured = await asyncio.wait_for(client.next("right"), READY_SECONDS)
            assert isinstance(measured, Measured)
            assert measured.summed_bytes == measured.large_bytes
            spoiled(studios, NAMES[1], "sums")
            client.send(Measure("wrong", rounds=4))
            codes = await asyncio.to_thread(ends, group)
    assert codes[1] == ExitCode.WRONG_RESULT


def spoiled(studios: Rig, name: str, how: str) -> None:
    studios.change(lambda world: changes.fault(world, name, garbage=how))
