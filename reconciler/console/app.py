"""The console as a Starlette application. It answers from the feed's snapshot."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from . import files
from .access.door import Door, Doors
from .access.login import Login
from .access.visitor import visitor_of
from .acts.act import Acts
from .chat.routes import Chat
from .exposition import Exposition
from .feed import Feed
from .guard import Guard
from .live import asked, changes
from .logs.log import Logs
from .logs.search import LogSearch
from .pages import MISSING, PAGES, Page, Pages
from .settings import Settings

NO_PAGES = ("/static/", "/live/")
"""Addresses that pages request and nobody types."""
Answer = Callable[[Request], Awaitable[Response]]


def build_app(feed: Feed, doors: Doors, settings: Settings) -> Starlette:
    pages = Pages()

    routes = [
        *(Route(page.path, _shown(feed, pages, page), name=page.title) for page in PAGES),
        *(Route(f"/live{page.path}", _live(feed, pages, page), name=f"live {page.title}") for page in PAGES),
        *Login(doors, pages).routes(),
        *Chat(feed, pages).routes(),
        *Logs(feed, pages).routes(),
        *LogSearch(feed, pages).routes(),
        *Acts(feed, pages, doors.clock).routes(),
        Route("/static/{name}", files.answer, name="File"),
    ]
    before = [
        Middleware(Guard, hosts=settings.hosts, any_address=settings.keys),
        Middleware(Door, doors=doors),
        Middleware(Exposition, feed=feed),
    ]
    return Starlette(routes=routes, middleware=before, exception_handlers={404: _missing(feed, pages)})


def _shown(feed: Feed, pages: Pages, page: Page) -> Answer:
    async def answer(request: Request) -> Response:
        name = _name(page, request)
        feed.touch()
        snapshot = await asked(feed, page, name)
        key = visitor_of(request).key
        html = pages.whole(page, name, snapshot, wall="wall" in request.query_params, key=key)
        return HTMLResponse(html, headers={"cache-control": "no-store"})

    return answer


def _live(feed: Feed, pages: Pages, page: Page) -> Answer:
    async def answer(request: Request) -> Response:
        name = _name(page, request)
        return StreamingResponse(
            changes(feed, pages, page, name),
            media_type="text/event-stream",
            headers={"cache-control": "no-store"},
        )

    return answer


def _missing(feed: Feed, pages: Pages) -> Callable[[Request, Exception], Awaitable[Response]]:
    async def answer(request: Request, _: Exception) -> Response:
        if request.url.path.startswith(NO_PAGES):
            return PlainTextResponse("there is no such file\n", 404)
        key = visitor_of(request).key
        html = pages.whole(MISSING, request.url.path, feed.snapshot, wall=False, key=key)
        return HTMLResponse(html, 404, {"cache-control": "no-store"})

    return answer


def _name(page: Page, request: Request) -> str:
    """Return the page's name from the path or the query of an address."""
    return str(request.path_params.get("name") or request.query_params.get(page.query, ""))
