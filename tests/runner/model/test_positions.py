"""Positions that a deployment wants scaled are those of a model whose ``config.json`` says so."""

from __future__ import annotations

import asyncio
import json
import shutil
from pathlib import Path
from typing import Any

import mlx.core as mx
import pytest
from mlx_lm.utils import load_config, load_model

from reconciler.runner.model.files import inspect
from reconciler.runner.model.loading import load_shard
from reconciler.runner.model.positions import kinds
from reconciler.wire.launch import RopeKind, RopeScaling
from tests.runner.conftest import greedy_tokens
from tests.runner.ranks import Group, Reply, connected, running

from .architectures import write_architecture

ALL = list(RopeKind.ALL)
IGNORED: list[str] = []
FAMILIES = {
    "llama": ALL, "qwen2": ALL, "kimi_k25": ALL, "gpt_oss": ALL, "ministral3": ALL, "qwen3_next": ALL,
    "qwen3_moe": IGNORED, "glm4_moe": IGNORED,
}  # fmt: skip
"""The kinds that mlx-lm's code of each reads. Of the last two it takes ``rope_scaling``, and looks at it nowhere."""
PROMPT = mx.array([list(range(2, 42))])
SCALING = RopeScaling(RopeKind.YARN, 4.0, 16)


@pytest.mark.parametrize("kind", FAMILIES)
def test_what_changes_no_position_is_no_scaling_that_a_model_can_have(kind: str, tmp_path: Path) -> None:
    folder = write_architecture(tmp_path, kind)
    model, _ = load_model(folder, lazy=True)
    assert kinds(folder, load_config(folder), model) == FAMILIES[kind]


def rewritten(folder: Path, to: Path, **scaling: Any) -> Path:
    """A copy of a model whose ``config.json`` has the scaling."""
    shutil.copytree(folder, to)
    config = json.loads((folder / "config.json").read_text())
    text = config.get("text_config", config)
    name = "rope_parameters" if "rope_parameters" in text else "rope_scaling"
    text[name] = {**(text.get(name) or {}), **scaling}
    (to / "config.json").write_text(json.dumps(config))
    return to


@pytest.mark.parametrize("scaling", ALL)
@pytest.mark.parametrize("kind", ["llama", "qwen2", "kimi_k25", "ministral3"])
def test_a_model_is_as_if_its_own_config_had_the_scaling(kind: str, scaling: str, tmp_path: Path) -> None:
    (tmp_path / "given").mkdir()
    folder = write_architecture(tmp_path / "given", kind)
    fields = {"type": scaling, "rope_type": scaling, "factor": 3.0, "original_max_position_embeddings": 24}
    expected, _ = load_model(rewritten(folder, tmp_path / "written", **fields))
    loaded = load_shard(inspect(str(folder)), None, "", False, RopeScaling(scaling, 3.0, 24))
    usual = load_shard(inspect(str(folder)), None, "", False)
    assert mx.array_equal(loaded.model(PROMPT), expected(PROMPT))
    assert not mx.allclose(loaded.model(PROMPT), usual.model(PROMPT), atol=1e-4)


@pytest.mark.parametrize("strategy", ["tensor", "pipeline"])
def test_every_rank_scales_positions(layered: Path, strategy: str, tmp_path: Path) -> None:
    fields = {"rope_type": SCALING.kind, "factor": 4.0, "original_max_position_embeddings": 16}
    expected = rewritten(layered, tmp_path / "written", **fields)

    async def talk(group: Group) -> Reply:
        async with connected(group.socket) as client:
            return await client.ask("a", "Far away, at the end of a long text, there was this", tokens_max=24)

    with running(layered, 2, strategy=strategy, rope_scaling=SCALING) as group:
        reply = asyncio.run(talk(group.ready()))
        assert group.terminate() == [0, 0]
    assert reply.tokens == greedy_tokens(expected, list(reply.prompt), 24)
    assert reply.tokens != greedy_tokens(layered, list(reply.prompt), 24)
