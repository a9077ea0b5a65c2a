"""Tells the controller that the remote repository may have changed."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

from reconciler.wire import SPOKEN, frames
from reconciler.wire.admin import Look
from reconciler.wire.codec import Hello, WireError, to_wire

log = logging.getLogger(__name__)

SECONDS_MAX = 2.0
"""The longest time for the controller's answer; it looks regularly in any case."""


class Announcer:
    """Sends one message at a time to ``path``, the controller's socket. All announcements in the meantime are one
    further message."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._due: float | None = None
        self._sending: asyncio.Task[None] | None = None

    def announce(self, at: float) -> None:
        """Tell the controller soon, without waiting. ``at`` is the time of the news, in seconds since the Unix
        epoch."""
        self._due = at
        if self._sending is None:
            self._sending = asyncio.create_task(self._send(), name="announce a webhook")

    async def _send(self) -> None:
        try:
            while self._due is not None:
                at, self._due = self._due, None
                await self._told(at)
        finally:
            self._sending = None

    async def _told(self, at: float) -> None:
        try:
            async with asyncio.timeout(SECONDS_MAX):
                reader, writer = await asyncio.open_unix_connection(self._path)
                try:
                    writer.write(frames.encode(to_wire(Hello("gateway", SPOKEN))))
                    writer.write(frames.encode({**to_wire(Look("remote", at)), "call": 1}))
                    await writer.drain()
                    while (answer := await frames.read(reader)) is not None and answer.get("reply") != 1:
                        pass
                finally:
                    writer.close()
        except (OSError, WireError, TimeoutError) as error:
            log.warning("the controller was not told of a webhook, and looks at its next time: %s", error)
