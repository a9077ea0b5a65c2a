"""The page of a rank's output, and the stream that follows it. A browser that is slow gets the newest, and is told so."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from typing import Any

from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from reconciler.console.access.visitor import visitor_of
from reconciler.console.feed import Feed
from reconciler.console.pages import Page, Pages
from reconciler.console.snapshot import Body
from reconciler.errors import ReconcilerError, Refused
from reconciler.wire.admin import Get, ReadRankLog
from reconciler.wire.launch import RankId

from .lines import Splitter, whole_lines
from .matching import lines_of, marked, nearest, words_of

TAIL_BYTES = 48 * 1024
"""How much of a log's end a page begins with."""
PIECE_BYTES = 64 * 1024
"""The most that is read at a time: who is further behind gets the newest, so that nothing piles up anywhere."""
BEFORE_BYTES = TAIL_BYTES // 2
"""How much of it is shown before a line that was searched for."""
LOOK_SECONDS = 0.5
ALIVE_LOOKS = 30
"""After how many looks without news a browser hears something, so that both ends find out when the other is gone."""
ENDED_LOOKS = 4
"""How many looks without news end the log of a rank that runs no more."""
NEXT_SECONDS = 600.0
"""How long a page whose rank has ended waits for the same rank of a later epoch, whose log it then goes on with."""
FOLLOWED = "followed"
"""What ends the id of an event of a rank that was known to run: a page that connects again waits for the next epoch."""
STILL_HERE = b": still here\n\n"
FOLLOWERS_MAX = 64
"""Most logs that are followed at a time, by all browsers together."""


class Logs:
    """Shows what ranks print."""

    def __init__(self, feed: Feed, pages: Pages) -> None:
        self._feed = feed
        self._pages = pages
        self._followers = 0
        self._asked: dict[tuple[RankId, int], tuple[float, asyncio.Task[tuple[Body, int]]]] = {}
        """What was asked last of a rank's output from an offset on, and when: who has read as far shares the answer."""

    def routes(self) -> list[Route]:
        """Return the routes of the page and its stream."""
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
        """Return what the template shows of a rank: the end of its log, or the lines around a byte, of which the one with all
        words of the query is marked."""
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
            return {**found, "problem": f"{name} is no name of a rank, such as tiny.0.3.1"}
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

        ``runs`` as ``{}`` once it is known to run: from then on it is ``followed``, also by who connects again. ``lines`` as
        ``{"lines", "leftOut": bytes}``. ``end`` as ``{"waits": bool}`` once it has ended, or is waited for no longer. Where it
        waits, ``next`` as ``{"name", "text"}``, the same rank of a later epoch, after which nothing comes; or ``runs`` again.
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
                        body, left_out = news
                        if left_out:
                            splitter = Splitter()
                        lines = splitter.feed(body["text"])
                        at, quiet = body["offset"], 0 if body["text"] else quiet + 1
                        if lines or left_out:
                            yield _event("lines", {"lines": lines, "leftOut": left_out}, at, followed)
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
        """Wait for the rank of a later epoch, or for the rank itself, which a controller that began anew knows late; yield
        comments meanwhile. No longer than ``NEXT_SECONDS``."""
        for look in range(int(NEXT_SECONDS / LOOK_SECONDS)):
            if self._runs(id) or self._later(id):
                return
            if look % ALIVE_LOOKS == ALIVE_LOOKS - 1:
                yield STILL_HERE
            await asyncio.sleep(LOOK_SECONDS)

    async def _news(self, id: RankId, at: int) -> tuple[Body, int] | None:
        """Return what ``_read`` does, nothing new where there is no answer, and None where the rank is gone."""
        try:
            return await self._read(id, at)
        except ReconcilerError as error:
            unknown = isinstance(error, Refused) and error.code == "NotFound"
            return None if unknown and not self._may_run(id) else ({"text": "", "offset": at}, 0)

    async def _read(self, id: RankId, at: int) -> tuple[Body, int]:
        """Return what ``_ask`` does. All who have read as far ask once together in ``LOOK_SECONDS``."""
        now = asyncio.get_running_loop().time()
        for key, (asked_at, task) in tuple(self._asked.items()):
            if task.done() and now - asked_at >= LOOK_SECONDS:
                del self._asked[key]
        if (id, at) not in self._asked:
            task = asyncio.create_task(self._ask(id, at), name=f"read the log of {id}")
            task.add_done_callback(
                lambda done: done.cancelled() or done.exception()
            )  # also where nobody waits any more
            self._asked[id, at] = now, task
        return await asyncio.shield(self._asked[id, at][1])

    async def _ask(self, id: RankId, at: int) -> tuple[Body, int]:
        """Return what a rank has printed since, and how many bytes of it are left out because it is too much."""
        body = await self._feed.ask(ReadRankLog(id, PIECE_BYTES, at))
        if body["offset"] - at < PIECE_BYTES:
            return body, 0
        newest = await self._feed.ask(ReadRankLog(id, PIECE_BYTES))
        text = newest["text"].partition("\n")[2]
        left_out = newest["offset"] - len(text.encode()) - at
        return {"text": text, "offset": newest["offset"]}, max(0, left_out)

    def _runs(self, id: RankId) -> bool:
        """Return whether a rank is known to run."""
        return any(rank["metadata"]["name"] == str(id) for rank in self._feed.snapshot.ranks)

    def _may_run(self, id: RankId) -> bool:
        """Return whether a rank runs, as far as is known: where no controller answers, or none has yet, it may."""
        now = self._feed.snapshot
        return bool(now.lost) or not now.status or self._runs(id)

    def _later(self, id: RankId) -> Body | None:
        """Return the same rank of the newest epoch after this one; None where there is none."""
        where = (id.deployment, id.replica, id.rank)
        same = [
            row
            for row in self._feed.snapshot.ranks
            if (row["deployment"], row["replica"], row["rank"]) == where
        ]
        later = [row for row in same if row["epoch"] > id.epoch]
        return max(later, key=lambda row: int(row["epoch"]), default=None)


def place(text: str) -> int | None:
    """Return the byte that an address names; None where it names none."""
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= 18 else None


def position(last: str) -> tuple[int, bool]:
    """Return at which byte of the output an event's id leaves off, and whether the rank was known to run: ``12`` or
    ``12-followed``. Raises ``ValueError``."""
    at, _, followed = last.partition("-")
    return max(0, int(at[:18])), followed == FOLLOWED


def _marked(body: Body, at: int, words: tuple[str, ...]) -> dict[str, Any]:
    """Return the lines of a piece of output, and which of them was looked for."""
    lines = lines_of(body["text"].rpartition("\n")[0], begin_of(body))
    hit = nearest(lines, at, words)
    shown = [line.text for line in lines]
    return {"lines": shown, "hit": hit, "marked": () if hit is None else marked(shown[hit], words)}


def begin_of(body: Body) -> int:
    """Return at which byte of the output a text begins. Where the agent is too old to say so: as if all of it was UTF-8."""
    begin = body.get("begin")
    return int(begin) if begin is not None else body["offset"] - len(body["text"].encode())


def _rest_bytes(body: Body, rest: str) -> int:
    """Return how many bytes ``rest`` was, what follows the last newline of a text; of an old agent as ``_begin`` does."""
    known = body.get("restBytes")
    return int(known) if known is not None else len(rest.encode())


def _event(kind: str, data: dict[str, Any], at: int, followed: bool) -> bytes:
    id = f"{at}-{FOLLOWED}" if followed else str(at)
    return f"event: {kind}\nid: {id}\ndata: {json.dumps(data)}\n\n".encode()


def _beside(rows: list[Body], id: RankId) -> dict[str, Any]:
    """Return the other ranks of the group, and the same rank of other epochs, newest first, as name, text and phase."""
    replica = [row for row in rows if row["replica"] == id.replica]
    group = sorted((row for row in replica if row["epoch"] == id.epoch), key=lambda row: int(row["rank"]))
    same = sorted((row for row in replica if row["rank"] == id.rank), key=lambda row: -int(row["epoch"]))
    return {
        "siblings": [(row["metadata"]["name"], f"rank {row['rank']} on {row['node']}") for row in group],
        "epochs": [(row["metadata"]["name"], f"epoch {row['epoch']}", row["phase"]) for row in same],
    }
