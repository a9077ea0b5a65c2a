"""The console as a Starlette application. Everything that it answers is read from the feed's snapshot."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection
from importlib.resources import files

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response, StreamingResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from .chat.routes import Chat
from .feed import Feed
from .guard import LOOPBACK, Guard
from .live import changes
from .pages import PAGES, Page, Pages

Answer = Callable[[Request], Awaitable[Response]]


def build_app(feed: Feed, hosts: Collection[str] = ()) -> Starlette:
    """Return the application. ``hosts``: further names by which browsers may call it."""
    pages = Pages()

    routes = [
        *(Route(page.path, _shown(feed, pages, page), name=page.title) for page in PAGES),
        *(Route(f"/live{page.path}", _live(feed, pages, page), name=f"live {page.title}") for page in PAGES),
        *Chat(feed, pages, secret_of=lambda request: "").routes(),
        Mount("/static", StaticFiles(directory=str(files("reconciler.console") / "static"))),
    ]
    return Starlette(routes=routes, middleware=[Middleware(Guard, hosts=LOOPBACK.union(hosts))])


def _shown(feed: Feed, pages: Pages, page: Page) -> Answer:
    async def answer(request: Request) -> Response:
        name = request.path_params.get("name", "")
        html = pages.whole(page, name, feed.snapshot, wall="wall" in request.query_params)
        return HTMLResponse(html, headers={"cache-control": "no-store"})

    return answer


def _live(feed: Feed, pages: Pages, page: Page) -> Answer:
    async def answer(request: Request) -> Response:
        name = request.path_params.get("name", "")
        return StreamingResponse(
            changes(feed, pages, page, name),
            media_type="text/event-stream",
            headers={"cache-control": "no-store"},
        )

    return answer
