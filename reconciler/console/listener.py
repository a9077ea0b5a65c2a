"""The console's listener, and the certificate that it shows."""

from __future__ import annotations

import asyncio
import dataclasses
import socket
from collections.abc import Callable
from contextlib import suppress

from starlette.requests import ClientDisconnect
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from reconciler.descriptors import raised
from reconciler.serving.certificates import Certificates
from reconciler.serving.exchange import exchange_of
from reconciler.serving.limiter import ConnectionLimiter, ConnectionLimits
from reconciler.serving.listener import Listener as Server
from reconciler.serving.listener import end_overdue
from reconciler.serving.objections import Objection, body_too_slow
from reconciler.serving.protocol import answer
from reconciler.wire.gateway import Tls

LIMITS = ConnectionLimits(
    in_all=1000, of_one=1000, leaving=16, head_seconds=15.0, idle_seconds=15.0, unread_end_seconds=30.0
)
OTHER_DESCRIPTORS = 64
"""Descriptors that the process needs for other things."""
BODY_SECONDS = 30.0
"""Longest time for the body of a request."""
SWEEP_SECONDS = 1.0
LAST_WORDS_SECONDS = 1
"""Time for open pages to receive the end of their streams. They reconnect by themselves."""
TEXT = b"text/plain; charset=utf-8"


class Listener:
    """Serves an application on a socket as soon as it is made; with ``tls``, over TLS only."""

    def __init__(
        self,
        app: ASGIApp,
        sock: socket.socket,
        tls: Tls | None,
        told: Callable[[], None] = lambda: None,
        limits: ConnectionLimits = LIMITS,
    ) -> None:
        """``told`` is called when the certificate has changed or can no longer be used."""
        self.certificates = Certificates()
        self.certificates.follow(tls)
        self.limiter = ConnectionLimiter(_fitting(limits))
        self._tls = tls
        self._told = told
        self._server = Server(
            _Refusing(app), sock, self.limiter, self.certificates, refuse, LAST_WORDS_SECONDS
        )
        self.address = self._server.address
        self._sweeping = asyncio.create_task(self._sweep(), name="end silent connections")

    async def end(self) -> None:
        """Stop listening, and end the connections."""
        self._sweeping.cancel()
        await asyncio.wait([self._sweeping])
        await self._server.end()

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(SWEEP_SECONDS)
            await end_overdue(self.limiter)
            if self.certificates.follow(self._tls):
                self._told()


class _Refusing:
    """ASGI: answers the requests that the server objects to, and hands on the others."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let the application see no part of a body that has no end."""
        exchange = exchange_of(scope)

        late = asyncio.get_running_loop().time() + BODY_SECONDS

        async def whole() -> Message:
            try:
                async with asyncio.timeout_at(None if exchange.arrived else late):
                    message = await receive()
            except TimeoutError:
                exchange.object_to(body_too_slow())
            return message if exchange.objection is None else {"type": "http.disconnect"}

        async def unless_refused(message: Message) -> None:
            if exchange.objection is None or exchange.response_started:
                await send(message)

        if exchange.objection is None:
            with suppress(ClientDisconnect):
                await self._app(scope, whole, unless_refused)
        wrong = exchange.objection
        if wrong is not None and not exchange.response_started:
            await PlainTextResponse(f"{wrong.text}\n", wrong.status)(scope, receive, send)


def refuse(objection: Objection) -> bytes:
    """Return the answer to a browser that has no request."""
    return answer(objection.status, TEXT, f"{objection.text}\n".encode())


def _fitting(limits: ConnectionLimits) -> ConnectionLimits:
    """Raise the limit of descriptors as far as allowed; return the limits with the number of connections that fit."""
    most = max(1, min(limits.in_all, raised() - limits.leaving - OTHER_DESCRIPTORS))
    return dataclasses.replace(limits, in_all=most, of_one=min(limits.of_one, most))
