"""Weights that cannot be served are refused in one clear sentence, before anything expensive."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from reconciler.runner.adapter import load_shard
from reconciler.runner.ending import RankEnd
from reconciler.runner.weights import check_division, inspect
from reconciler.wire.launch import ExitCode

from .ranks import running


def remove_config(model: Path) -> None:
    (model / "config.json").unlink()


def break_config(model: Path) -> None:
    (model / "config.json").write_text("{")


def remove_weights(model: Path) -> None:
    (model / "model.safetensors").unlink()


def cut_weights(model: Path) -> None:
    file = model / "model.safetensors"
    file.write_bytes(file.read_bytes()[:-100])


def cut_header(model: Path) -> None:
    (model / "model.safetensors").write_bytes(b"\x10")


def lose_a_shard(model: Path) -> None:
    index = {"weight_map": {"a": "model.safetensors", "b": "model-00002-of-00002.safetensors"}}
    (model / "model.safetensors.index.json").write_text(json.dumps(index))


@pytest.fixture
def copy(endless: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(endless, tmp_path / "copy"))


@pytest.mark.parametrize(
    ("damage", "sentence"),
    [
        (remove_config, "cannot read .*config.json"),
        (break_config, "config.json is not JSON"),
        (remove_weights, "has no model.*safetensors"),
        (cut_weights, "is incomplete: it has"),
        (cut_header, "its header is not there"),
        (lose_a_shard, "lacks 1 of its weight files, the first is model-00002-of-00002"),
    ],
)
def test_damaged_files_are_found_before_loading(
    copy: Path, damage: Callable[[Path], None], sentence: str
) -> None:
    damage(copy)
    with pytest.raises(RankEnd, match=sentence) as end:
        inspect(str(copy))
    assert end.value.code == ExitCode.WEIGHTS


def test_an_unknown_architecture_is_named(copy: Path) -> None:
    config = json.loads((copy / "config.json").read_text())
    (copy / "config.json").write_text(json.dumps({**config, "model_type": "perceptron"}))
    with pytest.raises(RankEnd, match="perceptron") as end:
        load_shard(inspect(str(copy)), None, "tensor", trust_remote_code=False)
    assert end.value.code == ExitCode.WEIGHTS


def test_heads_that_do_not_divide_are_named(endless: Path) -> None:
    with pytest.raises(RankEnd, match="cannot shard 8 attention heads across 3 ranks"):
        check_division(inspect(str(endless)), 3)


def test_a_rank_says_what_is_wrong_with_its_weights_and_exits_with_a_status_of_its_own(copy: Path) -> None:
    cut_weights(copy)
    with running(copy, 1) as group:
        rank = group.ranks[0]
        assert rank.exit_code() == ExitCode.WEIGHTS
        assert "is incomplete: it has" in rank.last.detail
        assert rank.last.detail in rank.text()


def test_a_model_that_cannot_be_a_pipeline_is_refused_by_every_rank(endless: Path) -> None:
    with running(endless, 2, strategy="pipeline") as group:
        codes = {rank.exit_code() for rank in group.ranks}
        assert ExitCode.WEIGHTS in codes
        assert codes <= {ExitCode.WEIGHTS, ExitCode.PEER_LOST}
