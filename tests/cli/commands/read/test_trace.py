"""`trace`: from the commit to the processes, as a tree and as data."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from reconciler.wire.objects import Operation
from tests.cli import bodies
from tests.cli.conftest import Cli, Controller, start_cluster

pytestmark = pytest.mark.processes


@pytest.fixture
def committed(controller: Controller, home: Path) -> None:
    """The manifests of the quickstart are in the repository, and in force."""
    revision = start_cluster(home)
    status: dict[str, Any] = controller.answers["status"]
    controller.answers["status"] = {**status, "revision": revision, "source": "git cluster.git"}


@pytest.mark.usefixtures("committed")
def test_a_deployment_is_followed_to_its_processes(cli: Cli) -> None:
    lines = cli("trace", "deployment/tiny").out.splitlines()
    assert lines[0] == "modeldeployment/tiny   Ready"
    assert lines[1].startswith("├─ commit ")
    assert lines[1].endswith(": Start the cluster")
    assert lines[2] == "│  └─ tiny.yaml"
    assert lines[3] == "├─ uses model/tiny   Ready"
    assert lines[4] == "├─ used by gateway/main   Ready"
    assert lines[5].startswith("└─ group tiny/0, epoch 3, ")
    assert lines[5].endswith(", ports 41000-41002   ready")
    assert [line.partition(", process")[0] for line in lines[6:]] == [
        "   ├─ rank tiny.0.3.0 on node-a",
        "   └─ rank tiny.0.3.1 on node-b",
    ]


@pytest.mark.usefixtures("committed")
def test_a_rank_is_followed_back_to_its_deployment(cli: Cli) -> None:
    back, there = (
        re.sub(r"\d+s ago", "AGE", cli("trace", name).out) for name in ("rank/tiny.0.3.1", "deployment/tiny")
    )
    assert back == there


@pytest.mark.usefixtures("committed")
def test_the_same_as_data(cli: Cli) -> None:
    traced = json.loads(cli("trace", "md/tiny", "-o", "json").out)
    assert traced["commit"]["subject"] == "Start the cluster"
    assert traced["commit"]["inForce"]
    assert [rank["pid"] for rank in traced["groups"][0]["ranks"]] == [4200, 4201]
    assert [item["object"] for item in json.loads(cli("trace", "tiny", "-o", "json").out)["items"]] == [
        "model/tiny",
        "modeldeployment/tiny",
    ]


def test_a_node_has_its_ranks_and_operations(cli: Cli, controller: Controller) -> None:
    others = controller.answers["get"]
    operation: Operation = {
        "apiVersion": bodies.API,
        "kind": "Operation",
        "metadata": {"name": "cordon.node.node-a", "labels": {}},
        "spec": {
            "verb": "cordon", "by": "Ada <ada@example.com>", "at": bodies.ago(), "reason": "the fan is loud",
            "target": {"kind": "Node", "name": "node-a"},
        },
        "status": {"standing": "InForce"},
    }  # fmt: skip
    controller.answers["get"] = lambda asked: (
        {**others(asked), "items": [operation]} if asked.kind == "Operation" else others(asked)
    )
    lines = cli("trace", "node-a").out.splitlines()
    assert lines[0] == "node/node-a   Ready"
    assert "├─ operation cordon by Ada <ada@example.com> (InForce): the fan is loud" in lines
    assert lines[-1].startswith("└─ rank tiny.0.3.0 on node-a, process 4200, ")


def test_what_is_not_there_is_an_error(cli: Cli, controller: Controller) -> None:
    assert 'nodes "node-x" not found' in cli("trace", "node/node-x").err
