"""Steps about weights, carried out on a real node's disk."""

from __future__ import annotations

import pytest

from reconciler.execution import Tools
from reconciler.execution.handlers import carry_out
from reconciler.state.machine.weights import RemoveWeights
from reconciler.wire.weights import hub_path
from tests.agent.bench import Bench

from .test_repairs import NODE, bench, tools

pytestmark = pytest.mark.processes

__all__ = ["bench", "tools"]


async def test_weights_that_are_removed_are_gone_from_the_node_and_others_stay(
    bench: Bench,
    tools: Tools,
) -> None:
    old, new = (hub_path("org/tiny", letter * 40) for letter in "ab")
    for path in (old, new):
        (bench.models / path).mkdir(parents=True)
    await bench.quick_agent()
    await carry_out(RemoveWeights(NODE, old, 1), tools)
    assert not (bench.models / old).exists()
    assert (bench.models / new).exists()
    assert NODE in tools.volatile.writes, "only what is seen later shows it"
