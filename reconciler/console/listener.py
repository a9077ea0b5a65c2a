"""The console's listener: uvicorn behind a bounded number of connections.

A connection without a request makes room for others, even in its handshake. So ten thousand silent ones take neither memory
nor descriptors, and keep nobody out.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections.abc import Callable, Iterator
from typing import Any

import uvicorn
from h11 import IDLE, SEND_BODY, SEND_RESPONSE
from starlette.applications import Starlette
from uvicorn.protocols.http.h11_impl import H11Protocol

from reconciler.certificates import Certificates
from reconciler.descriptors import raised
from reconciler.listening import address_of
from reconciler.wire.front import Tls

log = logging.getLogger(__name__)

OPEN_MAX = 1000
"""Most connections at a time: for one more, the oldest without a request ends."""
OTHER_DESCRIPTORS = 64
"""Descriptors that the process needs for other things."""
WAITING_SECONDS = 15.0
"""Longest time without a request: in the handshake, in the first head, or between two requests."""
UNREAD_SECONDS = 30.0
"""Longest time for which a browser may leave unread what it is sent."""
UNREAD_BYTES = 16 * 1024
"""Most bytes that wait for a browser in this process, in addition to the system's buffers."""
SWEEP_SECONDS = 1.0
LAST_WORDS_SECONDS = 1
"""Time for open pages to receive the end of their streams. They reconnect by themselves."""


class Listener:
    """Serves an application on a socket as soon as it is made; with ``tls``, over TLS only."""

    def __init__(
        self, app: Starlette, sock: socket.socket, tls: Tls | None, told: Callable[[], None] = lambda: None
    ) -> None:
        """``told`` is called when the certificate has changed or can no longer be used."""
        self.address = address_of(sock)
        self.certificates = Certificates()
        self.certificates.follow(tls)
        self.open: dict[_Connection, None] = {}
        """All connections, the oldest first."""
        self.open_max = most()
        self._sock = sock
        self._tls = tls
        self._told = told
        self._config = uvicorn.Config(
            app,
            http=H11Protocol,
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            ws="none",
            timeout_keep_alive=int(WAITING_SECONDS),
            timeout_graceful_shutdown=LAST_WORDS_SECONDS,
        )
        self._server = _Server(self._config)
        self._serving = asyncio.create_task(self._server.serve(sockets=[]), name="serve the console")
        self._beside = [
            asyncio.create_task(self._accept(), name="accept browsers"),
            asyncio.create_task(self._sweep(), name="end silent connections"),
        ]

    async def end(self) -> None:
        """Stop listening, and end the connections."""
        for task in self._beside:
            task.cancel()
        await asyncio.wait(self._beside)
        self._sock.close()
        self._server.should_exit = True
        await self._serving
        for connection in tuple(self.open):
            connection.end()
        agreeing = [each.agreeing for each in self.open if each.agreeing is not None]
        if agreeing:
            await asyncio.wait(agreeing, timeout=LAST_WORDS_SECONDS)

    async def _accept(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                sock, _ = await loop.sock_accept(self._sock)
            except OSError as error:  # there are no descriptors left, or the client has gone already
                log.warning("a browser cannot connect: %s", error)
                self._make_room()
                await asyncio.sleep(SWEEP_SECONDS)
                continue
            if len(self.open) >= self.open_max and not self._make_room():
                sock.close()
            else:
                connection = _Connection(sock, loop.time())
                self.open[connection] = None
                connection.agreeing = loop.create_task(self._agree(connection))
            await asyncio.sleep(0)

    async def _agree(self, connection: _Connection) -> None:
        """Agree on TLS if it is wanted, and hand the connection to HTTP."""
        context = self.certificates.context
        if self.certificates.wanted and context is None:
            connection.sock.close()
            self.open.pop(connection, None)
            return
        sealed: dict[str, Any] = (
            {"ssl": context, "ssl_handshake_timeout": WAITING_SECONDS, "ssl_shutdown_timeout": UNREAD_SECONDS}
            if context is not None
            else {}
        )
        protocol = _Protocol(self._config, self._server.server_state, lambda: self.open.pop(connection, None))
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                lambda: protocol, connection.sock, **sealed
            )
            connection.protocol = protocol
        except OSError:
            connection.sock.close()
            self.open.pop(connection, None)

    def _make_room(self) -> bool:
        """End the oldest connection without a request. Returns whether there was one."""
        for connection in self.open:
            if not connection.busy:
                connection.end()
                self.open.pop(connection, None)
                return True
        return False

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(SWEEP_SECONDS)
            now = asyncio.get_running_loop().time()
            for connection in tuple(self.open):
                if connection.overdue(now):
                    connection.end()
                    self.open.pop(connection, None)
            if self.certificates.follow(self._tls):
                self._told()


class _Connection:
    """One connection, from its first moment."""

    def __init__(self, sock: socket.socket, now: float) -> None:
        self.sock = sock
        self.protocol: _Protocol | None = None
        self.agreeing: asyncio.Task[None] | None = None
        self._good_at = now
        """When a sweep last saw that it gets an answer and reads it."""

    @property
    def busy(self) -> bool:
        """Return whether a request is being answered."""
        return self.protocol is not None and self.protocol.busy

    def overdue(self, now: float) -> bool:
        """Return whether it has sent no request, or read nothing, for too long."""
        if self.busy and self.protocol is not None and not self.protocol.unread:
            self._good_at = now
        answered_at = self.protocol.answered_at if self.protocol is not None else 0.0
        return now - max(self._good_at, answered_at) > (UNREAD_SECONDS if self.busy else WAITING_SECONDS)

    def end(self) -> None:
        """Close at once. In a handshake, leave the closing to the transport: it still watches the descriptor's number."""
        if self.protocol is not None:
            self.protocol.transport.abort()
            return
        with contextlib.suppress(OSError):
            self.sock.shutdown(socket.SHUT_RDWR)


class _Protocol(H11Protocol):
    """HTTP, which bounds heads by itself."""

    def __init__(self, config: uvicorn.Config, state: Any, lost: Callable[[], object]) -> None:
        super().__init__(config, state, {})
        self._lost = lost
        self.answered_at = 0.0
        """When an answer was last complete, on the event loop's clock: most begin and end between two sweeps."""

    @property
    def busy(self) -> bool:
        """Return whether a request is being answered."""
        return self.cycle is not None and not self.cycle.response_complete

    @property
    def unread(self) -> bool:
        """Return whether the browser leaves unread what it is sent."""
        return self.flow.write_paused

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        transport.set_write_buffer_limits(high=UNREAD_BYTES)

    def on_response_complete(self) -> None:
        self.answered_at = self.loop.time()
        if self.conn.their_state is SEND_BODY and any(name == b"expect" for name, _ in self.headers):
            self.transport.close()  # the next bytes may be the offered body, or a request
        super().on_response_complete()

    def _unsupported_upgrade_warning(self) -> None:
        """Log nothing: HTTP lets a server ignore an offer of another protocol (RFC 9110, 7.8)."""

    def send_400_response(self, msg: str) -> None:
        """Refuse bytes that are no request, unless an answer has begun. After that, nothing is answered."""
        if self.cycle is not None and not self.cycle.response_complete:
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        if self.conn.our_state in (IDLE, SEND_RESPONSE):
            super().send_400_response(msg)
        else:
            self.transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        self._lost()
        super().connection_lost(exc)


class _Server(uvicorn.Server):
    """A server that leaves signals to the process."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def most() -> int:
    """Raise the limit of descriptors as far as allowed; return the number of connections that fit."""
    return max(1, min(OPEN_MAX, raised() - OTHER_DESCRIPTORS))
