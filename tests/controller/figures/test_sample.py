"""What is measured at one moment."""

from __future__ import annotations

from dataclasses import replace

from reconciler.controller.figures.sample import sample
from reconciler.controller.figures.series import Key
from reconciler.state import Contact, NodeName
from reconciler.wire.figures import GatewayFigures, ModelFigures
from reconciler.wire.node import Load
from tests.worlds import two_nodes

TINY = "modeldeployment/tiny"


def figures(errors: int, *first_token: int, pid: int = 7) -> GatewayFigures:
    return GatewayFigures(1, pid, (0.1, 0.2), (ModelFigures("tiny", 2, 1, errors, first_token),))


def test_nodes_that_answer_and_deployments_that_speak_have_figures() -> None:
    world = two_nodes()
    world.settle()
    for id, (place, rank) in world.ranks.items():
        world.ranks[id] = (place, replace(rank, tokens_per_second=20.0))
    nodes = dict(world.observed().nodes)
    a, b = NodeName("node-a"), NodeName("node-b")
    report = nodes[a].report
    assert report is not None
    nodes[a] = replace(nodes[a], report=replace(report, load=Load(0.0, 24 * 2**30, "warn", 2.5)))
    nodes[b] = replace(nodes[b], contact=Contact.UNREACHABLE)
    assert sample(nodes, None, None, 10.0) == {
        Key("node/node-a", "load"): 2.5,
        Key("node/node-a", "memoryUsedBytes"): 40 * 2**30,
        Key(TINY, "tokensPerSecond"): 20.0,
    }


def test_counts_of_the_gateway_are_those_since_the_last_sample() -> None:
    assert sample({}, None, figures(5, 9, 9, 9), 10.0) == {Key(TINY, "running"): 2, Key(TINY, "waiting"): 1}
    assert sample({}, figures(5, 9, 9, 9), figures(6, 9, 19, 9), 10.0) == {
        Key(TINY, "running"): 2,
        Key(TINY, "waiting"): 1,
        Key(TINY, "tokensPerSecond"): 0.0,
        Key(TINY, "errors"): 1,
        Key(TINY, "firstTokenP50"): 0.1 + 0.1 * 0.5,
        Key(TINY, "firstTokenP95"): 0.1 + 0.1 * 0.95,
    }
    begun_anew = sample({}, figures(5, 9, 9, 9), figures(0, 1, 0, 0, pid=8), 10.0)
    assert Key(TINY, "errors") not in begun_anew


def test_tokens_that_came_before_the_last_look_at_the_ranks_count_too() -> None:
    before = GatewayFigures(1, 7, (), (ModelFigures("tiny", 0, 0, 0, (0,), tokens=1000),))
    now = replace(before, models=(replace(before.models[0], tokens=1550),))
    assert sample({}, before, now, 10.0)[Key(TINY, "tokensPerSecond")] == 55.0
