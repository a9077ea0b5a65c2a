"""A revision that is kept out: where it is said, and how it is let in."""

from __future__ import annotations

import getpass
import json
from pathlib import Path
from typing import Any

import pytest

from reconciler.errors import Refused
from reconciler.wire.admin import Approve, Get
from tests.cli import bodies
from tests.cli.conftest import Cli, Controller

from .test_writing import committed, head, log, operations, template, watched

__all__ = ["committed", "template", "watched"]

REVISION = "1f0c2a9b3d" + "0" * 30
HELD = {
    "revision": REVISION,
    "removes": ["node/node-b"],
    "of": 2,
    "runs": [],
    "command": "reconciler approve 1f0c2a9b3d",
    "text": "revision 1f0c2a9b3d is held: it would remove 1 of 2 objects (node/node-b)",
}


def keep_out(controller: Controller, **kept_out: Any) -> None:
    read, status = controller.answers["get"], controller.answers["status"]
    controller.answers["get"] = lambda message: {**read(message), **kept_out}
    controller.answers["status"] = {**status, **kept_out}


@pytest.mark.parametrize(
    "command", [("get", "all"), ("get", "nodes", "-o", "json"), ("describe", "node/node-a"), ("version",)]
)
def test_a_held_revision_is_noted_beside_whatever_is_read(
    command: tuple[str, ...], cli: Cli, controller: Controller
) -> None:
    plain = cli(*command)
    keep_out(controller, held=HELD, rejection=None)
    result = cli(*command)
    assert (result.code, result.err) == (0, f"note: {HELD['text']}\n")
    assert plain.err == ""
    if "-o" not in command:
        assert result.out == plain.out


def test_what_is_not_found_because_a_held_revision_removes_it_is_explained(
    cli: Cli, watched: Controller
) -> None:
    answer = watched.answers["status"]
    watched.answers["status"] = lambda _: {**answer(None), "held": HELD}
    for command in (("label", "node/absent", "a=b"), ("cordon", "absent"), ("edit", "node/absent")):
        result = cli(*command)
        assert result.code == 1
        assert result.err.splitlines() == [
            f"note: {HELD['text']}",
            'error: nodes "absent" not found; list them with: reconciler get nodes',
        ]


def test_a_rejected_revision_is_noted_with_its_mistakes(cli: Cli, controller: Controller) -> None:
    keep_out(controller, held=None, rejection="a.yaml:1:7: unknown kind")
    assert cli("get", "all").err == "note: the newest revision is not in force: a.yaml:1:7: unknown kind\n"


def test_approving_is_an_operation_and_done_once(cli: Cli, watched: Controller, home: Path) -> None:
    answer = watched.answers["status"]
    watched.answers["status"] = lambda _: {**answer(None), "held": HELD}
    result = cli("approve", "1f0c", "--reason", "the rack is gone")
    assert (result.code, result.out) == (0, f"revision {REVISION} approved; it removes node/node-b\n")
    made = operations(home)[f"approve.revision.{REVISION}"]
    assert (made["over"], made["reason"]) == (head(home), "the rack is gone")
    assert log(home) == [f"Approve revision/{REVISION}: the rack is gone"]
    assert cli("approve", "1f0c").out == f"revision {REVISION} was already approved\n"
    assert json.loads(cli("approve", "1f0c", "-o", "json").out)["again"] is True
    assert len(log(home)) == 1
    wrong = cli("approve", "abcd")
    assert (wrong.code, wrong.out) == (1, "")
    assert wrong.err.endswith("got 'abcd': reconciler approve 1f0c2a9b3d\n")


def test_what_a_watched_folder_would_remove_is_approved_by_the_controller(
    cli: Cli, controller: Controller
) -> None:
    controller.answers["status"] = {**controller.answers["status"], "source": "directory /home/me/manifests"}
    controller.answers["approve"] = {"revision": REVISION, "removes": HELD["removes"], "again": False}
    result = cli("approve", "1f0c")
    assert (result.code, result.out) == (0, f"revision {REVISION} approved; it removes node/node-b\n")
    assert controller.received[-1] == Approve("1f0c", getpass.getuser())
    assert json.loads(cli("approve", "1f0c", "-o", "json").out) == controller.answers["approve"]
    controller.answers["approve"] = {"revision": REVISION, "removes": [], "again": True}
    assert cli("approve", "1f0c").out == f"revision {REVISION} was already approved\n"


def test_a_wrong_revision_is_an_error_with_the_right_command(cli: Cli, controller: Controller) -> None:
    controller.answers["status"] = {**controller.answers["status"], "source": "directory /home/me/manifests"}
    controller.answers["approve"] = Refused(
        "NotHeld", "expected the one that is held: reconciler approve 1f0c"
    )
    result = cli("approve", "abcd")
    assert (result.code, result.out) == (1, "")
    assert result.err == "error: expected the one that is held: reconciler approve 1f0c\n"


def test_an_object_that_is_leaving_says_since_when_and_what_is_awaited(
    cli: Cli, controller: Controller
) -> None:
    leaving = bodies.node("node-b")
    leaving["metadata"]["deletionTimestamp"] = "2026-11-21T09:00:00.000Z"
    leaving["status"] = {
        "observedGeneration": 1,
        "conditions": bodies.conditions(ready=False, message="node/node-b: waiting for the end of its agent"),
    }
    controller.answers["get"] = {"revision": "1", "items": [leaving]}
    row = cli("get", "node", "node-b").out.splitlines()[1]
    assert row.split("   ")[-1].strip() == "Terminating: node/node-b: waiting for the end of its agent"
    page = cli("describe", "node/node-b").out
    assert "Terminating: since 2026-11-21T09:00:00.000Z" in page
    shown = json.loads(cli("get", "node", "node-b", "-o", "json").out)
    assert shown["metadata"]["deletionTimestamp"] == "2026-11-21T09:00:00.000Z"
    for kind in ("Model", "ModelDeployment", "Gateway"):
        named = {"Model": bodies.model, "ModelDeployment": bodies.deployment, "Gateway": bodies.gateway}[
            kind
        ]()
        named["metadata"]["deletionTimestamp"] = "2026-11-21T09:00:00.000Z"
        named["status"] = leaving["status"]
        controller.answers["get"] = lambda _, item=named: {"revision": "1", "items": [item]}
        assert "Terminating: " in cli("get", kind.lower()).out, "nothing but conditions is known of it"
    assert Get("Gateway", None) in controller.received
