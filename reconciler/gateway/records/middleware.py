"""Makes a line of each request, from what passes by and what its endpoint notes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import orjson
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from .entry import SCOPE_KEY, Entry, stamp
from .logs import Logs

_PROBES = frozenset({"/health", "/ready"})
"""Asked every few seconds, by the controller and by balancers: their lines would hide all others."""
CONTENT_BYTES_MAX = 16 * 1024 * 1024
"""How much of a prompt, and of an answer, is kept."""


class Logged:
    """Writes the access log, and the log of contents where there is one. Costs nothing while there is none.

    ``client``: who a request is from, once its endpoint has been called.
    """

    def __init__(self, app: ASGIApp, logs: Logs, client: Callable[[Scope], str]) -> None:
        self._app = app
        self._logs = logs
        self._client = client

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or self._logs.access is None or scope["path"] in _PROBES:
            await self._app(scope, receive, send)
            return
        passing = _Passing(self._logs, scope, receive, send)
        try:
            await self._app(scope, passing.receive, passing.send)
        except Exception:
            passing.entry.error = passing.entry.error or "internal_error"
            raise
        finally:
            passing.entry.client = self._client(scope)
            passing.write()


class _Passing:
    """One request on its way through."""

    def __init__(self, logs: Logs, scope: Scope, receive: Receive, send: Send) -> None:
        self._logs = logs
        self._scope = scope
        self._receive = receive
        self._send = send
        self._clock = asyncio.get_running_loop().time
        self._began = self._clock()
        self._first_byte: float | None = None
        self._asked = bytearray() if logs.content else None
        self._answered = bytearray() if logs.content else None
        self.entry = Entry(logs.now(), scope["method"], scope["path"])
        scope[SCOPE_KEY] = self.entry
        self.entry.passed = self._note

    async def receive(self) -> Message:
        message = await self._receive()
        body = message.get("body", b"")
        self.entry.received += len(body)
        _keep(self._asked, body)
        return message

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.entry.status = message["status"]
        else:
            self._note(message.get("body", b""))
        await self._send(message)

    def _note(self, body: bytes) -> None:
        if body and self._first_byte is None:
            self._first_byte = self._clock() - self._began
        self.entry.sent += len(body)
        _keep(self._answered, body)

    def write(self) -> None:
        entry = self.entry
        entry.request = self._scope.get("request_id", "")
        if self._logs.access is not None:
            self._logs.access.put(entry.line(self._first_byte, self._clock() - self._began))
        if self._logs.content is not None and entry.runs is not None and self._asked is not None:
            self._logs.content.put(self._content(self._asked, self._answered or bytearray()))

    def _content(self, asked: bytearray, answered: bytearray) -> bytes:
        fields = {
            "time": stamp(self.entry.at),
            "request": self.entry.request,
            "client": self.entry.client,
            "model": self.entry.model,
            "asked": asked.decode("utf-8", "replace"),
            "answered": answered.decode("utf-8", "replace"),
        }
        return orjson.dumps(fields, option=orjson.OPT_APPEND_NEWLINE)


def _keep(kept: bytearray | None, body: bytes) -> None:
    if kept is not None:
        kept += body[: CONTENT_BYTES_MAX - len(kept)]
