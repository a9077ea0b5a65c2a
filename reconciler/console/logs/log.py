"""The page of a rank's output, and the stream that follows it. A slow browser gets the newest lines and a note of the gap."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from typing import Any, NamedTuple

from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from reconciler.console.access.visitor import visitor_of
from reconciler.console.feed import Feed
from reconciler.console.pages import Page, Pages
from reconciler.errors import ReconcilerError, Refused
from reconciler.wire.admin import Get, ReadRankLog
from reconciler.wire.answers import LogPiece
from reconciler.wire.launch import RankId
from reconciler.wire.objects import Rank

from .lines import Splitter, lines_of, marked, nearest, whole_lines, words_of

TAIL_BYTES = 48 * 1024
"""Bytes of a log's end with which a page begins."""
PIECE_BYTES = 64 * 1024
"""Most bytes to read at a time: a page further behind gets the newest ones, so that nothing piles up."""
BEFORE_BYTES = TAIL_BYTES // 2
"""Bytes to show before a line that a search found."""
LOOK_SECONDS = 0.5
ALIVE_LOOKS = 30
"""Looks without news after which a browser gets a comment, so that each end notices when the other is gone."""
ENDED_LOOKS = 4
"""Looks without news that end the log of a rank that no longer runs."""
NEXT_SECONDS = 600.0
"""Time for which a page whose rank has ended waits for the same rank of a later epoch, to continue with its log."""
FOLLOWED = "followed"
"""End of an event's id if the rank was known to run: a page that reconnects with it waits for the next epoch."""
STILL_HERE = b": still here\n\n"
FOLLOWERS_MAX = 64
"""Most logs to follow at a time, for all browsers together."""


class News(NamedTuple):
    """A rank's output since the last look."""

    text: str
    offset: int
    left_out: int
    """Bytes that are left out because there is too much."""


class Logs:
    def __init__(self, feed: Feed, pages: Pages) -> None:
        self._feed = feed
        self._pages = pages
        self._followers = 0
        self._asked: dict[tuple[RankId, int], tuple[float, asyncio.Task[News]]] = {}
        """The last read of a rank's output by its offset, and its time: all pages that have read as far share it."""

    def routes(self) -> list[Route]:
        return [
            Route("/logs/{name}", self._shown, name="Log"),
            Route("/live/logs/{name}", self._live, name="live Log"),
        ]

    async def _shown(self, request: Request) -> Response:
        name = request.path_params["name"]
        self._feed.touch()
        query = request.query_params.get("q", "")
        values = {"name": name, **await self._found(name, place(request.query_params.get("at", "")), query)}
        page = Page(
            request.url.path, f"Log of {name}", ("log",), lambda s, n: values, still=True, scripts=("log.js",)
        )
        html = self._pages.whole(page, "", self._feed.snapshot, wall=False, key=visitor_of(request).key)
        return HTMLResponse(html, headers={"cache-control": "no-store"})

    async def _found(self, name: str, at: int | None = None, query: str = "") -> dict[str, Any]:
        """Return the template's values for a rank: the end of its log, or the lines around a byte with a mark on the line that
        has all words of the query."""
        found: dict[str, Any] = {
            "id": None,
            "problem": "",
            "lines": [],
            "hit": None,
            "marked": (),
            "after": 0,
            "node": "",
            "siblings": [],
            "epochs": [],
        }
        try:
            id = RankId.parse(name)
        except ValueError:
            return {**found, "problem": f"{name} is not the name of a rank, such as tiny.0.3.1"}
        try:
            rows = (await self._feed.ask(Get("Rank", id.deployment, ended=True)))["items"]
            found |= {"id": id, **_beside(rows, id)}
            begin = None if at is None else max(0, at - BEFORE_BYTES)
            body = await self._feed.ask(ReadRankLog(id, TAIL_BYTES, begin))
        except ReconcilerError as error:
            return {**found, "problem": str(error)}
        lines, rest = whole_lines(body["text"], begin_of(body) > 0)
        after = body["offset"] - (_rest_bytes(body, rest) if rest else 0)
        found |= {"lines": lines, "after": max(0, after), "node": body["node"]}
        return found if at is None else {**found, **_marked(body, at, words_of(query))}

    async def _live(self, request: Request) -> Response:
        try:
            id = RankId.parse(request.path_params["name"])
            last = request.headers.get("last-event-id") or request.query_params.get("after", "0")
            after, followed = position(last)
        except ValueError:
            return PlainTextResponse("no such log\n", 404)
        if self._followers >= FOLLOWERS_MAX:
            return PlainTextResponse("too many logs are followed now; try again later\n", 503)
        headers = {"cache-control": "no-store"}
        return StreamingResponse(
            self.lines(id, after, followed), media_type="text/event-stream", headers=headers
        )

    async def lines(self, id: RankId, at: int, followed: bool = False) -> AsyncGenerator[bytes, None]:
        """Yield events of a rank's output from an offset on, whose ids ``position`` reads.

        ``runs`` is ``{}``, once the rank is known to run: from then on it is ``followed``, even by a page that reconnects.
        ``lines`` is ``{"lines", "leftOut": bytes}``. ``end`` is ``{"waits": bool}``, once the rank has ended, or the wait for
        the next one. If it waits, ``next`` follows as the last event, ``{"name", "text"}`` of the same rank of a later epoch; or
        ``runs`` follows again.
        """
        splitter, quiet = Splitter(), 0
        self._followers += 1
        try:
            with self._feed.watching():
                while True:
                    while (quiet < ENDED_LOOKS or self._may_run(id)) and (news := await self._news(id, at)):
                        if not followed and self._runs(id):
                            followed = True
                            yield _event("runs", {}, at, followed)
                        if news.left_out:
                            splitter = Splitter()
                        lines = splitter.feed(news.text)
                        at, quiet = news.offset, 0 if news.text else quiet + 1
                        if lines or news.left_out:
                            yield _event("lines", {"lines": lines, "leftOut": news.left_out}, at, followed)
                        elif quiet % ALIVE_LOOKS == ALIVE_LOOKS - 1:
                            yield STILL_HERE
                        await asyncio.sleep(LOOK_SECONDS)
                    yield _event("end", {"waits": followed}, at, followed)
                    if not followed:
                        return
                    async for comment in self._until_more(id):
                        yield comment
                    if later := self._later(id):
                        name, text = later["metadata"]["name"], f"epoch {later['epoch']} on {later['node']}"
                        yield _event("next", {"name": name, "text": text}, at, followed)
                        return
                    followed, quiet = False, 0
        finally:
            self._followers -= 1

    async def _until_more(self, id: RankId) -> AsyncGenerator[bytes, None]:
        """Wait at most ``NEXT_SECONDS`` for the rank of a later epoch, or for the rank itself, which a new controller may not
        know yet; yield comments meanwhile."""
        for look in range(int(NEXT_SECONDS / LOOK_SECONDS)):
            if self._runs(id) or self._later(id):
                return
            if look % ALIVE_LOOKS == ALIVE_LOOKS - 1:
                yield STILL_HERE
            await asyncio.sleep(LOOK_SECONDS)

    async def _news(self, id: RankId, at: int) -> News | None:
        """Return the result of ``_read``; no new text if there is no answer, and None if the rank is gone."""
        try:
            return await self._read(id, at)
        except ReconcilerError as error:
            unknown = isinstance(error, Refused) and error.code == "NotFound"
            return None if unknown and not self._may_run(id) else News("", at, 0)

    async def _read(self, id: RankId, at: int) -> News:
        """Return the result of ``_ask``. Pages that have read as far share one question in ``LOOK_SECONDS``."""
        now = asyncio.get_running_loop().time()
        for key, (asked_at, task) in tuple(self._asked.items()):
            if task.done() and now - asked_at >= LOOK_SECONDS:
                del self._asked[key]
        if (id, at) not in self._asked:
            task = asyncio.create_task(self._ask(id, at), name=f"read the log of {id}")
            # Even if nobody waits any more.
            task.add_done_callback(lambda done: done.cancelled() or done.exception())
            self._asked[id, at] = now, task
        return await asyncio.shield(self._asked[id, at][1])

    async def _ask(self, id: RankId, at: int) -> News:
        """Return a rank's output after an offset, and the number of bytes left out because there is too much."""
        body = await self._feed.ask(ReadRankLog(id, PIECE_BYTES, at))
        if body["offset"] - at < PIECE_BYTES:
            return News(body["text"], body["offset"], 0)
        newest = await self._feed.ask(ReadRankLog(id, PIECE_BYTES))
        text = newest["text"].partition("\n")[2]
        left_out = newest["offset"] - len(text.encode()) - at
        return News(text, newest["offset"], max(0, left_out))

    def _runs(self, id: RankId) -> bool:
        """Return whether a rank is known to run."""
        return any(rank["metadata"]["name"] == str(id) for rank in self._feed.snapshot.ranks)

    def _may_run(self, id: RankId) -> bool:
        """Return whether a rank may run: it may if no controller answers, or none has answered yet."""
        now = self._feed.snapshot
        return bool(now.lost) or not now.status or self._runs(id)

    def _later(self, id: RankId) -> Rank | None:
        """Return the same rank of the newest epoch after this one; None if there is none."""
        where = (id.deployment, id.replica, id.rank)
        same = [
            row
            for row in self._feed.snapshot.ranks
            if (row["deployment"], row["replica"], row["rank"]) == where
        ]
        later = [row for row in same if row["epoch"] > id.epoch]
        return max(later, key=lambda row: row["epoch"], default=None)


def place(text: str) -> int | None:
    """Return the byte that an address names; None if it names none."""
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= 18 else None


def position(last: str) -> tuple[int, bool]:
    """Return the byte of the output at which an event ends, and whether the rank was known to run, from the event's id:
    ``12`` or ``12-followed``. Raises ``ValueError``."""
    at, _, followed = last.partition("-")
    return max(0, int(at[:18])), followed == FOLLOWED


def _marked(body: LogPiece, at: int, words: tuple[str, ...]) -> dict[str, Any]:
    """Return the lines of a piece of output, and the one that a search found."""
    lines = lines_of(body["text"].rpartition("\n")[0], begin_of(body))
    hit = nearest(lines, at, words)
    shown = [line.text for line in lines]
    return {"lines": shown, "hit": hit, "marked": () if hit is None else marked(shown[hit], words)}


def begin_of(body: LogPiece) -> int:
    """Return the byte of the output at which a text begins. If the agent is too old to say so, it assumes UTF-8."""
    begin = body.get("begin")
    return begin if begin is not None else body["offset"] - len(body["text"].encode())


def _rest_bytes(body: LogPiece, rest: str) -> int:
    """Return the number of bytes of ``rest``, the text after the last newline; for an old agent as in ``begin_of``."""
    known = body.get("restBytes")
    return known if known is not None else len(rest.encode())


def _event(kind: str, data: dict[str, Any], at: int, followed: bool) -> bytes:
    id = f"{at}-{FOLLOWED}" if followed else str(at)
    return f"event: {kind}\nid: {id}\ndata: {json.dumps(data)}\n\n".encode()


def _beside(rows: list[Rank], id: RankId) -> dict[str, Any]:
    """Return the ranks of the group as name and text, and the rank of all epochs, newest first, as name, text and phase."""
    replica = [row for row in rows if row["replica"] == id.replica]
    group = sorted((row for row in replica if row["epoch"] == id.epoch), key=lambda row: row["rank"])
    same = sorted((row for row in replica if row["rank"] == id.rank), key=lambda row: -row["epoch"])
    return {
        "siblings": [(row["metadata"]["name"], f"rank {row['rank']} on {row['node']}") for row in group],
        "epochs": [(row["metadata"]["name"], f"epoch {row['epoch']}", row["phase"]) for row in same],
    }
