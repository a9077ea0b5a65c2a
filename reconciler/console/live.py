"""Sends changes to open pages: server-sent events with the parts of a page, or the rows of parts, whose HTML has changed."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

from reconciler.errors import ReconcilerError

from .feed import Feed
from .pages import Page, Pages
from .rows import news
from .snapshot import Snapshot

PACE_SECONDS = 0.25
"""Shortest time between two changes of a page: people cannot read faster, and a slow browser must not fall behind."""
ALIVE_SECONDS = 15.0
"""Time after which a page without changes gets a comment, so that each end notices when the other is gone."""


async def asked(feed: Feed, page: Page, name: str) -> Snapshot:
    """Return the snapshot, with the answer to the page's own question, or the reason if there is none."""
    if page.asks is None:
        return feed.snapshot
    try:
        answer: Any = await feed.ask(page.asks(name))
    except ReconcilerError as error:
        answer = str(error)
    return replace(feed.snapshot, answer=answer)  # read after the answer: more may have come meanwhile


async def changes(feed: Feed, pages: Pages, page: Page, name: str) -> AsyncIterator[bytes]:
    """Yield server-sent events: all parts first, then those that have changed, for ever.

    Only the newest state is sent: a part that changed twice while a browser was slow is sent once.
    """
    sent: dict[str, str] = {}
    with feed.watching():
        snapshot = await asked(feed, page, name)
        while True:
            if isinstance(snapshot.answer, str) and page.asks is not None:
                snapshot = await asked(feed, page, name)
            parts = pages.parts(page, name, snapshot)
            changed: dict[str, str] = {}
            for id, html in parts.items():
                if sent.get(id) != html:
                    changed |= news(id, sent.get(id), html)
            if changed:
                yield b"event: parts\ndata: " + json.dumps(changed).encode() + b"\n\n"
                sent = dict(parts)
            await asyncio.sleep(PACE_SECONDS)
            try:
                async with asyncio.timeout(ALIVE_SECONDS):
                    newer = await feed.changed(snapshot.number)
                    snapshot = replace(newer, answer=snapshot.answer)
            except TimeoutError:
                yield b": still here\n\n"
