"""Makes a line of each request, from its messages and from the notes of its endpoint."""

from __future__ import annotations

import asyncio

import orjson
from starlette.types import Message, Receive, Scope

from .entry import SCOPE_KEY, Entry, stamp
from .logs import Logs

_PROBES = frozenset({"/health", "/ready"})
"""Paths that the controller and load balancers ask for every few seconds: their lines would hide all others."""
CONTENT_BYTES_MAX = 16 * 1024 * 1024
"""The most bytes that are kept of a prompt, and of an answer."""


def begin(logs: Logs, scope: Scope) -> Recording | None:
    """Return the recording of a request; None if no log is kept, which costs nothing."""
    if logs.access is None or scope["path"] in _PROBES:
        return None
    return Recording(logs, scope)


class Recording:
    def __init__(self, logs: Logs, scope: Scope) -> None:
        self._logs = logs
        self._scope = scope
        self._clock = asyncio.get_running_loop().time
        self._began = self._clock()
        self._first_byte: float | None = None
        self._asked = bytearray() if logs.content else None
        self._answered = bytearray() if logs.content else None
        self.entry = Entry(logs.now(), scope["method"], scope["path"])
        scope[SCOPE_KEY] = self.entry
        self.entry.passed = self.sent

    def receiving(self, receive: Receive) -> Receive:
        """Return a ``receive`` that records its messages."""

        async def recorded() -> Message:
            message = await receive()
            body = message.get("body", b"")
            self.entry.received += len(body)
            _keep(self._asked, body)
            return message

        return recorded

    def sent(self, body: bytes) -> None:
        if body and self._first_byte is None:
            self._first_byte = self._clock() - self._began
        self.entry.sent += len(body)
        _keep(self._answered, body)

    def end(self, client: str) -> None:
        """Write the request's line with its sender, and its contents if these are kept."""
        entry = self.entry
        entry.client = client
        entry.passed = None
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
