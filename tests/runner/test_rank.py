"""What a rank does in a group beside its work."""

from __future__ import annotations

from pathlib import Path

import mlx.core as mx
import pytest

from reconciler.runner import rank
from reconciler.runner.decode.batch import Pulse
from tests.runner.ranks import configs


@pytest.mark.parametrize("seconds", [0.0, 300.0])
@pytest.mark.parametrize("alone", [True, False])
def test_a_group_shows_signs_of_life_as_often_as_it_is_told_and_a_rank_alone_none(
    tmp_path: Path, seconds: float, alone: bool
) -> None:
    config = configs(tmp_path, tmp_path, 2, keep_alive_seconds=seconds)[0]
    group = None if alone else mx.distributed.init()

    assert rank._pulse(config, group) == (None if alone or not seconds else Pulse(group, seconds))
