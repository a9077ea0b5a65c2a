"""A connection to the agent of a node, and what every kind of node can do."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any, Protocol

from reconciler.wire.node import CONTROLLER_HEARS, Changed

from .rpc import RpcClient


class AgentLink(RpcClient):
    """Requests of ``wire.node`` to one agent, and its pushes.

    Pushes are coalesced: whoever is slow sees the newest sequence number, never a queue.
    """

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        super().__init__(reader, writer, CONTROLLER_HEARS)
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


class NodeAccess(Protocol):
    """How to reach one node, wherever it is."""

    @property
    def name(self) -> str:
        """The node's name."""

    async def start_agent(self, token: int = 0) -> None:
        """Have an agent run; done already, it changes nothing. Raises ``Unreachable`` with the reason.

        ``Refused`` (``Fenced``) where the node has obeyed a controller with a token higher than this; 0 is any.
        """

    async def dial(self) -> AgentLink:
        """A new connection to the node's agent.

        Raises ``Unreachable`` when the machine says that none serves there, ``Silent`` when nothing answers at all.
        """
