"""TLS before HTTP: a connection counts as unfinished from its first moment, and no handshake outlives its time."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from typing import cast

from reconciler.gateway.admission import Admission, End, Stage

from .certificates import Certificates
from .protocol import UNREAD_BYTES, Protocol


class Handshake(asyncio.Protocol):
    """One connection until TLS is agreed on. Then it is a ``protocol``'s, with all that came meanwhile.

    asyncio's own listener for TLS tells nothing of a connection before its handshake is over: ten thousand that say
    nothing would be counted nowhere, and keep their descriptors for a minute.
    """

    def __init__(
        self,
        protocol: Callable[[], Protocol],
        admission: Admission,
        certificates: Certificates,
        others: set[Handshake],
    ) -> None:
        """``others``: those that are not over; this one is among them until it is."""
        self.address = ""
        self._protocol = protocol
        self._others = others
        self._admission = admission
        self._certificates = certificates
        self._raw: asyncio.Transport | None = None
        self._early: list[bytes] = []
        """What was decrypted before ``protocol`` knows its transport."""
        self._ended = False
        self._agreeing: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._raw = cast(asyncio.Transport, transport)  # uvloop's are none by inheritance
        peer = transport.get_extra_info("peername")
        self.address = str(peer[0]) if peer else ""
        self._others.add(self)
        loop = asyncio.get_running_loop()
        context = self._certificates.context
        if self._admission.admit(self, loop.time()) and context is not None:
            self._agreeing = loop.create_task(self._agree(self._raw, context))
        else:
            self.end()

    def data_received(self, data: bytes) -> None:
        self._early.append(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self._ended = True
        self._forget()

    def end(self) -> None:
        """Close at once."""
        self._forget()
        if self._raw is not None:
            self._raw.abort()

    def expire(self, stage: Stage) -> None:
        """Close: it has not finished its handshake in time."""
        self._admission.ended[End.SLOW_HEAD] += 1
        self.end()

    async def _agree(self, raw: asyncio.Transport, context: ssl.SSLContext) -> None:
        loop = asyncio.get_running_loop()
        raw.set_write_buffer_limits(high=UNREAD_BYTES)
        try:
            sealed = await loop.start_tls(
                raw,
                self,
                context,
                server_side=True,
                ssl_handshake_timeout=self._admission.limits.head_seconds,
                ssl_shutdown_timeout=self._admission.limits.unread_end_seconds,
            )
        except OSError:
            if self._admission.stage(self) is not None:
                self._admission.ended[End.HANDSHAKE] += 1
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
        self._admission.forget(self)
        self._others.discard(self)
