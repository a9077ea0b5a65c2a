"""What no declared node could ever hold is said with its figures, and only where every fact is known."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from reconciler.planning.context.world import World as Asked
from reconciler.planning.placement.capacity import beyond_all_nodes
from reconciler.resources import Manifest
from reconciler.state.identity import NodeName, ObjectKey
from tests.worlds import World, deployment, model, node

GIB = 2**30
KEY = ObjectKey("ModelDeployment", "tiny")


def world(*manifests: Manifest, weights: int = 100 * GIB, nodes: int = 2, **config: Any) -> Asked:
    """Nodes of 64 GiB that have reported, and weights that they have examined."""
    here = World([*(node(f"n{at}") for at in range(nodes)), model(), *manifests])
    here.weights["tiny"] = (weights, here.weights["tiny"][1])
    here.settle()
    return here.seen()


def said(asked: Asked, *keys: ObjectKey) -> str:
    return "; ".join(beyond_all_nodes(asked, frozenset(keys or (KEY,))))


def test_a_model_larger_than_the_nodes_that_it_names_is_said_with_what_would_do() -> None:
    text = said(world(deployment(nodes=1)))
    assert text.startswith("modeldeployment/tiny: needs 100.")
    assert "GiB on one node, and the largest of 2 declared holds" in text
    assert "fits: nodes: 2" in text
    assert said(world(deployment(nodes=2))) == ""


def test_a_model_larger_than_all_nodes_together_is_said() -> None:
    text = said(world(deployment(nodes=2), weights=200 * GIB))
    assert "GiB on 2 nodes, and the nodes declared hold" in text
    assert said(world(deployment(nodes={"min": 1, "max": 4}), weights=200 * GIB, nodes=4)) == ""
    assert "GiB on 2 nodes, and the 2 largest of 3 declared hold" in said(
        world(deployment(nodes={"min": 1, "max": 2}), weights=200 * GIB, nodes=3)
    )


def test_what_its_model_changes_concerns_it_too() -> None:
    asked = world(deployment(nodes=1))
    assert said(asked, ObjectKey("Model", "tiny")) != ""
    assert said(asked, ObjectKey("ModelDeployment", "other")) == ""


@pytest.mark.parametrize("missing", ["report", "weights", "nodes", "replicas"])
def test_nothing_is_said_where_a_fact_is_missing_or_nothing_is_asked_for(missing: str) -> None:
    if missing == "nodes":
        assert said(world(deployment(nodes=3), weights=900 * GIB)) == ""
    elif missing == "replicas":
        assert said(world(deployment(nodes=1, replicas=0))) == ""
    else:
        asked = world(deployment(nodes=1))
        seen = dict(asked.observed.nodes)
        for name in [NodeName("n1")] if missing == "report" else [NodeName("n0"), NodeName("n1")]:
            report = seen[name].report
            assert report is not None
            seen[name] = replace(
                seen[name], report=None if missing == "report" else replace(report, models=())
            )
        assert said(replace(asked, observed=replace(asked.observed, nodes=seen))) == ""


def test_nodes_that_may_be_used_again_count() -> None:
    asked = world(deployment(nodes=2), node("n9", drain=True))
    assert said(asked) == ""


def test_nodes_that_a_deployment_never_uses_do_not() -> None:
    placed = deployment(nodes=1, placement={"nodeSelector": {"pool": "big"}})
    assert "the largest of 1 declared" in said(world(placed, node("n9", labels={"pool": "big"})))
