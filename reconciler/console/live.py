"""Tells open pages what has changed: server-sent events with the parts of a page whose HTML is another one."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator

from .feed import Feed
from .pages import Page, Pages

PACE_SECONDS = 0.25
"""The shortest time between two changes of a page: people cannot read faster, and a slow browser must not fall behind."""
ALIVE_SECONDS = 15.0
"""How often a page hears something where nothing changes, so that both ends find out when the other is gone."""


async def changes(feed: Feed, pages: Pages, page: Page, name: str) -> AsyncIterator[bytes]:
    """Yield server-sent events: all parts first, then those that have changed, for ever.

    Only the newest state is sent: what changed twice while a browser was slow reaches it once.
    """
    sent: dict[str, str] = {}
    with feed.watching():
        snapshot = feed.snapshot
        while True:
            parts = pages.parts(page, name, snapshot)
            changed = {id: html for id, html in parts.items() if sent.get(id) != html}
            if changed:
                yield b"event: parts\ndata: " + json.dumps(changed).encode() + b"\n\n"
                sent |= changed
            await asyncio.sleep(PACE_SECONDS)
            try:
                async with asyncio.timeout(ALIVE_SECONDS):
                    snapshot = await feed.changed(snapshot.number)
            except TimeoutError:
                yield b": still here\n\n"
