"""`incidents`, and what `describe` says of them: a table that fits, and a story for who was just woken."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import yaml

from reconciler.cli.commands.read.incidents import identified
from reconciler.cli.output.table_layout import duration
from reconciler.wire.admin import ListIncidents
from tests.cli import bodies
from tests.cli.conftest import Cli, Controller
from tests.cli.live import ROOT, Running


def entry(after: float, kind: str, text: str, **more: Any) -> dict[str, Any]:
    body = {"time": f"2026-11-21T03:12:{7 + after:06.3f}Z", "after": after, "kind": kind, "text": text}
    return {**body, "class": None, "seconds": None, "times": 1, "lastTime": body["time"], **more}


def incident(number: int = 7, **fields: Any) -> dict[str, Any]:
    """A rank that was killed, and a group that was formed again."""
    sign = "rank 1 on node-b (epoch 2, pid 4102) was killed by signal 9"
    return {
        "id": number,
        "object": "modeldeployment/tiny",
        "subject": "replica/tiny/0",
        "class": "C8",
        "title": "rank crash",
        "open": False,
        "openedAt": "2026-11-21T03:12:07.000Z",
        "closedAt": "2026-11-21T03:12:12.250Z",
        "seconds": 5.25,
        "unservedSeconds": 5.2,
        "reopened": 0,
        "summary": f"{sign}; tiny/0 serves again as epoch 3",
        "doing": "",
        "person": "",
        "entries": [
            entry(0.0, "seen", sign, **{"class": "C8"}),
            entry(0.01, "tried", "form epoch 3 on node-a, node-b (RankExited)"),
            entry(0.02, "tried", "start rank 0 of tiny/0 on node-a, epoch 3", seconds=0.1, times=2),
            entry(5.25, "outcome", "tiny/0 serves again as epoch 3", seconds=5.24),
        ],
        "entriesLeftOut": 0,
        **fields,
    }


PERSON = "start node-a in Recovery mode, open Terminal there, type: rdma_ctl enable; then start it again"


def needs_person(number: int = 8) -> dict[str, Any]:
    sign = "rdma_ctl status says disabled on node-a"
    return incident(
        number,
        object="node/node-a",
        subject="node/node-a",
        title="RDMA disabled",
        open=True,
        closedAt=None,
        seconds=7384.0,
        unservedSeconds=None,
        summary=f"PERSON NEEDED: {PERSON} ({sign})",
        doing="go over the ring",
        person=PERSON,
        entries=[entry(0.0, "seen", sign, **{"class": "C2"}), entry(0.0, "person", PERSON)],
        entriesLeftOut=3,
        **{"class": "C2"},
    )


@pytest.fixture
def troubled(controller: Controller) -> Controller:
    """A controller with one incident that is over and one that needs a person."""
    found = [incident(), needs_person()]

    def answer(message: ListIncidents) -> dict[str, Any]:
        kind = message.kind and message.kind.lower()
        items = [
            each
            for each in found
            if message.id in (None, each["id"]) and kind in (None, each["object"].partition("/")[0])
        ]
        return {"version": "1", "items": items}

    controller.answers["incidents"] = answer
    return controller


def test_the_table_says_what_happened_and_fits(cli: Cli, troubled: Controller, monkeypatch: Any) -> None:
    monkeypatch.setattr("reconciler.cli.output.table_layout.terminal_width", lambda: 100)
    for arguments in (("incidents",), ("incidents", "-o", "wide")):
        lines = cli(*arguments).out.splitlines()
        assert max(map(len, lines)) <= 100
        assert lines[0].split()[:4] == ["ID", "OPENED", "LASTED", "CLASS"]
        assert any("5.2s" in line and "C8" in line for line in lines)
        assert any("2h3m so far" in line for line in lines)
    assert "PERSON NEEDED" in cli("incidents").out


def test_none_is_said_on_standard_error(cli: Cli, controller: Controller) -> None:
    result = cli("incidents")
    assert (result.code, result.out, result.err) == (0, "", "No incidents found.\n")


def test_no_open_incident_is_no_all_clear_where_something_cannot_be_served(
    cli: Cli, controller: Controller
) -> None:
    assert cli("incidents", "--open").err == "No incidents found.\n"
    why = {"replica": None, "reason": "HubUnreachable", "text": "no connection to the hub"}
    controller.answers["plan"] = {
        "steps": [],
        "waiting": [],
        "refused": [
            {"object": name, **why} for name in ("model/m", "modeldeployment/d", "modeldeployment/d")
        ],
    }
    result = cli("incidents", "--open")
    assert result.code == 0
    assert result.err == (
        "No incidents found.\n"
        "note: no fault is known, but modeldeployment/d cannot be served as things are; see: reconciler doctor\n"
    )


@pytest.mark.parametrize(
    "words", [("incidents", "7"), ("describe", "incident", "7"), ("describe", "incident/7")]
)
def test_one_incident_is_printed_entry_by_entry(
    cli: Cli, troubled: Controller, words: tuple[str, ...]
) -> None:
    assert cli(*words).out == (
        "Incident:     7, rank crash (C8)\n"
        "Object:       modeldeployment/tiny (replica/tiny/0)\n"
        "State:        over: from 2026-11-21 03:12:07 UTC to 2026-11-21 03:12:12 UTC, 5.2s\n"
        "Not served:   5.2s\n"
        "What to do:   nothing: it is over\n"
        "Story:\n"
        "  03:12:07  +0.0s  seen     rank 1 on node-b (epoch 2, pid 4102) was killed by signal 9 [C8]\n"
        "  03:12:07  +0.0s  tried    form epoch 3 on node-a, node-b (RankExited)\n"
        "  03:12:07  +0.0s  tried    start rank 0 of tiny/0 on node-a, epoch 3 [took 0.1s, 2 times, last at 03:12:07]\n"
        "  03:12:12  +5.2s  outcome  tiny/0 serves again as epoch 3 [took 5.2s]\n"
        "More:\n"
        "  reconciler describe modeldeployment tiny\n"
        "  reconciler logs tiny --previous\n"
    )


def test_what_a_person_must_do_comes_before_the_entries(cli: Cli, troubled: Controller) -> None:
    out = cli("incidents", "8").out
    assert f"What to do:   {PERSON}\n" in out
    assert out.index(PERSON) < out.index("Story:")
    assert "open since 2026-11-21 03:12:07 UTC, 2h3m so far" in out
    assert "(3 entries in the middle are omitted)" in out
    assert "Not served" not in out


def test_json_has_everything_and_its_fields_are_these(cli: Cli, troubled: Controller) -> None:
    body = json.loads(cli("incidents", "-o", "json").out)
    assert body == {"items": [incident(), needs_person()]}
    assert json.loads(cli("incidents", "7", "-o", "json").out) == incident()
    assert yaml.safe_load(cli("describe", "incident/8", "-o", "yaml").out) == needs_person()
    assert cli("incidents", "-o", "name").out == "incident/7\nincident/8\n"


def test_options_become_a_question(cli: Cli, troubled: Controller) -> None:
    assert cli("incidents", "deployment/tiny", "--open", "--since", "1h", "--limit", "5").code == 0
    request = troubled.received[-1]
    assert (request.kind, request.name, request.open, request.limit) == ("ModelDeployment", "tiny", True, 5)
    assert request.since is not None


def test_an_object_is_described_with_its_incidents(cli: Cli, troubled: Controller) -> None:
    over = cli("describe", "deployment", "tiny").out
    assert "Incidents:\n  ID   OPENED" in over
    assert "serves again as epoch 3" in over
    still = cli("describe", "node", "node-a").out
    assert "  8: RDMA disabled (C2), 2h3m so far\n" in still
    assert f"    What to do: {PERSON}\n" in still
    assert f"+0.0s  person  {PERSON}" in still
    assert json.loads(cli("describe", "node", "node-a", "-o", "json").out)["incidents"] == [needs_person()]


def test_a_number_that_is_none_is_an_error_that_says_where_to_look(cli: Cli, controller: Controller) -> None:
    result = cli("incidents", "99")
    assert result.code == 1
    assert result.err == "error: incident 99 not found; list them with: reconciler incidents\n"
    assert cli("describe", "incident", "x").code == 2
    assert cli("incidents", "nonsense").code == 2


@pytest.mark.parametrize(
    ("words", "number"),
    [
        (("12",), 12),
        (("incident", "12"), 12),
        (("incidents/12",), 12),
        (("deployment/tiny",), None),
        (("node", "12"), None),
        ((), None),
    ],
)
def test_an_incident_is_named_by_its_number(words: tuple[str, ...], number: int | None) -> None:
    assert identified(words) == number


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.04, "0.0s"), (9.94, "9.9s"), (10, "10s"), (59.9, "59s"), (60, "1m0s"), (3599, "59m59s"),
     (3600, "1h0m"), (86_399, "23h59m"), (90_000, "1d1h")],
)  # fmt: skip
def test_how_long_it_took_is_short_to_read(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_numbers_and_objects_are_completed(home: Path, troubled: Controller) -> None:
    def completed(line: str) -> list[str]:
        words = line.split(" ")
        environment = {
            "COMP_WORDS": line,
            "COMP_CWORD": str(len(words) - 1),
            "_RECONCILER_COMPLETE": "bash_complete",
            "RECONCILER_HOME": str(home),
        }
        done = subprocess.run(
            [sys.executable, "-m", "reconciler"],
            env={**os.environ, **environment}, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        return [row.partition(",")[2] for row in done.stdout.splitlines()]

    assert completed("reconciler incidents ") == ["7", "8"]
    assert completed("reconciler incidents mod") == ["models", "modeldeployments"]
    assert completed("reconciler inc") == ["incidents"]


def test_a_notifier_is_listed_with_where_its_url_is_and_never_with_the_url_itself(
    cli: Cli, controller: Controller
) -> None:
    webhook = {"urlFrom": {"env": "HOOK"}}  # a controller leaves out what is not given
    spec = {"webhook": webhook, "tell": ["opened", "closed"]}
    item = bodies.item("Notifier", "on-call", spec, waiting=2, givenUp=0, sentAt=bodies.ago(5400))
    controller.answers["get"] = {"version": "1", "revision": "1", "items": [item]}
    rows = [line.split() for line in cli("get", "notifiers", "-o", "wide").out.splitlines()]
    assert rows[0] == ["NAME", "READY", "SENT", "WAITING", "TELLS", "URL", "STATUS"]
    assert rows[1] == ["on-call", "True", "90m", "2", "opened,closed", "env:", "HOOK", "Ready"]


@pytest.mark.parametrize("word", ["incidents", "alerts"])
def test_what_is_looked_for_among_the_kinds_is_shown_the_way(
    cli: Cli, controller: Controller, word: str
) -> None:
    result = cli("get", word)
    assert result.code == 2
    assert f'unknown kind "{word}"; ' in result.err
    assert "reconciler incidents" in result.err or "reconciler get notifiers" in result.err


def test_a_watch_prints_what_changes_and_nothing_for_what_only_lasts(
    home: Path, controller: Controller
) -> None:
    seen: list[str] = []

    def answer(message: ListIncidents) -> dict[str, Any]:
        seen.append(message.seen)
        changes = min(len(seen), 3)
        time.sleep(0.05)  # as a controller that has nothing new holds its answer back
        still = needs_person()
        still["seconds"] += len(seen)
        items = [incident(), still] if changes < 3 else [incident(), {**still, "open": False, "person": ""}]
        return {"version": str(changes), "items": items}

    controller.answers["incidents"] = answer
    watch = Running(
        [sys.executable, "-m", "reconciler", "--home", str(home), "incidents", "-w", "-o", "json"]
    )
    watch.wait_for(lambda out: len(out) >= 3 and len(seen) > 6)
    assert watch.end() == 130
    printed = [json.loads(line) for line in watch.out]
    assert [(item["id"], item["open"]) for item in printed] == [(7, False), (8, True), (8, False)]
    assert seen[:4] == ["", "1", "2", "3"]
