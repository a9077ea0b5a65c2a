"""`reboot`: an operation that asks for restarts, and the wait until each machine is back."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from reconciler.cli.commands.machines.reboot import _unserved
from tests.cli import bodies
from tests.cli.commands.write.test_manifests import ROOT
from tests.cli.commands.write.test_writing import (
    committed,
    future,
    log,
    operations,
    template,
    watched,
)
from tests.cli.conftest import Cli, Controller

pytestmark = pytest.mark.processes

__all__ = ["committed", "template", "watched"]


def node(name: str, boot: str, busy: str = "", agent: str = "reached", wish: str | None = "one") -> Any:
    item = bodies.node(name)
    item["spec"]["rebootFrom"] = wish
    item["status"].update(bootId=boot, agent=agent)
    if busy:
        item["status"]["conditions"] = bodies.conditions(ready=False, message=busy)
    return item


def scene(controller: Controller, *shows: list[dict[str, Any]], deployment: str = "") -> None:
    """What `get nodes` answers, one after the other, the last for ever; and what a deployment is at."""
    left = iter(shows)
    last = shows[-1]

    def get(message: Any) -> dict[str, Any]:
        items = next(left, last) if message.kind == "Node" else [bodies.item("ModelDeployment", "tiny", {})]
        if message.kind != "Node" and deployment:
            items[0]["status"]["conditions"] = bodies.conditions(ready=False, message=deployment)
        return {"revision": "x", "version": "1", "items": items}

    controller.answers["get"] = get


@pytest.fixture
def moving(watched: Controller, monkeypatch: pytest.MonkeyPatch) -> Controller:
    """A controller that has a place for everything meanwhile, and somebody who is never told what is waited for."""
    monkeypatch.setattr("reconciler.cli.output.screen.QUIET_SECONDS", 3600.0)
    watched.answers["foresee"] = future(moves=["node-a"])
    return watched


def test_the_boot_that_is_to_end_is_committed_and_each_machine_is_reported(
    cli: Cli, moving: Controller, home: Path
) -> None:
    before = [node("node-a", "one"), node("node-b", "one")]
    busy = [node("node-a", "one", "node-a: it is being emptied"), node("node-b", "one", "node-b: later")]
    half = [
        node("node-a", "two"),
        node("node-b", "one", "node-b: it was told to restart", agent="unreachable"),
    ]
    scene(moving, before, busy, half, [node("node-a", "two"), node("node-b", "two")])
    result = cli("reboot", "node-b", "node-a")
    assert (result.code, result.err) == (0, "")
    assert result.out.splitlines() == [
        "modeldeployment/tiny, replica 0: moves from node-a, node-b to node-a",
        "modeldeployment/tiny, replica 0: moves from node-a, node-b to node-a",
        "node/node-b to be restarted",
        "node/node-a to be restarted",
        "node/node-a restarted",
        "node/node-b restarted",
        "restarted: node-b, node-a",
    ]
    assert {name: spec["boot"] for name, spec in operations(home).items()} == {
        "reboot.node.node-a": "one",
        "reboot.node.node-b": "one",
    }
    assert log(home) == ["Restart node/node-b, node/node-a"]


def test_what_goes_on_meanwhile_is_on_standard_error_where_json_is_wanted(
    cli: Cli, moving: Controller
) -> None:
    scene(moving, [node("node-b", "one")], [node("node-b", "two")])
    result = cli("reboot", "node-b", "-o", "json")
    assert json.loads(result.out)["objects"] == [{"kind": "Node", "name": "node-b", "action": "configured"}]
    assert "node/node-b restarted\n" in result.err


def test_it_ends_when_everything_is_served_again_and_not_before(cli: Cli, moving: Controller) -> None:
    scene(moving, [node("node-b", "one")], [node("node-b", "two")], deployment="tiny/0: rank 1 is loading")
    result = cli("reboot", "node-b", "--timeout=400ms")
    assert result.code == 1
    assert "node/node-b restarted\n" in result.out
    assert "timed out after 0.4 s: all are back; tiny/0: rank 1 is loading" in result.err
    assert "the restarts continue without this command" in result.err


@pytest.mark.parametrize("busy", [None, 0, 1, 2])
def test_every_deployment_is_waited_for(busy: int | None) -> None:
    items = [bodies.item("ModelDeployment", name, {}) for name in ("big", "small", "tiny")]
    if busy is not None:
        items[busy]["status"]["conditions"] = bodies.conditions(ready=False, message="it is loading")
    client: Any = SimpleNamespace(ask=lambda message: {"items": items})
    assert _unserved(client) == ("" if busy is None else "all are back; it is loading")


def test_what_is_not_served_meanwhile_needs_force(cli: Cli, watched: Controller, home: Path) -> None:
    watched.answers["foresee"] = future(ends=True, text="needs 2 nodes, 1 can be used")
    scene(watched, [node("node-b", "one")], [node("node-b", "one")], [node("node-b", "two")])
    refused = cli("reboot", "node-b")
    assert (refused.code, refused.out, log(home)) == (1, "", [])
    assert "without node-b: modeldeployment/tiny, replica 0: needs 2 nodes, 1 can be used\n" in refused.err
    assert "reconciler reboot node-b --force" in refused.err
    assert cli("reboot", "node-b", "--force").code == 0


def test_a_machine_that_the_controller_would_not_restart_is_refused(
    cli: Cli, watched: Controller, home: Path
) -> None:
    text = "node-b is not restarted: after a restart a person would have to unlock its disk (FileVault)"
    refusals = [
        {"object": "node/node-b", "reason": "CannotRestart", "text": text},
        {"object": "node/node-a", "reason": "CannotRestart", "text": "another's"},
    ]
    watched.answers["foresee"] = {**future(), "plan": {"steps": [], "waiting": [], "refused": refusals}}
    scene(watched, [node("node-b", "one")])
    refused = cli("reboot", "node-b", "--force")
    assert (refused.code, log(home)) == (1, [])
    assert text in refused.err
    assert "another's" not in refused.err


def test_a_machine_that_does_not_answer_is_refused(cli: Cli, moving: Controller) -> None:
    scene(moving, [node("node-b", "one", agent="unreachable")])
    assert "node-b does not answer, so it cannot be restarted" in cli("reboot", "node-b").err


def test_without_a_controller_nothing_is_committed(cli: Cli, committed: Path) -> None:
    result = cli("reboot", "node-b")
    assert result.code == 1
    assert "the controller restarts the machines" in result.err
    assert log(committed) == []


def test_looking_ahead_commits_nothing(cli: Cli, moving: Controller, home: Path) -> None:
    scene(moving, [node("node-b", "one")])
    result = cli("reboot", "node-b", "--dry-run")
    assert result.out.splitlines() == [
        "modeldeployment/tiny, replica 0: moves from node-a, node-b to node-a",
        "node/node-b to be restarted (dry run)",
    ]
    assert log(home) == []


def test_somebody_who_takes_the_wish_back_ends_the_wait(cli: Cli, moving: Controller) -> None:
    scene(moving, [node("node-b", "one")], [node("node-b", "one", wish=None)])
    result = cli("reboot", "node-b")
    assert result.code == 1
    assert "the restart of node/node-b was cancelled" in result.err


def test_nodes_must_be_there(cli: Cli, moving: Controller) -> None:
    scene(moving, [node("node-b", "one")])
    assert 'nodes "node-x" not found' in cli("reboot", "node-b", "node-x").err
    assert cli("reboot").code == 2


def test_ctrl_c_says_that_the_restarts_go_on(moving: Controller, home: Path) -> None:
    scene(moving, [node("node-b", "one", "node-b: it is being emptied")])
    command = [sys.executable, "-m", "reconciler", "--home", str(home), "reboot", "node-b", "--timeout=1m"]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        for line in process.stdout:
            if "being emptied" in line:
                break
        process.send_signal(signal.SIGINT)
        _, error = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 130
    told = rf"^the restarts continue without this command: reconciler --home {home} get nodes"
    assert re.search(told, error, re.MULTILINE)
