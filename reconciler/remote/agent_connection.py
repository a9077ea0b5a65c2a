"""A connection to the agent of a node."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from reconciler.state import Ends
from reconciler.wire.node import CONTROLLER_RECEIVES, Changed

from .rpc import RpcClient


class AgentConnection(RpcClient):
    """Requests of ``wire.node`` to one agent, and its pushes.

    Pushes are coalesced: a slow reader sees the newest sequence number, never a queue.
    """

    ends = Ends()

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        super().__init__(reader, writer, CONTROLLER_RECEIVES)
        self._sequence = 0
        self._news = asyncio.Event()

    def pushed(self, message: Any) -> None:
        if isinstance(message, Changed):
            self._sequence = message.sequence
            self._news.set()

    def _end(self, reason: str) -> None:
        super()._end(reason)
        self._news.set()

    async def changes(self) -> AsyncIterator[int]:
        """Yield the agent's sequence number after each change, until the connection ends. For one reader."""
        while True:
            await self._news.wait()
            if self.closed.is_set():
                return
            self._news.clear()
            yield self._sequence
