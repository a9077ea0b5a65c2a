"""The console of a real controller, without a browser: its pages as a client without scripts gets them."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx2

from reconciler.console.access.door import Doors
from reconciler.console.access.sessions import Sessions
from reconciler.console.app import build_app
from reconciler.console.feed import Feed, following
from reconciler.console.settings import Settings
from reconciler.resources.gateway import CONSOLE_LISTEN
from tests.cli.live import Live

from .doors import OWNER
from .test_feed import until

BASE = "http://127.0.0.1:8480"


@asynccontextmanager
async def console_of(made: Live) -> AsyncIterator[tuple[httpx2.AsyncClient, Feed]]:
    """A client of the console of a cluster without keys, and the feed that it is made of."""
    feed = Feed(made.home / "controller.sock", time.time)
    settings = Settings(CONSOLE_LISTEN)
    doors = Doors(feed, time.time, lambda: OWNER, lambda: settings, Sessions(lambda: "id"))
    transport = httpx2.ASGITransport(build_app(feed, doors, settings))
    async with following(feed), httpx2.AsyncClient(transport=transport, base_url=BASE) as client:
        await until(feed, lambda now: bool(now.commits["items"] and now.status and now.events))
        yield client, feed
