"""`verify`: a checklist that names what is to blame, within 100 columns."""

from __future__ import annotations

import json
from typing import Any

import pytest

from reconciler.errors import Refused
from reconciler.wire.admin import Accept

from .conftest import Cli, Controller


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
    left = ["the ranks measure", "4 answers at once", ""]

    def answer(message: Accept) -> dict[str, Any]:
        doing = left.pop(0)
        body = {"deployment": "tiny", "ok": False, "replicas": [REPLICA]}
        return {"run": "r1", "doing": doing, **({} if doing else body)}

    controller.answers["accept"] = answer
    return controller


def test_it_reads_as_a_list_and_ends_with_a_verdict(cli: Cli, tried: Controller, monkeypatch: Any) -> None:
    monkeypatch.setattr("reconciler.cli.verify.terminal_width", lambda: 100)
    done = cli("verify", "deployment/tiny", "--under-load")
    assert done.code == 1
    assert done.out == (
        "tiny/0, epoch 3, on node-a, node-b over jaccl\n"
        "ok       every rank works: node-a 64 steps, 1.1 cores, node-b 64 steps, 1.0 cores\n"
        "FAILED   every node is as fast as the others: node-a 10.00 ms, node-b 31.00 ms; to blame: node-b\n"
        "-        more nodes are faster: not measured: there is no group of fewer nodes to compare with\n"
        "\n"
        "tiny is not well: every node is as fast as the others; to blame: node-b; 1 could not be measured or\n"
        "compared\n"
    )
    asked = [message for message in tried.heard if isinstance(message, Accept)]
    assert [(each.deployment, each.under_load, each.run) for each in asked] == [
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
