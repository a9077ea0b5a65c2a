"""What `get`, `describe`, `plan`, `events`, `logs` and `version` print of a cluster at rest, byte for byte.

The tables are in ``golden/``; UPDATE_GOLDEN=1 writes them anew.
"""

from __future__ import annotations

import json
import re
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from reconciler.cli.output.kind_columns import COLUMNS
from reconciler.errors import Refused
from reconciler.wire.admin import Get, ListEvents, ReadRankLog
from reconciler.wire.launch import RankId
from reconciler.wire.objects import Operation
from tests.cli import bodies
from tests.cli.conftest import Cli, Controller
from tests.cli.live import Live, running

Golden = Callable[[str, str], None]
TIME = re.compile(r"\d{4}-\d\d-\d\dT[0-9:.]+(\+00:00|Z)")


@pytest.fixture
def live() -> Iterator[Live]:
    """A home without a controller."""
    with tempfile.TemporaryDirectory(prefix="r-") as folder:
        made = Live(Path(folder))
        made.home.mkdir()
        yield made


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
    "top-nodes": ("top", "nodes"),
    "top-ranks": ("top", "ranks"),
}


@pytest.mark.parametrize("name", SHOWN)
def test_what_is_shown_is_exactly_this(name: str, cli: Cli, controller: Controller, golden: Golden) -> None:
    result = cli(*SHOWN[name])
    assert (result.code, result.err) == (0, "")
    golden(name, TIME.sub("<time>", result.out))


@pytest.mark.parametrize("name", [name for name in SHOWN if name.startswith(("get-", "top-"))])
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
        (("logs", "tiny", "--rank", "1"), {"items"}),
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
    assert controller.received == [Get("Node", None)]


@pytest.mark.parametrize("typed", [("deploy", "tiny"), ("deploy/tiny",), ("MD/tiny",)])
def test_one_object_is_named_with_a_space_or_a_slash(
    typed: tuple[str, ...], cli: Cli, controller: Controller
) -> None:
    assert cli("get", *typed).code == 0
    assert controller.received == [Get("ModelDeployment", "tiny")]


def test_events_of_one_object_are_asked_for_by_its_name(cli: Cli, controller: Controller) -> None:
    assert cli("events", "--for", "deployment/tiny", "--limit", "5").code == 0
    assert controller.received == [ListEvents(limit=5, kind="ModelDeployment", name="tiny")]


def test_events_are_chosen_by_type_and_age(cli: Cli, controller: Controller) -> None:
    assert cli("events", "--types", "warning", "--since", "1h").code == 0
    (request,) = controller.received
    assert request.warning is True
    assert request.since == pytest.approx(time.time() - 3600, abs=60)
    assert cli("events", "--types=Normal,Warning").code == 0
    assert controller.received[-1].warning is None
    assert cli("events", "--for", "cluster").code == 0
    assert controller.received[-1].kind == "Cluster"
    assert '"Bad" is not a type of event' in cli("events", "--types=bad").err


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


def test_logs_of_all_ranks_come_by_time_and_say_whose_they_are(cli: Cli, controller: Controller) -> None:
    lines = cli("logs", "deployment/tiny").out.splitlines()
    assert [(line[:12], line.split()[-1]) for line in lines] == [
        ("[tiny.0.3.0]", "one"),
        ("[tiny.0.3.0]", "two"),
        ("[tiny.0.3.1]", "one"),
        ("[tiny.0.3.1]", "two"),
        ("[tiny.0.3.0]", "three"),
        ("[tiny.0.3.1]", "three"),
    ]


def test_logs_of_one_rank_are_its_lines_alone(cli: Cli, controller: Controller) -> None:
    shown = cli("logs", "deployment/tiny", "--rank", "1", "--tail", "2").out
    assert shown == "two\n2026-11-21T10:00:02.500Z three\n"
    assert controller.received[-1].id == RankId("tiny", 0, 3, 1)
    assert cli("logs", "tiny", "--rank", "1", "--tail", "1", "--prefix").out.startswith("[tiny.0.3.1] 2026")


def test_logs_since_a_time_leave_out_what_is_older_with_what_belongs_to_it(
    cli: Cli, controller: Controller
) -> None:
    def lines(since: str) -> list[str]:
        shown = cli("logs", "tiny", "--no-prefix", "--since-time", since)
        return [line.split()[-1] for line in shown.out.splitlines()]

    assert lines("2026-11-21T10:00:00.400Z") == ["one", "two", "three", "three"]
    assert lines("2026-11-21T12:00:02.400+02:00") == ["three"]


def test_logs_of_a_group_that_has_ended_are_still_its_deployment_s(cli: Cli, controller: Controller) -> None:
    def ended(message: Get[Any]) -> object:
        if message.kind != "Rank":
            return bodies.objects(message)
        rows = [bodies.rank(0) | {"phase": "exited"}] if message.ended else []
        return {"version": "1", "revision": "1", "items": rows}

    controller.answers["get"] = ended
    assert cli("logs", "tiny", "--tail", "1").out == "2026-11-21T10:00:02.000Z three\n"


def test_previous_logs_are_of_the_group_before_the_current_one(cli: Cli, controller: Controller) -> None:
    def two_groups(message: Get[Any]) -> object:
        older = bodies.rank(0) | {"epoch": 2, "phase": "exited"}
        older["metadata"] = {"name": "tiny.0.2.0", "labels": {}}
        return {"version": "1", "revision": "1", "items": [older, bodies.rank(0), bodies.rank(1)]}

    controller.answers["get"] = two_groups
    assert cli("logs", "tiny", "-p").code == 0
    assert {m.id for m in controller.received if isinstance(m, ReadRankLog)} == {RankId("tiny", 0, 2, 0)}


def test_logs_of_an_older_epoch_are_had_by_the_ranks_full_name(cli: Cli, controller: Controller) -> None:
    assert cli("logs", "rank/tiny.0.2.1").code == 0
    assert controller.received[-1].id == RankId("tiny", 0, 2, 1)


def test_logs_of_a_replica_are_had_by_the_name_that_events_give_it(cli: Cli, controller: Controller) -> None:
    assert cli("logs", "tiny/0").out == cli("logs", "tiny", "--replica", "0").out != ""
    assert cli("logs", "tiny/7").err.startswith("error: replica 7 of tiny has no group now")


def test_logs_of_what_there_is_not_are_not_followed(cli: Cli, controller: Controller) -> None:
    result = cli("logs", "tinny", "-f")
    assert (result.code, result.err) == (
        1,
        'error: modeldeployments "tinny" not found; did you mean "tiny"?\n',
    )


def test_followed_logs_of_a_rank_end_with_it(cli: Cli, controller: Controller) -> None:
    pieces = iter([("one\n", 4), ("", 4), ("tw", 6), ("", 6), ("o", 7), ("", 7)])

    def piece(message: ReadRankLog) -> object:
        text, offset = next(pieces)
        return {"text": text, "offset": offset, "node": "node-a"}

    def rows(message: Get[Any]) -> object:
        looks.append(message)
        row: Any = {**bodies.rank(0), "phase": "exited" if len(looks) > 2 else "ready"}
        return {"version": "1", "revision": "1", "items": [row]}

    looks: list[Get[Any]] = []
    controller.answers |= {"rank_log": piece, "get": rows}
    result = cli("logs", "tiny.0.3.0", "-f")
    assert (result.code, result.out) == (0, "one\ntwo\n")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "expected one of: a deployment, a rank, -l SELECTOR, --controller, --gateway"),
        (
            ("tiny", "--gateway"),
            "expected one of: a deployment, a rank, -l SELECTOR, --controller, --gateway",
        ),
        (("tiny", "--since", "5m", "--since-time", "2026-11-21T10:00:00Z"), "cannot be combined"),
        (("tiny", "--since-time", "noon"), '"noon" is not a time; expected one such as 2026-11-21T10:00:00Z'),
        (("node/node-a",), "only deployments and ranks have logs"),
        (("rank/tiny",), "expected a rank such as tiny.0.3.1"),
        (("tiny.0.3.1", "--rank", "1"), "is one rank"),
    ],
)
def test_what_has_no_logs_is_wrong_usage(
    arguments: tuple[str, ...], message: str, cli: Cli, controller: Controller
) -> None:
    result = cli("logs", *arguments)
    assert (result.code, message in result.err) == (2, True), result.err


def test_the_controller_s_own_log_is_followed_into_its_next_file(live: Live) -> None:
    log = live.home / "logs" / "controller.log"
    log.parent.mkdir()
    log.write_text("2026-11-21T10:00:00.000Z INFO one\n  more of it\n2026-11-21T11:00:00.000Z INFO two\n")
    shown = live.run("logs", "--controller", "--since-time", "2026-11-21T10:30:00Z").stdout
    assert shown == "2026-11-21T11:00:00.000Z INFO two\n"
    with running(live, "logs", "--controller", "-f", "--tail", "1") as following:
        following.wait_for(lambda lines: len(lines) == 1)
        with log.open("a") as more:
            more.write("three\n")
        following.wait_for(lambda lines: lines[-1] == "three")
        log.replace(log.with_name("controller.log.1"))
        log.write_text("four\n")
        following.wait_for(lambda lines: lines[-1] == "four")
        log.write_text(
            "5\n"
        )  # less than before: it was emptied meanwhile, also for who looks but now and then
        following.wait_for(lambda lines: lines[-1] == "5")
        assert following.end() == 130
    assert live.run("logs", "--controller", "--previous", "--tail", "1").stdout == "three\n"
    assert "there is no" in live.run("logs", "--gateway").stderr


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
        ({"killed": True, "unkillable": False, "silentSeconds": 12.4}, "ready (killed)"),
        ({"killed": True, "unkillable": True, "silentSeconds": 42.4}, "ready (cannot be ended)"),
    ],
)
def test_a_rank_that_stands_still_shows_in_its_phase(report: dict[str, Any], shown: str) -> None:
    rank = {
        "metadata": {"name": "tiny-0-1"}, "phase": "ready", "node": "node-b", "pid": 1, "epoch": 1,
        "startedAt": None, "detail": "", **report,
    }  # fmt: skip
    assert COLUMNS["Rank"].cells(rank)[1] == shown


def test_top_shows_what_was_named_or_says_of_what_nothing_is_measured(
    cli: Cli, controller: Controller
) -> None:
    assert [line.split()[0] for line in cli("top", "node", "node-b").out.splitlines()] == ["NAME", "node-b"]
    shown = json.loads(cli("top", "ranks", "tiny.0.3.1", "-o", "json").out)
    assert [item["name"] for item in shown["items"]] == ["tiny.0.3.1"]
    result = cli("top", "node", "node-x")
    assert (result.code, result.out) == (1, "")
    assert "no measurements of node node-x; list them with: reconciler get nodes" in result.err
    controller.answers["usage"] = {"nodes": [], "ranks": []}
    assert cli("top", "nodes").err == "no measurements of nodes now\n"


def test_an_operation_is_described_although_it_has_no_generation(cli: Cli, controller: Controller) -> None:
    cordon: Operation = {
        "apiVersion": "reconciler/v1alpha1",
        "kind": "Operation",
        "metadata": {"name": "cordon-node-a", "labels": {}},
        "spec": {
            "verb": "cordon",
            "target": {"kind": "Node", "name": "node-a"},
            "by": "Ada <ada@example.org>",
            "at": "2026-11-21T10:00:00Z",
            "reason": "a new cable",
        },
        "status": {"standing": "InForce"},
    }
    controller.answers["get"] = {**bodies.objects(Get("Node")), "items": [cordon]}
    result = cli("describe", "operation", "cordon-node-a")
    assert result.code == 0, result.err
    assert "verb: cordon" in result.out
    assert "standing: InForce" in result.out
    assert "Generation" not in result.out
