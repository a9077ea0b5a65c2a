"""Lines of logs are found as plain text, within bounds that the page names; an agent that hangs keeps nobody waiting."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.agent.ranks.log import RankLog, read_log
from reconciler.console.feed import Feed
from reconciler.console.logs import search
from reconciler.console.logs.lines import has_all, lines_of, marked, nearest, words_of
from reconciler.console.logs.log import Logs
from reconciler.console.logs.search import BUSY, LogSearch
from reconciler.console.pages import Pages
from reconciler.errors import Unreachable
from reconciler.wire.admin import Get, ReadRankLog

from .doors import client_of, doors_of
from .snapshots import recorded

STAMP = "2026-11-21T10:00:0{}.000Z "
HANGS, AWAY = "hangs", "away"


class Cluster(Feed):
    """A controller of ranks whose logs are those that agents write and read; of a node that hangs, nothing ever comes."""

    def __init__(
        self, folder: Path, logs: Mapping[str, bytes], nodes: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(Path("/nobody"), lambda: 0.0)
        self.folder = folder
        self.nodes = nodes or {}
        self.names = tuple(logs)
        for name, text in logs.items():
            (folder / name).mkdir()
            log = RankLog(folder / name)
            log.write(text)
            log.close()

    async def ask(self, message: Any) -> Any:
        if isinstance(message, Get):
            assert message.ended, "earlier epochs are searched too"
            return {"items": [self._row(name) for name in self.names]}
        assert isinstance(message, ReadRankLog)
        node = self.nodes.get(str(message.id), "node-a")
        if node == HANGS:
            await asyncio.Event().wait()
        if node == AWAY:
            raise Unreachable("the agent of away does not answer")
        log = read_log(self.folder / str(message.id), message.bytes_max, message.offset)
        counted = {"begin": log.begin, "restBytes": log.rest_bytes}
        return {"text": log.text, "offset": log.offset, "node": node, **counted}

    def _row(self, name: str) -> dict[str, Any]:
        deployment, replica, epoch, rank = name.rsplit(".", 3)
        known = {"deployment": deployment, "replica": int(replica), "epoch": int(epoch), "rank": int(rank)}
        started = f"2026-11-21T09:00:{int(epoch):02}.000Z"
        node = self.nodes.get(name, "node-a")
        return {"metadata": {"name": name}, **known, "node": node, "phase": "ready", "startedAt": started}


def logged(*lines: str) -> bytes:
    return "".join(f"{STAMP.format(number)}{line}\n" for number, line in enumerate(lines)).encode()


async def test_a_line_is_found_in_every_epoch_newest_first_and_its_words_are_marked(tmp_path: Path) -> None:
    logs = {
        "tiny.0.1.0": logged("loads", "Metal out of memory"),
        "tiny.0.2.0": logged("x", "y", "memory: OUT OF it"),
    }
    found = await LogSearch(Cluster(tmp_path, logs), Pages()).search("memory out")
    assert [(hit.rank, hit.epoch, hit.time) for hit in found.hits] == [
        ("tiny.0.2.0", 2, "2026-11-21T10:00:02.000Z"),
        ("tiny.0.1.0", 1, "2026-11-21T10:00:01.000Z"),
    ]
    assert found.hits[0].parts == (("memory", True), (": ", False), ("OUT", True), (" OF it", False))
    assert (found.ranks, found.bytes, found.cut, found.silent) == (2, sum(map(len, logs.values())), 0, [])


async def test_the_page_of_the_log_begins_around_the_line_and_marks_it(tmp_path: Path) -> None:
    noise = b"noise\n" * 20_000
    feed = Cluster(tmp_path, {"tiny.0.1.0": noise + b"\xff\xfe bad <b>bytes</b>, needle\n" + noise})
    (hit,) = (await LogSearch(feed, Pages()).search("NEEDLE")).hits
    path, _, fragment = hit.path.partition("#")
    found = await Logs(feed, Pages())._found(
        "tiny.0.1.0", int(path.partition("at=")[2].partition("&")[0]), "NEEDLE"
    )
    assert fragment == "line"
    assert found["lines"][found["hit"]] == "\ufffd\ufffd bad <b>bytes</b>, needle"
    assert found["marked"][-1] == ("needle", True)
    assert 1000 < found["hit"] < len(found["lines"]) - 1000, "there are lines before and after it"


async def test_an_agent_that_hangs_keeps_nobody_waiting_and_is_named(tmp_path: Path) -> None:
    logs = {f"tiny.0.1.{rank}": logged("needle") for rank in range(4)}
    feed = Cluster(tmp_path, logs, {"tiny.0.1.1": HANGS, "tiny.0.1.3": AWAY})
    found = await LogSearch(feed, Pages(), seconds=0.3).search("needle")
    assert {hit.rank for hit in found.hits} == {"tiny.0.1.0", "tiny.0.1.2"}
    assert found.silent == [
        ("tiny.0.1.1", HANGS, "no answer within 0.3 s"),
        ("tiny.0.1.3", AWAY, "the agent of away does not answer"),
    ]


async def test_ranks_bytes_and_lines_are_bounded_and_the_rest_is_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search, "RANKS_MAX", 2)
    monkeypatch.setattr(search, "BYTES_MAX", 1000)
    monkeypatch.setattr(search, "SHOWN_MAX", 10)
    logs = {f"tiny.0.{epoch}.0": b"needle\n" * 1000 for epoch in (1, 3, 2)}
    found = await LogSearch(Cluster(tmp_path, logs), Pages()).search("needle")
    assert {hit.epoch for hit in found.hits} == {3}, "the newest are shown"
    assert (found.ranks, found.unasked, found.cut, found.bytes) == (2, 1, 2, 2000)
    assert (len(found.hits), len(found.hits) + found.left_out) == (10, 2 * 142)


async def test_more_searches_than_a_few_at_a_time_are_sent_away(tmp_path: Path) -> None:
    feed = Cluster(tmp_path, {"tiny.0.1.0": b""}, {"tiny.0.1.0": HANGS})
    searches = LogSearch(feed, Pages(), seconds=0.3)
    found = await asyncio.gather(*(searches.search("x") for _ in range(search.SEARCHES_MAX + 1)))
    assert [each.problem for each in found] == ["", "", BUSY]
    assert (await searches.search("x")).problem == "", "once the others are over, there is room"


def test_what_is_typed_is_text_and_no_pattern() -> None:
    assert has_all("a (b|c)+$ d", words_of("(B|C)+$"))
    assert not has_all("abc", words_of("a.c"))
    # taken as a pattern, this would not end within the time limit of a test
    assert not has_all("a" * 200_000, words_of("(a+)+$ " + "a" * 150 + "b"))


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("Straße", "Hohe Straße 1"),
        ("Straße", "HOHE STRASSE 1"),
        ("STRASSE", "Hohe Straße 1"),
        ("ΛΟΓΟΣ", "ο λόγος: λογος"),
        ("ﬁle", "FILE not found"),
    ],
)
def test_a_word_is_found_in_whatever_case_it_and_the_line_are(query: str, text: str) -> None:
    assert has_all(text, words_of(query))
    assert any(on for _, on in marked(text, words_of(query)))


@given(st.text(max_size=60), st.text(max_size=12))
def test_a_marked_text_is_the_whole_text(text: str, query: str) -> None:
    words = words_of(query)
    pieces = marked(text, words)
    assert "".join(piece for piece, _ in pieces) == text
    assert all(piece for piece, _ in pieces)
    if words and has_all(text, words):
        assert any(on for _, on in pieces)


@given(
    st.lists(
        st.text(alphabet=st.characters(exclude_characters="\n", exclude_categories=["Cs"]), max_size=20),
        max_size=6,
    )
)
def test_each_line_knows_at_which_byte_it_begins(lines: list[str]) -> None:
    text = "".join(f"{line}\n" for line in lines)
    content = text.encode()
    for line in lines_of(text, 0):
        assert line.begin == 0 or content[line.begin - 1 : line.begin] == b"\n"


def test_of_several_lines_the_nearest_is_meant_and_none_where_it_is_gone() -> None:
    lines = lines_of("needle\nhay\nneedle\nhay\nneedle\n", 0)
    assert nearest(lines, 12, words_of("needle")) == 2
    assert nearest(lines, 12, words_of("pin")) is None


def test_the_page_shows_nothing_that_is_typed_as_markup_and_says_where_no_controller_answers() -> None:
    client = client_of(doors_of(recorded("four-macs")))
    page = client.get("/search/logs", params={"q": "<b>x</b>"}).text
    assert "&lt;b&gt;x&lt;/b&gt;" in page
    assert "<b>x</b>" not in page.replace("<b>&lt;b&gt;x&lt;/b&gt;</b>", "")
    assert "the controller has not answered yet" in page
    assert "Type words to find the lines" in client.get("/search/logs").text


async def test_what_a_rank_has_printed_is_neither_markup_nor_obeyed(tmp_path: Path) -> None:
    feed = Cluster(tmp_path, {"tiny.0.1.0": b"\x1b[31mneedle <script>alert(1)</script>\x1b[0m\x07\n"})
    found = await LogSearch(feed, Pages()).search("needle script")
    assert "".join(text for text, _ in found.hits[0].parts) == "needle <script>alert(1)</script>"
    html = Pages().render(
        "log_search.html", query="needle", found=found, bytes_max=1000, ranks_max=2, seconds=4.0, place="logs"
    )
    assert "<mark>needle</mark>" in html
    assert "<script>" not in html
