"""The log of a rank as a page shows it: as text, whatever the rank prints, and bounded, however much it is."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, aclosing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.agent.ranks.log import RankLog, read_log
from reconciler.console.feed import Feed
from reconciler.console.logs import log
from reconciler.console.logs.lines import LINE_CHARACTERS_MAX, Splitter, plain, whole_lines
from reconciler.console.logs.log import ENDED_LOOKS, PIECE_BYTES, Logs, position
from reconciler.console.pages import Pages
from reconciler.console.snapshot import Snapshot
from reconciler.console.view.incident import logs_of
from reconciler.controller.admin import bodies
from reconciler.errors import Refused
from reconciler.state import DeploymentName, FaultClass, ReplicaId
from reconciler.state.reports.incident import Entry, EntryKind, Incident
from reconciler.state.subjects import ReplicaSubject
from reconciler.wire.admin import Get, ReadRankLog
from reconciler.wire.launch import RankId

from .snapshots import recorded

RANK = RankId.parse("tiny.0.3.1")


@pytest.mark.parametrize(
    ("printed", "shown"),
    [
        ("\x1b[1;31mred\x1b[0m", "red"),
        ("\x1b]0;a title\x07text", "text"),
        ("\x1b]8;;https://evil.example\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x9b2Jtext", "text"),
        ("10 %\r50 %\r100 %\r", "100 %"),
        ("a\u202egnp.exe", "agnp.exe"),
        ("bell\x07, nul\x00", "bell, nul"),
        ("<script>alert(1)</script>", "<script>alert(1)</script>"),
        ("x" * 9000, "x" * LINE_CHARACTERS_MAX),
    ],
)
def test_nothing_that_is_printed_is_obeyed(printed: str, shown: str) -> None:
    assert plain(printed) == shown


@given(st.lists(st.text(), max_size=8))
def test_no_piece_of_output_reaches_a_page_as_control_characters(pieces: list[str]) -> None:
    splitter = Splitter()
    for line in (line for piece in pieces for line in splitter.feed(piece)):
        assert not any((ord(each) < 32 and each != "\t") or 127 <= ord(each) < 160 for each in line)
        assert len(line) <= LINE_CHARACTERS_MAX


def test_the_end_of_a_log_begins_with_a_whole_line() -> None:
    assert whole_lines("lf a line\none\ntwo\nrest", begins_within=True) == (["one", "two"], "rest")
    assert whole_lines("one\n", begins_within=False) == (["one"], "")


def running(epoch: int) -> Any:
    """The rank of an epoch, as the controller lists it."""
    name = f"{RANK.deployment}.{RANK.replica}.{epoch}.{RANK.rank}"
    known = {"deployment": RANK.deployment, "replica": RANK.replica, "rank": RANK.rank, "node": "node-a"}
    return {"metadata": {"name": name}, "epoch": epoch, **known}


def knowing(*epochs: int) -> Snapshot:
    """What is known once the controller has answered: the rank runs in these epochs."""
    status = recorded("four-macs").status
    return Snapshot(status=status, ranks=tuple(map(running, epochs)))


@dataclass
class Rank(Feed):
    """A controller that knows one rank, which has printed ``text``."""

    text: str = ""
    read: list[int] = field(default_factory=list)
    asked: int = 0
    asked_often: asyncio.Event = field(default_factory=asyncio.Event)
    """Once it was asked more often than the log of a rank that has ended is looked at."""

    def __post_init__(self) -> None:
        super().__init__(Path("/nobody"), lambda: 0.0)
        self.snapshot = knowing()

    async def ask(self, message: Any) -> Any:
        assert isinstance(message, ReadRankLog)
        self.asked += 1
        if self.asked > 2 * ENDED_LOOKS:
            self.asked_often.set()
        if message.id != RANK:
            raise Refused("NotFound", "no node knows it")
        content = self.text.encode()
        begin = len(content) - message.bytes_max if message.offset is None else message.offset
        piece = content[max(0, begin) :][: message.bytes_max]
        self.read.append(len(piece))
        return {"text": piece.decode(), "offset": max(0, begin) + len(piece), "node": "node-a"}


async def heard(events: AsyncGenerator[bytes, None]) -> tuple[str, Any]:
    """The next that a browser hears."""
    kind, _, data = (await anext(events)).decode().strip().split("\n")
    return kind.removeprefix("event: "), json.loads(data.removeprefix("data: "))


async def first(feed: Feed, id: RankId = RANK, at: int = 0) -> tuple[str, Any]:
    """The first that a browser hears."""
    async with aclosing(Logs(feed, Pages()).lines(id, at)) as events:
        return await heard(events)


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Looks that follow each other at once."""
    monkeypatch.setattr(log, "LOOK_SECONDS", 0.001)


NEXT = (
    "next",
    {"name": running(RANK.epoch + 1)["metadata"]["name"], "text": f"epoch {RANK.epoch + 1} on node-a"},
)
ONE = ("lines", {"lines": ["one"], "leftOut": 0})


@pytest.mark.usefixtures("quick")
async def test_a_log_that_was_followed_goes_on_with_the_next_epoch() -> None:
    feed = Rank("one\n")
    feed.snapshot = knowing(RANK.epoch)
    async with aclosing(Logs(feed, Pages()).lines(RANK, 0)) as events:
        assert await heard(events) == ("runs", {})
        assert await heard(events) == ONE
        feed.snapshot = knowing()
        assert await heard(events) == ("end", {"waits": True})
        feed.snapshot = knowing(RANK.epoch + 1)
        assert await heard(events) == NEXT
        with pytest.raises(StopAsyncIteration):
            await anext(events)


@pytest.mark.usefixtures("quick")
async def test_whether_a_rank_has_ended_is_not_told_before_the_controller_has_said_which_run() -> None:
    feed = Rank("one\n")
    feed.snapshot = Snapshot()
    async with aclosing(Logs(feed, Pages()).lines(RANK, 0)) as events:
        assert await heard(events) == ONE
        hearing = asyncio.create_task(heard(events))
        async with asyncio.timeout(10):
            await feed.asked_often.wait()
        assert not hearing.done()
        feed.snapshot = knowing(RANK.epoch)
        assert await hearing == ("runs", {})
        feed.snapshot = knowing()
        assert await heard(events) == ("end", {"waits": True})


@pytest.mark.usefixtures("quick")
async def test_a_page_that_lost_its_connection_still_waits_for_the_next_epoch() -> None:
    feed = Rank("one\n")
    feed.snapshot = knowing(RANK.epoch)
    async with aclosing(Logs(feed, Pages()).lines(RANK, 0)) as events:
        last = id_of(await anext(events))
    feed.snapshot = knowing()
    async with aclosing(Logs(feed, Pages()).lines(RANK, *position(last))) as events:
        assert await heard(events) == ONE
        ended = await anext(events)
        assert b'{"waits": true}' in ended
    feed.snapshot = knowing(RANK.epoch + 1)
    async with aclosing(Logs(feed, Pages()).lines(RANK, *position(id_of(ended)))) as events:
        assert await heard(events) == ("end", {"waits": True})
        assert await heard(events) == NEXT


def id_of(event: bytes) -> str:
    """What the browser says where it connects again."""
    (said,) = [line for line in event.decode().split("\n") if line.startswith("id: ")]
    return said.removeprefix("id: ")


@pytest.mark.usefixtures("quick")
async def test_a_page_waits_no_longer_than_it_is_to(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log, "NEXT_SECONDS", 0.002)
    async with aclosing(Logs(Rank("one\n"), Pages()).lines(RANK, 4, followed=True)) as events:
        assert await heard(events) == ("end", {"waits": True})
        assert await heard(events) == ("end", {"waits": False})
        with pytest.raises(StopAsyncIteration):
            await anext(events)


@pytest.mark.usefixtures("quick")
async def test_a_rank_that_a_controller_knew_late_after_its_start_goes_on() -> None:
    feed = Rank("one\n")
    async with aclosing(Logs(feed, Pages()).lines(RANK, 4, followed=True)) as events:
        assert await heard(events) == ("end", {"waits": True})
        feed.snapshot = knowing(RANK.epoch)
        feed.text += "two\n"
        assert await heard(events) == ("runs", {})
        assert await heard(events) == ("lines", {"lines": ["two"], "leftOut": 0})


@pytest.mark.usefixtures("quick")
async def test_a_rank_that_runs_has_not_ended_where_its_node_is_not_connected_yet() -> None:
    feed = Rank("")
    id = replace(RANK, deployment="big")
    feed.snapshot = replace(knowing(), ranks=(running(RANK.epoch) | {"metadata": {"name": str(id)}},))
    async with aclosing(Logs(feed, Pages()).lines(id, 0, followed=True)) as events:
        hearing = asyncio.create_task(heard(events))
        async with asyncio.timeout(10):
            await feed.asked_often.wait()
        assert not hearing.done()
        feed.snapshot = knowing()
        assert await hearing == ("end", {"waits": True})


async def test_who_follows_the_same_log_asks_for_it_together() -> None:
    feed = Rank("one\n")
    logs = Logs(feed, Pages())
    async with AsyncExitStack() as stack:
        streams = [await stack.enter_async_context(aclosing(logs.lines(RANK, 0))) for _ in range(20)]
        assert (
            await asyncio.gather(*map(heard, streams)) == [("lines", {"lines": ["one"], "leftOut": 0})] * 20
        )
    assert len(feed.read) == 1


async def test_a_log_is_sent_from_where_the_page_ends() -> None:
    said = await first(Rank("one\ntwo\nthree\n"), at=4)
    assert said == ("lines", {"lines": ["two", "three"], "leftOut": 0})


async def test_a_page_goes_on_after_its_last_whole_line_also_where_not_all_is_text(tmp_path: Path) -> None:
    printed = RankLog(tmp_path)
    printed.write(b"\xff\xfe one\nrest \xff\xff")
    printed.close()

    class Printed(Rank):
        async def ask(self, message: Any) -> Any:
            if isinstance(message, Get):
                return {"items": []}
            found = read_log(tmp_path, message.bytes_max, message.offset)
            counted = {"begin": found.begin, "restBytes": found.rest_bytes}
            return {"text": found.text, "offset": found.offset, "node": "node-a", **counted}

    shown = await Logs(Printed(), Pages())._found(str(RANK))
    assert shown["lines"] == ["\ufffd\ufffd one"]
    assert shown["after"] == 7


async def test_who_is_too_far_behind_gets_the_newest_and_how_much_is_left_out() -> None:
    feed = Rank("".join(f"line {n}\n" for n in range(100_000)))
    _, said = await first(feed)
    assert said["lines"][-1] == "line 99999"
    shown = sum(len(line) + 1 for line in said["lines"])
    assert said["leftOut"] + shown == len(feed.text)
    assert max(feed.read) <= PIECE_BYTES


async def test_a_rank_that_nobody_knows_ends_at_once() -> None:
    assert await first(Rank(""), RankId.parse("tiny.0.9.0")) == ("end", {"waits": False})


def test_an_incident_leads_to_the_logs_of_the_ranks_that_it_names() -> None:
    lost = (RankId("large", 0, 3, 1), RankId("large", 0, 3, 1), None, RankId("large", 0, 4, 0))
    entries = tuple(Entry(float(at), EntryKind.SEEN, "it ended", rank=each) for at, each in enumerate(lost))
    replica = ReplicaId(DeploymentName("large"), 0)
    found = Incident(1, replica.key, ReplicaSubject(replica), FaultClass.RANK_CRASH, 0.0, entries=entries)
    assert logs_of(bodies.incident(found, 9.0)) == ("large.0.3.1", "large.0.4.0")
