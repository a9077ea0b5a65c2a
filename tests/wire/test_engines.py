"""Engines are rows that both sides know: packages, pins, and the command of a rank."""

from __future__ import annotations

import re
import tomllib

from reconciler.agent.ranks.standby import program_of_ranks
from reconciler.wire.engines import ENGINES, MLX
from tests.documents.newcomer import ROOT


def test_an_agent_starts_the_ranks_of_the_engine_before_they_are_asked_for() -> None:
    assert program_of_ranks("/opt/python") == (MLX.argv("/opt/python"), MLX.environment)


def test_packages_that_must_be_equal_are_some_of_all() -> None:
    assert [each for each in ENGINES if not set(each.equal) < set(each.packages)] == []


def test_the_packages_are_pinned_as_the_project_does() -> None:
    runtime = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"][
        "runtime"
    ]
    pinned = [re.sub(r"\[.*?\]|;.*", "", line).strip() for line in runtime]
    assert [pin for each in ENGINES for pin in each.pins if pin not in pinned] == []


def test_a_rank_needs_every_package() -> None:
    assert MLX.packages == ("mlx", "mlx-lm", "llguidance")
    assert MLX.lacking({"mlx": "1", "mlx-lm": "2", "llguidance": "3"}) == []
    assert MLX.lacking({"mlx": "1", "llguidance": "3"}) == ["mlx-lm"]
    assert MLX.lacking(None) == ["mlx", "mlx-lm", "llguidance"]


def test_a_rank_is_started_by_the_interpreter_of_its_node() -> None:
    assert MLX.argv("/opt/python") == ("/opt/python", "-m", "reconciler.runner")
