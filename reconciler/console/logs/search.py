"""The page that searches lines in the logs of ranks, with bounds on ranks, bytes and seconds, even if an agent hangs."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from urllib.parse import quote, urlencode

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from reconciler.console.access.visitor import visitor_of
from reconciler.console.feed import Feed
from reconciler.console.pages import Page, Pages
from reconciler.errors import ReconcilerError
from reconciler.wire.admin import Get, ReadRankLog
from reconciler.wire.answers import LogPiece
from reconciler.wire.launch import Phase, RankId
from reconciler.wire.objects import Rank

from .lines import QUERY_CHARACTERS_MAX, Line, Parts, has_all, lines_of, marked, words_of
from .log import begin_of

PATH = "/search/logs"
RANKS_MAX = 32
"""Most ranks to ask for their logs: running ones first, then those that began last."""
BYTES_MAX = 256 * 1024
"""Bytes to read from the end of each log: the controller sends all of them in a fraction of a second."""
SECONDS_MAX = 4.0
"""Time for all logs together. The page names the ranks whose agent has not answered by then."""
SEARCHES_MAX = 2
"""Most searches at a time, by all browsers together."""
SHOWN_MAX = 100
BUSY = "Too many people are searching the logs. Try again in a few seconds."


@dataclass(frozen=True, slots=True)
class Hit:
    rank: str
    epoch: int
    node: str
    time: str
    parts: Parts
    path: str
    """The address of this line on the page of the log."""
    order: tuple[str, int]
    """The order of hits: by time, then by the place in the output."""


@dataclass(slots=True)
class Found:
    """The result of a search, with the parts that it has not read."""

    problem: str = ""
    hits: list[Hit] = field(default_factory=list)
    left_out: int = 0
    """Hits that are not shown."""
    ranks: int = 0
    """Ranks whose logs were read."""
    bytes: int = 0
    cut: int = 0
    """Ranks whose logs were read only at their ends."""
    unasked: int = 0
    """Ranks beyond ``RANKS_MAX``."""
    silent: list[tuple[str, str, str]] = field(default_factory=list)
    """Ranks whose logs did not come: name, node and reason."""


class LogSearch:
    def __init__(self, feed: Feed, pages: Pages, seconds: float = SECONDS_MAX) -> None:
        self._feed = feed
        self._pages = pages
        self._seconds = seconds
        self._running = 0

    def routes(self) -> list[Route]:
        return [Route(PATH, self._shown, name="Search in logs")]

    async def _shown(self, request: Request) -> Response:
        query = request.query_params.get("q", "").strip()[:QUERY_CHARACTERS_MAX]
        self._feed.touch()
        found = await self.search(query)
        values = {
            "query": query,
            "found": found,
            "bytes_max": BYTES_MAX,
            "ranks_max": RANKS_MAX,
            "seconds": self._seconds,
        }
        page = Page(PATH, "Search", ("log_search",), lambda s, n: values, still=True, reloads=False)
        html = self._pages.whole(page, "", self._feed.snapshot, wall=False, key=visitor_of(request).key)
        return HTMLResponse(html, headers={"cache-control": "no-store"})

    async def search(self, query: str) -> Found:
        """Return the lines with all words of the query, newest first; none without a word. Takes at most the bound."""
        words = words_of(query)
        if not words:
            return Found()
        if self._running >= SEARCHES_MAX:
            return Found(BUSY)
        self._running += 1
        try:
            return await self._search(query, words)
        finally:
            self._running -= 1

    async def _search(self, query: str, words: tuple[str, ...]) -> Found:
        clock = asyncio.get_running_loop().time
        deadline = clock() + self._seconds
        try:
            async with asyncio.timeout_at(deadline):
                rows = (await self._feed.ask(Get("Rank", ended=True)))["items"]
        except TimeoutError:
            return Found(f"The controller gave no list of ranks within {self._seconds:g} s.")
        except ReconcilerError as error:
            return Found(str(error))
        rows = in_order(rows)
        found = Found(unasked=len(rows[RANKS_MAX:]))
        asked = {asyncio.create_task(self._read(row)): row for row in rows[:RANKS_MAX]}
        if asked:
            _, late = await asyncio.wait(asked, timeout=max(0.0, deadline - clock()))
            for task in late:
                task.cancel()
            await asyncio.wait(asked)
        for task, row in asked.items():
            self._take(found, row, task, query, words)
        found.hits.sort(key=lambda hit: hit.order, reverse=True)
        found.left_out += len(found.hits[SHOWN_MAX:])
        del found.hits[SHOWN_MAX:]
        return found

    async def _read(self, row: Rank) -> LogPiece:
        return await self._feed.ask(ReadRankLog(RankId.parse(row["metadata"]["name"]), BYTES_MAX))

    def _take(
        self, found: Found, row: Rank, task: asyncio.Task[LogPiece], query: str, words: tuple[str, ...]
    ) -> None:
        """Add the hits in a rank's log, or the reason why it did not come."""
        name, node = row["metadata"]["name"], row["node"]
        if task.cancelled():
            found.silent.append((name, node, f"no answer within {self._seconds:g} s"))
            return
        error = task.exception()
        if isinstance(error, ReconcilerError):
            found.silent.append((name, node, str(error)))
            return
        body = task.result()
        begin = begin_of(body)
        found.ranks += 1
        found.bytes += body["offset"] - begin
        found.cut += begin > 0
        lines = [line for line in lines_of(body["text"], begin) if has_all(line.text, words)]
        found.left_out += len(lines[:-SHOWN_MAX])
        found.hits += [_hit(row, line, query, words) for line in lines[-SHOWN_MAX:]]


def in_order(rows: list[Rank]) -> list[Rank]:
    """Return ranks in the order in which they are asked: those that run, then those that began last."""
    newest_first = sorted(rows, key=lambda row: row["startedAt"] or "", reverse=True)
    return sorted(newest_first, key=lambda row: row["phase"] == Phase.EXITED)


def _hit(row: Rank, line: Line, query: str, words: tuple[str, ...]) -> Hit:
    name = row["metadata"]["name"]
    at = "" if line.time is None else line.time.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return Hit(
        name,
        row["epoch"],
        row["node"],
        at,
        marked(line.said, words),
        f"/logs/{quote(name, safe='')}?{urlencode({'at': line.begin, 'q': query})}#line",
        (at or row["startedAt"] or "", line.begin),
    )
