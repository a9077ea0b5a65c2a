"""What the engine's descriptor says is what the rooms that must not import it do."""

from __future__ import annotations

import re
import tomllib
from typing import get_args

from reconciler.agent.ranks.standby import program_of_ranks
from reconciler.engine import MLX
from reconciler.planning.transport import fallback
from reconciler.resources.deployment import Transport
from reconciler.state.machine import compatibility
from tests.documents.newcomer import ROOT


def test_manifests_offer_the_transports_of_the_engine_in_its_order() -> None:
    assert get_args(Transport) == tuple(each.name for each in MLX.transports)
    assert (fallback.VERBS, fallback.CABLES) == (("jaccl", "jaccl-ring"), ("jaccl", "jaccl-ring", "ring"))
    assert (fallback.RINGS, fallback.MESH, fallback.LAN) == (("jaccl-ring", "ring"), "jaccl", "ring-lan")


def test_the_agent_asks_for_the_packages_and_starts_the_ranks_of_the_engine_before_they_are_asked_for() -> (
    None
):
    assert (
        f"for name in {str(MLX.packages).replace(chr(39), chr(34))}:"
        in (ROOT / "reconciler/agent/weights/runtime.py").read_text()
    )
    assert program_of_ranks("/opt/python") == (MLX.argv("/opt/python"), dict(MLX.environment))
    assert {compatibility.MLX, compatibility.MLX_LM} < set(MLX.packages), (
        "what is only rank 0's need not be equal"
    )


def test_the_packages_are_pinned_as_the_project_does() -> None:
    runtime = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"][
        "runtime"
    ]
    pinned = [re.sub(r"\[.*?\]|;.*", "", line).strip() for line in runtime]
    assert [each for each in MLX.pins if each not in pinned] == []
    assert [each.partition("==")[0] for each in MLX.pins] == list(MLX.packages)


def test_a_rank_needs_every_package() -> None:
    assert MLX.lacking({"mlx": "1", "mlx-lm": "2", "llguidance": "3"}) == []
    assert MLX.lacking({"mlx": "1", "llguidance": "3"}) == ["mlx-lm"]
    assert MLX.lacking(None) == ["mlx", "mlx-lm", "llguidance"]


def test_a_rank_is_started_by_the_interpreter_of_its_node() -> None:
    assert MLX.argv("/opt/python") == ("/opt/python", "-m", "reconciler.runner")
