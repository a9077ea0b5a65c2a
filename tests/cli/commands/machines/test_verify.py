"""`verify`: a checklist that names what is to blame, within 100 columns."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from reconciler.errors import Refused
from reconciler.resources import ModelDeployment
from reconciler.wire.admin import Accept, Get
from tests.cli import bodies
from tests.cli.commands.write.test_manifests import git
from tests.cli.conftest import Cli, Controller, start_cluster

WISH = {
    "apiVersion": "reconciler/v1alpha1",
    "kind": "ModelDeployment",
    "metadata": {"name": "tiny"},
    "spec": {"model": "tiny", "parallelism": {"nodes": 2}, "serving": {"aliases": ["other"]}},
}


def check(name: str, ok: bool | None, text: str, *blame: str) -> dict[str, Any]:
    return {"name": name, "ok": ok, "text": text, "blame": list(blame)}


CHECKS = [
    check("every rank works", True, "node-a 64 steps, 1.1 cores, node-b 64 steps, 1.0 cores"),
    check("every node is as fast as the others", False, "node-a 10.00 ms, node-b 31.00 ms", "node-b"),
    check("more nodes are faster", None, "not measured: there is no group of fewer nodes to compare with"),
]
REPLICA = {"replica": 0, "epoch": 3, "nodes": ["node-a", "node-b"], "transport": "jaccl", "checks": CHECKS}


@pytest.fixture
def tried(controller: Controller) -> Controller:
    """A controller that tries a deployment in two rounds."""
    left = ["the ranks are measuring", "4 answers at once", ""]

    def answer(message: Accept) -> dict[str, Any]:
        doing = left.pop(0)
        body = {"deployment": "tiny", "ok": False, "replicas": [REPLICA]}
        return {"run": "r1", "doing": doing, **({} if doing else body)}

    controller.answers["accept"] = answer
    return controller


def test_it_reads_as_a_list_and_ends_with_a_verdict(cli: Cli, tried: Controller, monkeypatch: Any) -> None:
    monkeypatch.setattr("reconciler.cli.commands.machines.verify.page_width", lambda: 100)
    done = cli("verify", "deployment/tiny", "--under-load")
    assert done.code == 1
    assert done.out == (
        "tiny/0, epoch 3, on node-a, node-b over jaccl\n"
        "ok       every rank works: node-a 64 steps, 1.1 cores, node-b 64 steps, 1.0 cores\n"
        "FAILED   every node is as fast as the others: node-a 10.00 ms, node-b 31.00 ms; to blame: node-b\n"
        "-        more nodes are faster: not measured: there is no group of fewer nodes to compare with\n"
        "\n"
        "tiny has problems: every node is as fast as the others; to blame: node-b; 1 could not be measured or\n"
        "compared\n"
    )
    requests = [message for message in tried.received if isinstance(message, Accept)]
    assert [(each.deployment, each.under_load, each.run) for each in requests] == [
        ("tiny", True, ""),
        ("tiny", True, "r1"),
        ("tiny", True, "r1"),
    ]


def test_json_has_all_of_it(cli: Cli, tried: Controller) -> None:
    done = cli("verify", "tiny", "-o", "json")
    assert done.code == 1
    assert json.loads(done.out) == {"deployment": "tiny", "ok": False, "replicas": [REPLICA]}


def test_what_is_not_there_or_does_not_serve_is_an_error_with_what_to_do(
    cli: Cli, controller: Controller
) -> None:
    assert 'did you mean "tiny"' in cli("verify", "tiyn").err
    controller.answers["accept"] = Refused(
        "NotServing", "no group of tiny serves now; see: reconciler describe"
    )
    done = cli("verify", "tiny")
    assert (done.code, done.out) == (1, "")
    assert "no group of tiny serves now" in done.err


# --- smaller groups ----------------------------------------------------------------------------------


@pytest.fixture
def scaled(controller: Controller, home: Path) -> Controller:
    """A controller over a repository, which has a smaller group serve as soon as it is committed."""
    start_cluster(home)
    spec = ModelDeployment.model_validate_json(json.dumps(WISH)).spec.model_dump(
        mode="json", by_alias=True, exclude_none=True
    )

    def get(message: Get[Any]) -> dict[str, Any]:
        files = git(home, "ls-tree", "-r", "--name-only", "main")
        there = message.name != "tiny-verify-1" or "tiny-verify-1.yaml" in files
        item = bodies.item("ModelDeployment", message.name or "tiny", spec)
        item["status"]["groups"] = [{"nodes": ["node-a", "node-b"], "epoch": 3, "since": None}]
        return {"items": [item] if there else [], "version": "1"}

    def accept(message: Accept) -> dict[str, Any]:
        streams = [{"streams": 1, "tokensPerSecond": 12.5}]
        body = {"deployment": message.deployment, "ok": True, "replicas": [{**REPLICA, "streams": streams}]}
        return {"run": "r1", "doing": "", **(body if message.run else {})}

    controller.answers |= {"get": get, "accept": accept}
    return controller


def test_smaller_groups_are_formed_measured_and_removed(cli: Cli, scaled: Controller, home: Path) -> None:
    done = cli("verify", "tiny", "--scale", "--yes", "-o", "json")
    assert done.code == 0, done.err
    assert json.loads(done.out)["scale"] == [{"nodes": 1, "rate": 12.5, "problem": ""}]
    requests = [message for message in scaled.received if isinstance(message, Accept) and not message.run]
    assert [(each.deployment, dict(each.smaller)) for each in requests] == [
        ("tiny-verify-1", {}),
        ("tiny", {"1": 12.5}),
    ]
    assert git(home, "log", "--format=%s", "main").splitlines()[:2] == [
        "Delete modeldeployment/tiny-verify-1",
        "Verify with modeldeployment/tiny-verify-1",
    ]
    committed = git(home, "show", "main~1:tiny-verify-1.yaml")
    assert yaml.safe_load(committed)["spec"]["parallelism"]["nodes"] == {"max": 1, "min": 1}


def test_a_smaller_group_that_cannot_be_formed_is_reported_and_removed(
    cli: Cli, scaled: Controller, home: Path
) -> None:
    scaled.answers["accept"] = lambda message: (
        Refused("NotServing", "no group of tiny-verify-1 serves now")
        if message.deployment == "tiny-verify-1"
        else {"run": "r1", "doing": "", "deployment": "tiny", "ok": True, "replicas": [REPLICA]}
    )
    done = cli("verify", "tiny", "--scale", "--yes")
    assert done.code == 0, done.err
    assert "a group of 1 could not be measured: no group of tiny-verify-1 serves now" in done.out
    assert "tiny-verify-1.yaml" not in git(home, "ls-tree", "--name-only", "main")


def test_nothing_is_formed_without_consent(cli: Cli, scaled: Controller, home: Path) -> None:
    done = cli("verify", "tiny", "--scale")
    assert (done.code, done.out) == (1, "")
    assert "add --yes" in done.err
    assert git(home, "log", "--format=%s", "main").splitlines() == ["Start the cluster"]
