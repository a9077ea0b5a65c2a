"""The console of a real controller, without a browser: its pages as a client without scripts gets them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import httpx2

from reconciler.console.app import build_app
from reconciler.console.feed import Feed, following
from reconciler.console.snapshot import Snapshot
from tests.cli.live import Live

BASE = "http://127.0.0.1:8480"
SECONDS_MAX = 20.0


@asynccontextmanager
async def console_of(made: Live) -> AsyncIterator[tuple[httpx2.AsyncClient, Feed]]:
    """A client of the console of a cluster, and the feed that it is made of."""
    feed = Feed(made.home / "controller.sock", time.time)
    transport = httpx2.ASGITransport(build_app(feed))
    async with following(feed), httpx2.AsyncClient(transport=transport, base_url=BASE) as client:
        await until(feed, lambda now: bool(now.commits))
        yield client, feed


async def until(feed: Feed, true: Callable[[Snapshot], bool]) -> None:
    """Wait until something holds of what the console knows."""
    async with asyncio.timeout(SECONDS_MAX):
        while not true(feed.snapshot):
            await feed.changed(feed.snapshot.number)
