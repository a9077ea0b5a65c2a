"""One listening socket with uvicorn behind it."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import math
import socket
from collections.abc import Iterator
from typing import Any, cast

import uvicorn
from starlette.types import ASGIApp

from .addresses import address_of
from .certificates import Certificates
from .handshake import Handshake
from .limiter import ConnectionLimiter
from .protocol import Protocol, Refuse

_DATE_SECONDS = 1.0
"""Resolution of the header ``Date``."""
_ENDS_AT_ONCE = 50
"""The number of connections that are ended before requests continue: ending one takes some 50 µs."""
_OPENING_TURNS = 2
"""Of the loop, from a client's acceptance to its connection."""


class Listener:
    """Serves ``app`` on a socket from the moment it is made."""

    def __init__(
        self,
        app: ASGIApp,
        sock: socket.socket,
        limiter: ConnectionLimiter,
        certificates: Certificates,
        refuse: Refuse,
        last_words_seconds: int | None = None,
    ) -> None:
        """``last_words_seconds``: how long requests may take once it has left; None for no bound."""
        self.address = address_of(sock)
        self._sock = sock
        """Stays open as long as this listens. The server accepts on a copy."""
        self._handshakes: set[Handshake] = set()
        config = uvicorn.Config(
            app,
            http=self._connections(limiter, certificates, refuse),
            timeout_keep_alive=math.ceil(limiter.limits.idle_seconds),
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            interface="asgi3",
            ws="none",
            timeout_graceful_shutdown=last_words_seconds,
        )
        self._server = _Server(config)
        self.task = asyncio.create_task(self._serve(sock.dup()))

    @property
    def connected(self) -> bool:
        """Return whether any client is connected."""
        return bool(self._server.server_state.connections or self._handshakes)

    def fileno(self) -> int:
        return self._sock.fileno()

    async def begun(self) -> None:
        """Wait until clients are accepted."""
        await self._server.begun.wait()

    async def accept_no_more(self) -> None:
        """Leave the listening socket to another process, which accepts too. Connections stay."""
        await self.begun()
        await self._server.accept_no_more()
        self._sock.close()

    def leave(self) -> asyncio.Task[None]:
        """Stop listening; the returned task ends with the last connection. Handshakes are ended: they have no request
        yet."""
        self._sock.close()
        self._server.leave()
        for handshake in tuple(self._handshakes):
            handshake.end()
        return self.task

    async def end(self) -> None:
        """Stop listening, and end all connections as soon as their requests are over or have had their time."""
        await self.leave()
        for connection in tuple(self._server.server_state.connections):
            cast(Protocol, connection).end()

    async def _serve(self, accepting: socket.socket) -> None:
        with contextlib.closing(self._sock), contextlib.closing(accepting):
            await self._server.serve(sockets=[accepting])

    def _connections(
        self, limiter: ConnectionLimiter, certificates: Certificates, refuse: Refuse
    ) -> type[asyncio.Protocol]:
        """Return the function that uvicorn calls for each connection. Each call looks up TLS again: a Gateway that
        begins or ceases to declare it keeps its address and its connections."""

        def make(*args: Any, **kwargs: Any) -> asyncio.Protocol:
            protocol = functools.partial(Protocol, limiter, refuse, *args, **kwargs)
            if certificates.wanted:
                return Handshake(protocol, limiter, certificates, self._handshakes)
            return protocol()

        return cast("type[asyncio.Protocol]", make)


async def end_overdue(limiter: ConnectionLimiter) -> None:
    """End the connections that are overdue, a few at a time. Thousands that came together are due together."""
    overdue = limiter.overdue(asyncio.get_running_loop().time())
    for number, (connection, stage) in enumerate(overdue):
        if number and number % _ENDS_AT_ONCE == 0:
            await asyncio.sleep(0)
        if limiter.stage(connection) is stage:  # it may have begun a request meanwhile
            connection.expire(stage)


class _Server(uvicorn.Server):
    """A server that leaves signals to the process, which may have two of these while its address changes.

    Uvicorn checks ten times a second whether it should end; this one gets a signal.
    """

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self._told = asyncio.Event()
        self.begun = asyncio.Event()
        """Set once it accepts."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.begun.set()

    async def accept_no_more(self) -> None:
        """Close the accepting sockets, and no connection.

        The client that was accepted last gets its connection first. asyncio opens it two turns of the loop later, and
        forgets the client if its server has been closed by then (``asyncio/base_events.py``, ``Server._attach``).
        """
        loop = asyncio.get_running_loop()
        for server in self.servers:
            for sock in server.sockets:
                loop.remove_reader(sock.fileno())
        for _ in range(_OPENING_TURNS):
            await asyncio.sleep(0)
        for server in self.servers:
            server.close()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop accepting, then end as uvicorn does."""
        await self.accept_no_more()
        await super().shutdown(sockets)

    def leave(self) -> None:
        """Stop listening, and end with the last connection."""
        self.should_exit = True
        self._told.set()

    async def main_loop(self) -> None:
        """Keep the date of answers up to date, until the end."""
        while not await self.on_tick(0):
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_DATE_SECONDS):
                    await self._told.wait()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield
