"""`describe` of a deployment that does not serve: what the rank to blame printed last."""

from __future__ import annotations

import json
from typing import Any

import pytest

from reconciler.errors import Refused
from reconciler.wire.admin import ReadRankLog
from tests.cli import bodies
from tests.cli.conftest import Cli, Controller

ENDED = "rank 1 on node-b (epoch 3, pid 4201) exited with 1 (UnexpectedError)"
COMMAND = "reconciler logs tiny.0.3.1"


@pytest.fixture
def dead(controller: Controller) -> Controller:
    """The group of ``tiny`` has ended."""
    failed = {"rank": "tiny.0.3.1", "node": "node-b", "text": ENDED}
    group = {
        **bodies.deployment()["status"]["groups"][0],
        "ready": False,
        "phase": "exited",
        "failed": failed,
    }
    body = {"version": "1", "revision": "5d0f", "items": [bodies.deployment(readyReplicas=0, groups=[group])]}
    controller.answers["get"] = body
    return controller


def printed(text: str) -> Any:
    def answer(message: ReadRankLog) -> dict[str, Any]:
        assert (str(message.id), message.offset) == ("tiny.0.3.1", None)
        return {"text": text, "offset": len(text), "node": "node-b"}

    return answer


def test_its_last_lines_are_shown_and_where_all_of_it_is(cli: Cli, dead: Controller) -> None:
    dead.answers["rank_log"] = printed("".join(f"line {number}\n" for number in range(1, 31)))
    section = cli("describe", "deployment", "tiny").out.partition("Last log of ")[2]
    assert section.splitlines() == [
        f"tiny.0.3.1 on node-b: {ENDED}",
        *(f"  line {number}" for number in range(11, 31)),
        f"  (full log: {COMMAND})",
    ]


def test_json_has_them_too(cli: Cli, dead: Controller) -> None:
    dead.answers["rank_log"] = printed("one\r\ntwo")
    (log,) = json.loads(cli("describe", "deployment", "tiny", "-o", "json").out)["lastLogs"]
    assert log == {
        "rank": "tiny.0.3.1", "node": "node-b", "text": ENDED, "lines": ["one", "two"], "problem": "",
        "command": COMMAND,
    }  # fmt: skip


def test_a_rank_that_printed_nothing_is_said_to_have(cli: Cli, dead: Controller) -> None:
    dead.answers["rank_log"] = printed("")
    assert "\n  <no output>\n" in cli("describe", "deployment", "tiny").out


def test_a_group_that_serves_has_none(cli: Cli, controller: Controller) -> None:
    assert "Last log" not in cli("describe", "deployment", "tiny").out
    assert not any(isinstance(message, ReadRankLog) for message in controller.received)


def test_a_log_that_cannot_be_read_says_why(cli: Cli, dead: Controller) -> None:
    dead.answers["rank_log"] = Refused("Unreachable", "the agent of node-b does not answer")
    result = cli("describe", "deployment", "tiny")
    assert (result.code, result.err) == (0, "")
    assert "\n  the agent of node-b does not answer\n" in result.out
