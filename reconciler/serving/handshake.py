"""TLS before HTTP: a connection counts as unfinished from its first moment, and each handshake has a time limit."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Generator
from typing import Any, cast

from .certificates import Certificates
from .limiter import ConnectionLimiter, End, Stage
from .protocol import UNREAD_BYTES, Protocol


class Handshake(asyncio.Protocol):
    """One connection until TLS is agreed on. Then ``protocol`` gets it, with all data that came meanwhile.

    asyncio's own listener for TLS reports a connection only after its handshake. Ten thousand silent connections would
    be counted nowhere, and would keep their descriptors for a minute.
    """

    def __init__(
        self,
        protocol: Callable[[], Protocol],
        limiter: ConnectionLimiter,
        certificates: Certificates,
        others: set[Handshake],
    ) -> None:
        """``others`` has all unfinished handshakes, this one among them."""
        self.address = ""
        self._protocol = protocol
        self._others = others
        self._limiter = limiter
        self._certificates = certificates
        self._raw: asyncio.Transport | None = None
        self._early: list[bytes] = []
        """Data that was decrypted before ``protocol`` knows its transport."""
        self._ended = False
        self._agreeing: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._raw = cast(asyncio.Transport, transport)  # uvloop's transports do not inherit from it
        peer = transport.get_extra_info("peername")
        self.address = str(peer[0]) if peer else ""
        self._others.add(self)
        loop = asyncio.get_running_loop()
        context = self._certificates.context
        if not self._limiter.admit(self, loop.time()) or context is None:
            self.end()
            return
        self._raw.set_write_buffer_limits(high=UNREAD_BYTES)
        agreeing = _Begun(
            loop.start_tls(
                self._raw,
                self,
                context,
                server_side=True,
                ssl_handshake_timeout=self._limiter.limits.head_seconds,
                ssl_shutdown_timeout=self._limiter.limits.unread_end_seconds,
            )
        )
        self._agreeing = loop.create_task(self._agree(agreeing, self._raw))

    def data_received(self, data: bytes) -> None:
        self._early.append(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self._ended = True
        self._forget()

    def end(self) -> None:
        self._forget()
        if self._raw is not None:
            self._raw.abort()

    def expire(self, stage: Stage) -> None:
        """Close: it has not finished its handshake in time."""
        self._limiter.ended[End.SLOW_HEAD] += 1
        self.end()

    async def _agree(self, agreeing: Awaitable[asyncio.Transport | None], raw: asyncio.Transport) -> None:
        try:
            sealed = await agreeing
        except OSError:
            if self._limiter.stage(self) is not None:
                self._limiter.ended[End.HANDSHAKE] += 1
            self._forget()
            raw.abort()
            return
        self._forget()
        if sealed is None or self._ended:
            raw.abort()
            return
        protocol = self._protocol()
        sealed.set_protocol(protocol)
        protocol.sealed_in(raw)
        protocol.connection_made(sealed)
        for data in self._early:
            protocol.data_received(data)

    def _forget(self) -> None:
        self._limiter.forget(self)
        self._others.discard(self)


class _Begun:
    """A coroutine that runs up to its first wait at once, not when a task gets to it.

    ``start_tls`` takes the connection over in that part. Later, the client's first bytes would be lost, because uvloop
    reads them before any task runs.
    """

    def __init__(self, coroutine: Coroutine[Any, Any, asyncio.Transport | None]) -> None:
        self._coroutine = coroutine
        self._waits_for = [coroutine.send(None)]

    def __await__(self) -> Generator[Any, Any, asyncio.Transport | None]:
        return cast("Generator[Any, Any, asyncio.Transport | None]", self)

    def __iter__(self) -> _Begun:
        return self

    def __next__(self) -> Any:
        return self.send(None)

    def send(self, value: Any) -> Any:
        """Continue, as a coroutine does."""
        return self._waits_for.pop() if self._waits_for else self._coroutine.send(value)

    def throw(self, error: BaseException) -> Any:
        """Fail, as a coroutine does."""
        return self._coroutine.throw(error)
