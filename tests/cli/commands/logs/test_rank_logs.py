"""The ranks whose logs are shown, and the first line of a log that was not read from its beginning."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from reconciler.cli.commands.logs.merge import Wanted
from reconciler.cli.commands.logs.rank_logs import Source
from reconciler.wire.admin import Get, ReadRankLog
from reconciler.wire.launch import RankId
from tests.cli import bodies
from tests.cli.conftest import Cli, Controller


def ended(replica: int, epoch: int) -> Any:
    row: Any = {**bodies.rank(0), "replica": replica, "epoch": epoch, "phase": "exited"}
    return {**row, "metadata": {"name": f"tiny.{replica}.{epoch}.0", "labels": {}}}


@pytest.mark.parametrize(
    ("options", "first", "second"),
    [((), 10, 100), (("--previous",), 9, 99), (("--replica", "1"), None, 100)],
)
def test_the_newest_group_of_each_replica_is_the_one_with_the_highest_number(
    cli: Cli, controller: Controller, options: Sequence[str], first: int | None, second: int
) -> None:
    rows = [ended(0, epoch) for epoch in (10, 8, 9)] + [ended(1, epoch) for epoch in (99, 100, 98)]

    def get(message: Get[Any]) -> object:
        return {"version": "1", "revision": "1", "items": rows}

    controller.answers["get"] = get
    assert cli("logs", "tiny", *options).code == 0
    shown = {
        (each.id.replica, each.id.epoch) for each in controller.received if isinstance(each, ReadRankLog)
    }
    assert shown == {(0, first), (1, second)} - {(0, None)}


class Node:
    """Has the end of a log, and then no more. An older agent does not say where the text begins."""

    def __init__(self, content: bytes, begin: int, older: bool) -> None:
        self._pieces = [content.decode(errors="replace"), ""]
        self._offset = begin + len(content)
        self._begin = None if older else begin

    def ask(self, message: ReadRankLog) -> dict[str, Any]:
        text = self._pieces.pop(0)
        return {"text": text, "offset": self._offset, "node": "a", "begin": self._begin, "restBytes": 0}


@pytest.mark.parametrize(
    ("content", "begin", "older", "lines"),
    [
        (b"one\ntwo\n", 0, True, ["one", "two"]),
        ("für\nzwei\n".encode(), 0, True, ["für", "zwei"]),
        ("eins\n日本語\n".encode(), 0, True, ["eins", "日本語"]),
        (b"one\ntwo\n", 1, True, ["two"]),
        ("für\nzwei\n".encode(), 1, True, ["zwei"]),
        ("für\nzwei\n".encode(), 0, False, ["für", "zwei"]),
        ("für\nzwei\n".encode(), 1, False, ["zwei"]),
        ("für\nzwei\n".encode("latin-1"), 0, False, ["f\ufffdr", "zwei"]),
        ("für\nzwei\n".encode("latin-1"), 1, False, ["zwei"]),
    ],
)
def test_only_a_log_that_was_read_from_within_loses_its_first_line(
    content: bytes, begin: int, older: bool, lines: list[str]
) -> None:
    node: Any = Node(content, begin, older)
    found = Source(RankId("tiny", 0, 3, 0), None).backlog(node, Wanted(tail=5))
    assert [line.text for line in found] == lines
