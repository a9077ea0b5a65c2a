"""Sharded equals unsharded, token for token in float32, whatever the architecture; else it is refused, with words.

What is tried on real ranks is everything that the product would do, by its own answer.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy
import pytest

from reconciler.fetcher.fetch import fetch
from reconciler.fetcher.progress import ProgressReport
from reconciler.planning.context.sharding import STRATEGIES, Split, Unsplit, alternatives, obstacle, split
from reconciler.runner.examination import examine
from reconciler.runner.model.files import check_division, inspect
from reconciler.runner.model.loading import load_shard
from reconciler.runner.model.memory import Size
from reconciler.wire.launch import RankEnd
from reconciler.wire.node import ModelReport
from reconciler.wire.weights import FetchJob, FetchSource
from tests.fetcher.hub import COMMIT, REPO, folder, serving
from tests.runner.conftest import greedy_tokens
from tests.runner.ranks import connected, each_rank, running

from .architectures import ARCHITECTURES, write_architecture
from .one_of_many import OWN, PROMPTS, TOKENS, answers

PAGE = (Path(__file__).parents[3] / "docs" / "models.md").read_text()
TABLE = PAGE.split("## Other refusals")[0]
SIZES = (2, *(pytest.param(size, marks=pytest.mark.second_tier) for size in (3, 4)))
PIECES, PIECES_OF = ("qwen2", "qwen3_moe", "deepseek_v3", "kimi_k25"), 3
"""Of these, ranks of a pipeline of so many get only the weight files that they need."""
RING_SECONDS = 240.0
MARGIN = 0.02
"""The likeliest token stands out by so much at least, of logits between which about four lie."""
ROUNDING = 1e-3
"""Sums of parts differ from sums of the whole by this at most."""

Answers = dict[str, Any]


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return {kind: write_architecture(tmp_path_factory.mktemp(kind), kind) for kind in ARCHITECTURES}


@pytest.fixture(scope="module")
def examined(folders: dict[str, Path]) -> dict[str, dict[str, Any]]:
    return {kind: examine(folder) for kind, folder in folders.items()}


@pytest.fixture(scope="module")
def reports(folders: dict[str, Path], examined: dict[str, dict[str, Any]]) -> dict[str, ModelReport]:
    """What a node says of each, as the controller gets it."""
    return {kind: report(folder, examined[kind]) for kind, folder in folders.items()}


def report(folder: Path, examined: dict[str, Any]) -> ModelReport:
    config = json.loads((folder / "config.json").read_text())
    return ModelReport(
        "m",
        str(folder),
        True,
        1,
        config,
        problem=examined.get("problem", ""),
        unsplittable=examined["unsplittable"],
        ranks_tried=examined["ranks_tried"],
    )


@pytest.fixture(scope="module")
def unsharded(folders: dict[str, Path]) -> dict[str, Answers]:
    """Each in one process, which has all of it."""
    return {kind: answers(folder, None, "tensor") for kind, folder in folders.items()}


@pytest.fixture(scope="module")
def pieces(
    folders: dict[str, Path],
    examined: dict[str, dict[str, Any]],
    tmp_path_factory: pytest.TempPathFactory,
) -> dict[str, Path]:
    """For each rank a folder with what its node would have fetched, as the runtime says what that is."""
    found = {}
    quiet = ProgressReport(os.open(os.devnull, os.O_WRONLY))
    for kind in PIECES:
        found[kind] = tmp_path_factory.mktemp(f"pieces-{kind}")
        with serving(folder(folders[kind])) as hub:
            source = FetchSource(REPO, COMMIT, hub.endpoint)
            for rank, share in enumerate(examined[kind]["shares"][f"pipeline/{PIECES_OF}"]):
                fetch(FetchJob(str(found[kind] / str(rank)), source, only=tuple(share["files"])), quiet)
    return found


@pytest.fixture(scope="module", params=SIZES)
def sharded(
    request: pytest.FixtureRequest,
    folders: dict[str, Path],
    reports: dict[str, ModelReport],
    pieces: dict[str, Path],
    unsharded: dict[str, Answers],
) -> dict[str, list[Answers]]:
    """By architecture, strategy and number of ranks, as in ``llama/tensor/2``: what each rank of a real ring said."""
    size = request.param
    keys = [
        (f"{kind}/{strategy}/{size}", str(folders[kind]), strategy)
        for kind, examined in reports.items()
        for strategy in STRATEGIES
        if obstacle(strategy, examined, size) is None
    ]
    if size == PIECES_OF:
        keys += [(f"{kind}/pieces/{size}", f"{at}/{OWN}", "pipeline") for kind, at in pieces.items()]
    ranks = in_a_ring(size, keys)
    assert {f"{kind}/tensor/{size}" for kind in ARCHITECTURES if size != PIECES_OF} <= {
        key for key, *_ in keys
    }
    return {key: [rank[key] for rank in ranks] for key, *_ in keys}


def in_a_ring(size: int, jobs: Sequence[tuple[str, str, str]]) -> list[dict[str, Answers]]:
    """The answers of each rank of one ring, which takes one job after the other."""
    return each_rank(size, "tests.runner.model.one_of_many", json.dumps(jobs), seconds=RING_SECONDS)


def of(kind: str, sharded: dict[str, list[Answers]]) -> dict[str, list[Answers]]:
    return {key: ranks for key, ranks in sharded.items() if key.startswith(f"{kind}/")}


@pytest.mark.second_tier
@pytest.mark.parametrize("kind", ARCHITECTURES)
def test_one_process_says_what_mlx_lm_says(
    kind: str, folders: dict[str, Path], unsharded: dict[str, Answers]
) -> None:
    tokens = unsharded[kind]["tokens"]
    assert tokens == [greedy_tokens(folders[kind], prompt, TOKENS) for prompt in PROMPTS]
    assert all(len(answer) == TOKENS and len(set(answer)) > TOKENS / 2 for answer in tokens)
    ordered = numpy.sort(numpy.array(unsharded[kind]["logits"]), axis=-1)
    assert (ordered[..., -1] - ordered[..., -2]).min() > MARGIN


@pytest.mark.second_tier
@pytest.mark.parametrize("kind", ARCHITECTURES)
def test_every_rank_says_token_for_token_what_one_process_says(
    kind: str, unsharded: dict[str, Answers], sharded: dict[str, list[Answers]]
) -> None:
    for key, ranks in of(kind, sharded).items():
        assert [rank["tokens"] for rank in ranks] == [unsharded[kind]["tokens"]] * len(ranks), key


@pytest.mark.parametrize("kind", ARCHITECTURES)
def test_every_rank_would_say_so_by_itself(
    kind: str, unsharded: dict[str, Answers], sharded: dict[str, list[Answers]]
) -> None:
    """Rank 0 decides what is said: of the others only their logits tell whether they computed the same."""
    for key, ranks in of(kind, sharded).items():
        for rank in ranks:
            away = numpy.abs(numpy.array(rank["logits"]) - numpy.array(unsharded[kind]["logits"])).max()
            assert away < ROUNDING, key


@pytest.mark.parametrize("kind", ARCHITECTURES)
def test_the_page_says_of_each_how_it_can_be_split(kind: str, reports: dict[str, ModelReport]) -> None:
    rows = re.findall(r"^\| `(\w+)` \| (.+?) \| (.+?) \|$", TABLE, re.MULTILINE)
    written = {name: dict(zip(STRATEGIES, cells, strict=True)) for name, *cells in rows}
    assert written.keys() == ARCHITECTURES.keys()
    for strategy in STRATEGIES:
        why = obstacle(strategy, reports[kind], 2)
        assert written[kind][strategy] == (f"refused: {why.text}" if why else "equal")


@pytest.mark.parametrize("kind", ARCHITECTURES)
def test_what_is_refused_comes_with_what_would_work(kind: str, reports: dict[str, ModelReport]) -> None:
    examined = reports[kind]
    why = split("tensor", examined, 3)
    assert why == Unsplit("its 8 heads do not divide by 3", lasting=False)
    pipeline = " or strategy: pipeline with 3 nodes" if obstacle("pipeline", examined, 3) is None else ""
    assert alternatives("tensor", examined, range(1, 5)) == f"nodes: 1, 2 or 4{pipeline}"
    if obstacle("pipeline", examined, 2):
        assert (
            alternatives("pipeline", examined, range(1, 5))
            == "nodes: 1 or strategy: tensor with 2 or 4 nodes"
        )
    else:
        assert alternatives("pipeline", examined, range(2, 7)) == "nodes: 2, 3 or 4"
        assert split("auto", examined, 3) == Split("pipeline", f"auto: not by tensor, {why.text}")


def test_what_mlx_lm_stumbles_over_is_refused_as_well(tmp_path: Path) -> None:
    """It takes experts to be shared where there are any, though the architecture can do without."""
    path = write_architecture(tmp_path, "deepseek_v3", n_shared_experts=None) / "config.json"
    config = json.loads(path.read_text())
    del config["n_shared_experts"]
    path.write_text(json.dumps(config))
    examined = report(tmp_path, examine(tmp_path))
    stumbled = "mlx-lm fails to split it: 'DeepseekV3MoE' object has no attribute 'shared_experts'"
    assert split("tensor", examined, 2) == Unsplit(stumbled, lasting=False)
    assert (
        alternatives("tensor", examined, range(1, 5)) == "nodes: 1 or strategy: pipeline with 2, 3 or 4 nodes"
    )


@pytest.mark.parametrize("kind", ARCHITECTURES)
def test_a_rank_refuses_what_was_refused(
    kind: str, folders: dict[str, Path], reports: dict[str, ModelReport]
) -> None:
    files = inspect(str(folders[kind]))
    with pytest.raises(RankEnd, match="cannot shard 8 attention heads across 3 ranks"):
        check_division(files, 3)
    why = obstacle("pipeline", reports[kind], 2)
    if why:
        with pytest.raises(RankEnd, match=why.text):
            load_shard(files, Size(2), "pipeline", False)


@pytest.mark.parametrize("kind", PIECES)
def test_a_stage_has_only_what_it_needs_and_serves_as_nothing_else(
    kind: str, folders: dict[str, Path], pieces: dict[str, Path]
) -> None:
    held = [len(full(pieces[kind] / str(rank))) for rank in range(PIECES_OF)]
    assert all(count < len(full(folders[kind])) for count in held)
    assert set().union(*(full(pieces[kind] / str(rank)) for rank in range(PIECES_OF))) == full(folders[kind])
    mine = inspect(str(pieces[kind] / "0"))
    assert mine.digest == inspect(str(folders[kind])).digest
    for group, strategy in ((Size(PIECES_OF, 1), "pipeline"), (Size(2), "tensor"), (None, "tensor")):
        with pytest.raises(RankEnd, match="has only an outline of model-0"):
            load_shard(mine, group, strategy, False)


def full(path: Path) -> set[str]:
    """The weight files that are there with their content."""
    return {each.name for each in path.glob("model*.safetensors") if each.read_bytes()[-64:] != bytes(64)}


@pytest.mark.parametrize(("kind", "strategy"), [("deepseek_v3", "tensor"), ("ministral3", "pipeline")])
async def test_a_group_answers_what_one_process_says(
    kind: str, strategy: str, folders: dict[str, Path], unsharded: dict[str, Answers]
) -> None:
    with running(folders[kind], 2, strategy=strategy) as group:
        await asyncio.to_thread(group.ready)
        async with connected(group.socket) as client:
            requests = [
                client.ask(f"{n}", "", messages=(), prompt_tokens=tuple(prompt), tokens_max=TOKENS)
                for n, prompt in enumerate(PROMPTS)
            ]
            replies = await asyncio.gather(*requests)
        assert group.terminate() == [0, 0]
    assert [reply.tokens for reply in replies] == unsharded[kind]["tokens"]
