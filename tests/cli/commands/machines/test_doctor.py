"""`doctor`: findings that a person can act on, within 100 columns."""

from __future__ import annotations

import json
from typing import Any

import pytest

from reconciler.wire.admin import Doctor
from tests.cli.conftest import Cli, Controller

STEPS = (
    "on node-a: shut down; hold the power button until the startup options load; Options, Continue; Utilities,"
    " Terminal; type: rdma_ctl enable; restart"
)
FINDINGS = [
    {
        "class": "C2",
        "title": "RDMA disabled",
        "objects": ["node/node-a", "modeldeployment/tiny"],
        "nodes": ["node-a"],
        "seen": "RDMA is disabled on node-a",
        "means": "groups with this machine use TCP; only a person can enable RDMA",
        "steps": STEPS,
        "person": True,
    },
    {
        "class": "C8",
        "title": "rank crash",
        "objects": ["modeldeployment/tiny"],
        "nodes": ["node-a", "node-b"],
        "seen": "rank 1 on node-b (epoch 2, pid 4102) was killed by signal 9",
        "means": "a group cannot continue without one of its ranks: all of them are restarted",
        "steps": "nothing: the controller is working on it (form the group again)",
        "person": False,
    },
]
UNKNOWN = [
    {"node": "node-b", "what": "whether FileVault is on", "why": "there is no fdesetup on this machine"},
    {
        "node": "node-a",
        "what": "whether heat slows it down",
        "why": "sudo does not allow it without a password",
    },
    {"node": "node-a", "what": "its use of swap", "why": "it printed nothing"},
    {"node": "node-a", "what": "its version of macOS", "why": "it printed nothing"},
]
HEALED = [
    {"id": 7, "class": "C9", "openedAt": "2026-11-21T03:12:07.000Z", "summary": "rank 0 hung; tiny/0 serves again"}
]  # fmt: skip


@pytest.fixture
def consulted(controller: Controller) -> Controller:
    """A controller that asks its two nodes first, then has two findings."""
    rounds: list[list[str]] = [["node-a", "node-b"], ["node-b"], []]
    found = {"nodes": ["node-a", "node-b"], "findings": FINDINGS, "notKnown": UNKNOWN, "healed": HEALED}

    def answer(message: Doctor) -> dict[str, Any]:
        asking = rounds.pop(0)
        return {"run": "r1", "asking": asking, **({} if asking else found)}

    controller.answers["doctor"] = answer
    return controller


def test_it_reads_from_what_was_seen_to_what_to_do(cli: Cli, consulted: Controller, monkeypatch: Any) -> None:
    monkeypatch.setattr("reconciler.cli.commands.machines.doctor.page_width", lambda: 100)
    done = cli("doctor")
    assert done.code == 1
    assert done.out == (
        "C2   RDMA disabled: node/node-a, modeldeployment/tiny\n"
        "     seen    RDMA is disabled on node-a\n"
        "     means   groups with this machine use TCP; only a person can enable RDMA\n"
        "     to do   on node-a: shut down; hold the power button until the startup options load; Options,\n"
        "             Continue; Utilities, Terminal; type: rdma_ctl enable; restart\n"
        "\n"
        "C8   rank crash: modeldeployment/tiny\n"
        "     seen    rank 1 on node-b (epoch 2, pid 4102) was killed by signal 9\n"
        "     means   a group cannot continue without one of its ranks: all of them are restarted\n"
        "     to do   nothing: the controller is working on it (form the group again)\n"
        "\n"
        "Healed within the last hour:\n"
        "  03:12 UTC  C9   rank 0 hung; tiny/0 serves again (reconciler incidents 7)\n"
        "\n"
        "Unknown, so neither fine nor wrong:\n"
        "  node-a: its use of swap, its version of macOS: it printed nothing\n"
        "  node-a: whether heat slows it down: sudo does not allow it without a password\n"
        "  node-b: whether FileVault is on: there is no fdesetup on this machine\n"
        "\n"
        "2 findings on 2 nodes, 1 for a person\n"
    )
    assert max(map(len, done.out.splitlines())) <= 100
    assert [message.run for message in consulted.received] == ["", "r1", "r1"]


def test_json_has_all_of_it_and_nothing_else(cli: Cli, consulted: Controller) -> None:
    done = cli("doctor", "-o", "json")
    assert done.code == 1
    assert json.loads(done.out) == {
        "nodes": ["node-a", "node-b"],
        "findings": FINDINGS,
        "notKnown": UNKNOWN,
        "healed": HEALED,
    }


def test_without_findings_it_exits_with_0_and_says_what_is_not_known(
    cli: Cli, controller: Controller
) -> None:
    found = {"nodes": ["node-a"], "findings": [], "notKnown": UNKNOWN[:1], "healed": []}
    controller.answers["doctor"] = {"run": "r1", "asking": [], **found}
    done = cli("doctor", "node-a")
    assert (done.code, done.out.splitlines()[-1]) == (0, "no findings on 1 node; 1 fact is unknown")
    assert controller.received[-1].nodes == ("node-a",)


def test_an_unknown_name_gets_the_nearest_right_one(cli: Cli, controller: Controller) -> None:
    done = cli("doctor", "node-x")
    assert (done.code, done.out) == (1, "")
    assert 'did you mean "node-' in done.err


def test_without_a_controller_it_says_what_to_do(cli: Cli) -> None:
    done = cli("doctor")
    assert (done.code, done.out) == (1, "")
    assert "no controller runs in" in done.err
    assert "start it with: reconciler up" in done.err
