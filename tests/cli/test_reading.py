"""What `get`, `describe`, `plan`, `events`, `logs` and `version` print of a cluster at rest, byte for byte.

The tables are in ``golden/``; UPDATE_GOLDEN=1 writes them anew.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import pytest
import yaml

from reconciler.cli.columns import ROWS
from reconciler.errors import Refused
from reconciler.wire.admin import Get, ListEvents, ReadRankLog
from reconciler.wire.launch import RankId

from . import bodies
from .conftest import Cli, Controller

Golden = Callable[[str, str], None]
TIME = re.compile(r"\d{4}-\d\d-\d\dT[0-9:.]+(\+00:00|Z)")

SHOWN = {
    "get-all": ("get", "all"),
    "get-nodes-wide": ("get", "nodes", "-o", "wide"),
    "get-models-wide": ("get", "models", "-o", "wide"),
    "get-deployments": ("get", "deployments"),
    "get-deployments-wide": ("get", "deployments", "-o", "wide"),
    "get-gateways-wide": ("get", "gateways", "-o", "wide"),
    "get-ranks": ("get", "ranks"),
    "get-ranks-wide": ("get", "ranks", "-o", "wide"),
    "get-names": ("get", "all", "-o", "name"),
    "get-rank-names": ("get", "ranks", "-o", "name"),
    "describe-deployment": ("describe", "deployment", "tiny"),
    "plan-at-rest": ("plan",),
    "events": ("events",),
    "logs": ("logs", "tiny"),
}


@pytest.mark.parametrize("name", SHOWN)
def test_what_is_shown_is_exactly_this(name: str, cli: Cli, controller: Controller, golden: Golden) -> None:
    result = cli(*SHOWN[name])
    assert (result.code, result.err) == (0, "")
    golden(name, TIME.sub("<time>", result.out))


@pytest.mark.parametrize("name", [name for name in SHOWN if name.startswith("get-")])
def test_no_line_is_longer_than_a_hundred_columns(name: str, cli: Cli, controller: Controller) -> None:
    assert max(map(len, cli(*SHOWN[name]).out.splitlines())) <= 100


def test_a_plan_shows_steps_waiting_and_refusals(cli: Cli, controller: Controller, golden: Golden) -> None:
    controller.answers["plan"] = bodies.BUSY_PLAN
    result = cli("plan")
    assert result.code == 0
    golden("plan-busy", result.out)


def test_an_object_that_is_not_ready_says_why(cli: Cli, controller: Controller, golden: Golden) -> None:
    waiting = bodies.deployment(readyReplicas=0, groups=[])
    waiting["status"]["conditions"] = bodies.conditions(ready=False, message="tiny/0: rank 1 is loading")
    stalled = bodies.deployment(readyReplicas=0, groups=[])
    stalled["metadata"]["name"] = "big"
    stalled["status"]["conditions"] = bodies.conditions(
        ready=False, stalled="needs 80.0GiB, there is 12.0GiB"
    )
    controller.answers["get"] = {"revision": "1", "items": [waiting, stalled]}
    golden("get-not-ready", cli("get", "deployments").out)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("get", "all"), bodies.objects(Get())["items"][0].keys()),
        (("get", "node/node-a"), {"apiVersion", "kind", "metadata", "spec", "status"}),
        (("get", "ranks"), {"revision", "items"}),
        (("plan",), {"steps", "waiting", "refused"}),
        (("events",), {"items", "last"}),
        (("describe", "deployment/tiny"), {"kind", "spec", "status", "plan", "events"}),
        (("logs", "tiny", "--rank", "1"), {"rank", "text", "offset", "node"}),
        (("version",), {"client", "python", "controller"}),
    ],
)
def test_everything_that_reads_has_json(
    arguments: tuple[str, ...], expected: set[str], cli: Cli, controller: Controller
) -> None:
    body = json.loads(cli(*arguments, "-o", "json").out)
    shown = body["items"][0] if arguments == ("get", "all") else body
    assert set(expected) <= shown.keys()


def test_yaml_says_the_same_as_json(cli: Cli, controller: Controller) -> None:
    as_json, as_yaml = (cli("get", "gateway", "main", "-o", form).out for form in ("json", "yaml"))
    assert yaml.safe_load(as_yaml)["spec"] == json.loads(as_json)["spec"]


@pytest.mark.parametrize("typed", ["nodes", "node", "no", "NODES", "Node", "nodes.reconciler"])
def test_kinds_are_understood_in_every_spelling(typed: str, cli: Cli, controller: Controller) -> None:
    assert cli("get", typed).code == 0
    assert controller.heard == [Get("Node", None)]


@pytest.mark.parametrize("typed", [("deploy", "tiny"), ("deploy/tiny",), ("MD/tiny",)])
def test_one_object_is_named_with_a_space_or_a_slash(
    typed: tuple[str, ...], cli: Cli, controller: Controller
) -> None:
    assert cli("get", *typed).code == 0
    assert controller.heard == [Get("ModelDeployment", "tiny")]


def test_events_of_one_object_are_asked_for_by_its_name(cli: Cli, controller: Controller) -> None:
    assert cli("events", "--for", "deployment/tiny", "--limit", "5").code == 0
    assert controller.heard == [ListEvents(limit=5, kind="ModelDeployment", name="tiny")]


def test_watched_events_come_one_a_line_and_go_on_from_the_last(cli: Cli, controller: Controller) -> None:
    def next_events(message: ListEvents) -> object:
        if message.after == 0:
            return {"items": [bodies.event(1, "Ready", "1 of 1 replicas serve")], "last": 1}
        if message.after == 1:
            return {"items": [bodies.event(2, "RankExited", "killed", warning=True)], "last": 2}
        return Refused("Gone", "that is all")

    controller.answers["events"] = next_events
    result = cli("events", "-w")
    assert [line.split(" ", 1)[1] for line in result.out.splitlines()] == [
        "  modeldeployment/tiny: Ready: 1 of 1 replicas serve",
        "! modeldeployment/tiny: RankExited: killed",
    ]
    assert (result.code, result.err) == (1, "error: that is all\n")


def test_logs_are_of_the_newest_epoch_of_a_rank(cli: Cli, controller: Controller) -> None:
    assert cli("logs", "deployment/tiny", "--rank", "1", "--tail", "2").out == "two\nthree\n"
    assert controller.heard[-1].id == RankId("tiny", 0, 3, 1)


def test_logs_of_a_rank_that_has_ended_are_found_by_its_group(cli: Cli, controller: Controller) -> None:
    def no_ranks(message: Get) -> object:
        return {"revision": "1", "items": []} if message.kind == "Rank" else bodies.objects(message)

    controller.answers["get"] = no_ranks
    assert cli("logs", "tiny").code == 0
    assert controller.heard[-1].id == RankId("tiny", 0, 3, 0)


def test_logs_of_an_older_epoch_are_had_by_the_ranks_full_name(cli: Cli, controller: Controller) -> None:
    cli("logs", "tiny.0.2.1")
    (heard,) = controller.heard
    assert isinstance(heard, ReadRankLog)
    assert heard.id == RankId("tiny", 0, 2, 1)


def test_followed_logs_go_on_where_they_ended(cli: Cli, controller: Controller) -> None:
    def piece(message: ReadRankLog) -> object:
        if message.offset is None:
            return {"text": "one\n", "offset": 4}
        return {"text": "two\n", "offset": 8} if message.offset == 4 else Refused("Gone", "it is forgotten")

    controller.answers["rank_log"] = piece
    result = cli("logs", "tiny", "-f")
    assert (result.out, result.err) == ("one\ntwo\n", "error: it is forgotten\n")


def test_version_needs_no_controller(cli: Cli) -> None:
    result = cli("version")
    assert result.code == 0
    assert result.out.splitlines()[1] == "controller is not running"


@pytest.mark.parametrize(
    ("report", "shown"),
    [
        ({}, "ready"),
        ({"stopped": False, "silentSeconds": 3.0}, "ready"),
        ({"stopped": False, "silentSeconds": 12.4}, "ready (silent 12s)"),
        ({"stopped": True, "silentSeconds": 12.4}, "ready (stopped)"),
    ],
)
def test_a_rank_that_stands_still_shows_in_its_phase(report: dict[str, Any], shown: str) -> None:
    rank = {
        "metadata": {"name": "tiny-0-1"}, "phase": "ready", "node": "node-b", "pid": 1, "epoch": 1,
        "startedAt": None, "detail": "", **report,
    }  # fmt: skip
    assert ROWS["Rank"](rank, False)[1] == shown
