"""One request and its answer on a connection, as uvicorn passes them to the application.

It costs less than uvicorn's own: the head of an answer is written together with the first part of its body, and parts
of a stream are written without a coroutine for each.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable

from starlette.types import Message, Scope
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, RequestResponseCycle

from .limiter import ConnectionLimiter
from .objections import Objection

SCOPE_KEY = "exchange"
"""The key of a request's ``Exchange`` in the ``state`` of its scope."""
_BODILESS = (204, 304)
"""Statuses of answers that have no body, whatever the request."""
_UNSAFE = re.compile(rb"[\x00-\x08\x0a-\x1f\x7f]")
"""The characters that no header's value may have (RFC 9110, 5.5): some values repeat text from clients."""


class Exchange(RequestResponseCycle):
    """``send`` and ``receive`` of ASGI, and the body of an answer that has begun."""

    limiter: ConnectionLimiter
    """Its ``last_answers`` says that answers must be the last on their connections."""
    following: Collection[object]
    """Requests of the same connection that have come already."""
    told: Callable[[bytes], None] | None = None
    """Called with each part that ``write`` writes."""
    objection: Objection | None = None
    """The reason to refuse the request in any case, or the reason that its body has no end."""
    close: Callable[[], None]
    """Closes the connection after the answer."""
    _head = b""
    """The head of an answer that has no written part yet."""
    _until_close = False
    """True if the end of the connection ends the body: HTTP/1.0 knows no chunks."""

    def object_to(self, objection: Objection) -> None:
        """End the body for this reason. No further request is read from the connection."""
        self.objection, self.keep_alive, self.more_body = objection, False, False

    @property
    def arrived(self) -> bool:
        return not self.more_body

    @property
    def ready(self) -> bool:
        """Return whether the answer has begun, in chunks, and its client reads it."""
        if self._head or self.disconnected or self.response_complete or not self.chunked_encoding:
            return False
        return not self.flow.write_paused

    def write(self, part: bytes) -> None:
        """Write a part of the body at once, in a chunk as HTTP has it (RFC 9112, 7.1). It must not be empty: an empty
        chunk is the end."""
        self.transport.write(b"%x\r\n%b\r\n" % (len(part), part))
        if self.told is not None:
            self.told(part)

    async def send(self, message: Message) -> None:  # type: ignore[override]
        """Keep the head of an answer until its first part, or write a part. Waits while the client does not read."""
        if self.flow.write_paused and not self.disconnected:
            await self.flow.drain()
        if self.disconnected:
            return
        if message["type"] == "http.response.start":
            self._begin(message["status"], message.get("headers", ()))
        else:
            self._go_on(message.get("body", b""), message.get("more_body", False))

    def _begin(self, status: int, headers: Iterable[tuple[bytes, bytes]]) -> None:
        if self.response_started:
            raise RuntimeError("an answer begins once")
        self.response_started = True
        if self.waiting_for_100_continue and self.more_body:
            self.keep_alive = False  # the next bytes may be the body that was offered, or a request
        self.waiting_for_100_continue = False
        own = [*self.default_headers, *headers]
        if _UNSAFE.search(b"\t".join([value for _, value in own])):
            raise RuntimeError("a header's value has a control character in it")
        for name, value in own:
            if name == b"content-length":
                self.chunked_encoding = False
                self.expected_content_length = int(value)
        lines = [b"%b: %b\r\n" % header for header in own]
        if self.keep_alive and self.limiter.last_answers and not self.following:
            self.keep_alive = False
        if not self.keep_alive:
            lines.append(b"connection: close\r\n")
        if self.chunked_encoding is None and self.scope["method"] != "HEAD" and status not in _BODILESS:
            self._until_close = self.scope["http_version"] == "1.0"
            if not self._until_close:
                self.chunked_encoding = True
                lines.append(b"transfer-encoding: chunked\r\n")
        self._head = b"".join([STATUS_LINE[status], *lines, b"\r\n"])

    def _go_on(self, body: bytes, more: bool) -> None:
        if self.response_complete or not self.response_started:
            raise RuntimeError("a part of an answer comes between its head and its end")
        head, self._head = self._head, b""
        part = self._framed(body, more)
        if head or part:
            self.transport.write(head + part)
        if not more:
            self._end()

    def _framed(self, body: bytes, more: bool) -> bytes:
        """Return a part of the body as it is sent."""
        if self.scope["method"] == "HEAD":
            self.expected_content_length = 0
            return b""
        if self._until_close:
            return body
        if not self.chunked_encoding:
            self.expected_content_length -= len(body)
            if self.expected_content_length < 0:
                raise RuntimeError("the answer is longer than its content-length")
            return body
        chunk = b"%x\r\n%b\r\n" % (len(body), body) if body else b""
        return chunk if more else chunk + b"0\r\n\r\n"

    def _end(self) -> None:
        if self.expected_content_length:
            raise RuntimeError("the answer is shorter than its content-length")
        self.response_complete = True
        self.message_event.set()
        if not self.keep_alive:
            self.close()
        self.on_response()


def exchange_of(scope: Scope) -> Exchange:
    exchange: Exchange = scope["state"][SCOPE_KEY]
    return exchange
