"""HTTP as uvicorn speaks it, with bounds: heads, connections, and clients that send or read nothing."""

from __future__ import annotations

import asyncio
import urllib.parse
from collections.abc import Callable, Iterable
from http import HTTPStatus
from typing import Any, cast

import httptools
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.protocols.utils import is_ssl

from .exchange import SCOPE_KEY as EXCHANGE
from .exchange import Exchange
from .limiter import ConnectionLimiter, End, Stage
from .objections import (
    Objection,
    head_too_large,
    head_too_slow,
    http_version,
    not_http,
    too_many_connections,
    tunnel,
    unknown_expectation,
    unknown_transfer_coding,
)
from .reading import SCOPE_KEY, Reading

HEAD_BYTES_MAX = 64 * 1024
"""The most bytes of a request's line and headers, and of the trailers after a body."""

UNREAD_BYTES = 16 * 1024
"""The most bytes of an answer that the gateway holds, in addition to the system's buffers, before it waits for the
client."""


_PATH_MAX = 256
"""The most characters of the path of a request that cannot be parsed."""
_BLANK = b" \t"


Refuse = Callable[[Objection], bytes]
"""Returns the complete answer to a client that has no request, as ``answer`` makes it."""


class HeadTooLargeError(Exception):
    """Ends the parsing of a head that is complete, but too large."""


class Protocol(HttpToolsProtocol):
    """One connection. The application says how its refusals look."""

    def __init__(self, limiter: ConnectionLimiter, refuse: Refuse, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.address = ""
        self._limiter = limiter
        self._rendered = refuse
        self._reading: Reading | None = None
        self._fed = 0
        """Bytes from which the parser has reported only single headers so far."""
        self._in_head = False
        self._hosts = 0
        """The number of headers ``host`` in this head."""
        self._offered = False
        """True while the parser stops after a head that offers another protocol."""
        self._objection: Objection | None = None
        self._leaving = False
        """True once it no longer reads."""
        self._over = False
        """True once it no longer answers."""
        self.parser = self._new_parser()
        self._raw: asyncio.Transport | None = None

    def sealed_in(self, raw: asyncio.Transport) -> None:
        """Note the transport below TLS, before the connection is made: its unread bytes count too."""
        self._raw = raw

    # --- from the transport ------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin, as uvicorn does, which asks the system for the same two addresses seven times."""
        self.connections.add(self)
        self.transport, self.flow = transport, FlowControl(transport)
        self.server, self.client = _address(transport, "sockname"), _address(transport, "peername")
        self.scheme = "https" if is_ssl(transport) else "http"
        self.address = self.client[0] if self.client else ""
        transport.set_write_buffer_limits(high=UNREAD_BYTES)
        self._reading = Reading(self.loop, self._unread_bytes, self._end_unread, self._limiter.limits)
        if not self._limiter.admit(self, self.loop.time()):
            self._refuse(too_many_connections())

    def connection_lost(self, exc: Exception | None) -> None:
        self._limiter.forget(self)
        reading, self._reading = self._reading, None
        if reading is not None:
            reading.resume()
            reading.gone()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Parse some bytes. A parser keeps all bytes outside bodies: more than a head may have is refused unread."""
        if self._leaving:
            return
        self._fed += len(data)
        self._unset_keepalive_if_required()
        try:
            self._parse(data)
        except httptools.HttpParserError as error:
            if isinstance(error.__context__, HeadTooLargeError):
                self._reject_as_too_large()
            else:
                self._reject(self._flaw(error))
        if self._fed > HEAD_BYTES_MAX and not self._leaving and not self.transport.is_closing():
            self._reject_as_too_large()

    def _parse(self, data: bytes) -> None:
        rest = memoryview(data)
        while rest:
            try:
                self.parser.feed_data(rest)
                return
            except httptools.HttpParserUpgrade as offer:
                if not self._offered:  # a tunnel, which was refused
                    self._leaving = True
                    return
                rest = rest[offer.args[0] :]
                self._pass_over_offer()

    def _pass_over_offer(self) -> None:
        """Parse a head again without its offer of another protocol, which a server may ignore (RFC 9110, 7.8). With the
        offer, the parser takes the body and all later bytes for that protocol."""
        version = self.parser.get_http_version().encode()
        head = [b"%b %b HTTP/%b\r\n" % (self.parser.get_method(), self.url, version)]
        head += [b"%b: %b\r\n" % (name, value) for name, value in self.headers if name != b"upgrade"]
        self._offered = False
        self.parser = self._new_parser()
        self.parser.feed_data(b"".join([*head, b"\r\n"]))

    def _new_parser(self) -> httptools.HttpRequestParser:
        parser = httptools.HttpRequestParser(self)
        parser.set_dangerous_leniencies(lenient_data_after_close=True, lenient_version=True)
        return parser

    def pause_writing(self) -> None:
        super().pause_writing()
        if self._reading is not None:
            self._reading.pause()

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._reading is not None:
            self._reading.resume()

    # --- from the parser ---------------------------------------------------------------------------

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self.scope["state"][SCOPE_KEY] = self._reading
        self._in_head = True
        self._hosts = 0
        self._objection = None
        if self._limiter.stage(self) is Stage.IDLE:
            self._limiter.move(self, Stage.UNFINISHED, self.loop.time())

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header. Ignore those after a body (RFC 9110, 6.5.1): the request was checked before they came."""
        if not self._in_head:
            return
        name, value = name.lower(), value.rstrip(_BLANK)
        self.headers.append((name, value))
        if name == b"host":
            self._hosts += 1
        elif name == b"expect" and self.parser.get_http_version() != "1.0":
            wanted = {each.strip() for each in value.lower().split(b",")} - {b""}
            self.expect_100_continue = self.expect_100_continue or bool(wanted)
            if wanted - {b"100-continue"}:
                self._objection = unknown_expectation(value.decode("latin-1"))
        elif name == b"transfer-encoding" and value.lower() != b"chunked":
            self._objection = unknown_transfer_coding(value.decode("latin-1"))

    def on_headers_complete(self) -> None:
        size = len(self.url) + sum([len(name) + len(value) for name, value in self.headers])
        if size > HEAD_BYTES_MAX:
            raise HeadTooLargeError
        if self.parser.should_upgrade() and self.parser.get_method() != b"CONNECT":
            self._offered = True  # the parser stops after this head, which is read again without the offer
            return
        self._fed = 0
        self._begin(self._complete_scope())

    def _complete_scope(self) -> str:
        """Put method and URL into the scope of ASGI. Returns the version of HTTP."""
        version: str = self.parser.get_http_version()
        if version not in ("1.1", "1.0"):
            if not version.startswith("1."):
                self._objection = http_version(version)
            version = "1.1"  # the highest version that this endpoint speaks (RFC 9110, 2.5)
        self.scope["http_version"] = version
        self.scope["method"] = method = self.parser.get_method().decode("ascii")
        self.scope["path"], self.scope["raw_path"], self.scope["query_string"] = "", b"", b""
        if method == "CONNECT":
            self._objection = tunnel()
        else:
            self._locate()
        if version == "1.1" and self._hosts != 1 and self._objection is None:
            self._objection = not_http(f"it has {self._hosts or 'no'} headers `host`, and must have one")
        return version

    def _locate(self) -> None:
        """Put path and query of the URL into the scope. The host of an absolute URL replaces the header's (RFC 9112,
        3.2.2)."""
        url = httptools.parse_url(self.url)
        raw = url.path or b"/"
        path = raw.decode("ascii")
        self.scope["path"] = urllib.parse.unquote(path) if "%" in path else path
        self.scope["raw_path"] = raw
        self.scope["query_string"] = url.query or b""
        if url.host is not None:
            authority = self.url.split(b"/", 3)[2].partition(b"?")[0].rpartition(b"@")[2]
            self.headers[:] = [header for header in self.headers if header[0] != b"host"]
            self.headers.append((b"host", authority))

    def _begin(self, version: str) -> None:
        """Answer the request, or let it wait for earlier requests of a client that does not wait for answers."""
        before, exchange = self.cycle, self._exchange(version)
        self.cycle = exchange
        self.scope["state"][EXCHANGE] = exchange
        if before is None or before.response_complete:
            self._start_asgi_task(exchange, self.app)
        else:
            self.flow.pause_reading()
            self.pipeline.appendleft((exchange, self.app))
        self._in_head = False
        self._limiter.move(self, Stage.BUSY, self.loop.time())

    def _exchange(self, version: str) -> Exchange:
        exchange = Exchange(
            scope=self.scope,
            transport=self.transport,
            flow=self.flow,
            logger=self.logger,
            access_logger=self.access_logger,
            access_log=False,
            default_headers=self.server_state.default_headers,
            message_event=asyncio.Event(),
            expect_100_continue=self.expect_100_continue,
            keep_alive=version == "1.1" and self._objection is None and self.parser.should_keep_alive(),
            on_response=self.on_response_complete,
        )
        exchange.limiter, exchange.following = self._limiter, self.pipeline
        exchange.close, exchange.objection = self._close_after, self._objection
        return exchange

    def on_body(self, body: bytes) -> None:
        self._fed = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        if self._offered:
            return
        self._fed = 0
        super().on_message_complete()
        if not self.pipeline:
            self.flow.resume_reading()  # the end of the connection must be read too

    def on_response_complete(self) -> None:
        if self._over:
            self.pipeline.clear()
            return
        super().on_response_complete()
        if self.cycle.response_complete:
            # Its state leads back to it. Otherwise only the garbage collector would free the two.
            self.cycle.scope["state"].clear()
            stage = Stage.UNFINISHED if self._in_head else Stage.IDLE
            self._limiter.move(self, stage, self.loop.time())

    # --- ends --------------------------------------------------------------------------------------

    def _flaw(self, error: httptools.HttpParserError) -> Objection:
        """Return the objection to bytes that cannot be parsed."""
        if self._in_head and self.url == b"*" and self.parser.get_method() == b"PRI":
            return http_version("2")  # its clients begin so if they assume that version (RFC 9113, 3.4)
        if isinstance(error.__context__, httptools.HttpParserInvalidURLError):
            error = error.__context__
        return not_http(str(error) or "it cannot be parsed")

    def _reject_as_too_large(self) -> None:
        self._limiter.ended[End.LARGE_HEAD] += 1
        self._reject(head_too_large(HEAD_BYTES_MAX))

    def _reject(self, objection: Objection) -> None:
        """Refuse the request that is being read, in its turn. Stop reading, because the next request could begin
        anywhere."""
        if self._leaving:
            return
        self._leaving = True
        cycle = cast(Exchange | None, self.cycle)
        if not self._in_head and cycle is not None and cycle.more_body:
            cycle.object_to(objection)
            cycle.message_event.set()
            if cycle.response_complete:
                self._close_when_read()
            return
        if not self._in_head:
            self.on_message_begin()
        self._objection = objection
        self.scope["method"], self.scope["path"] = "GET", _path(self.url)
        self.scope["raw_path"] = self.scope["query_string"] = b""
        self._begin("1.1")
        self.cycle.more_body = False

    def expire(self, stage: Stage) -> None:
        """End a connection that has been in ``stage`` for too long."""
        if self.transport.is_closing() and stage is not Stage.LEAVING:
            return
        match stage:
            case Stage.UNFINISHED if self._in_head:
                self._limiter.ended[End.SLOW_HEAD] += 1
                self._refuse(head_too_slow())
            case Stage.UNFINISHED:
                self._limiter.ended[End.SLOW_HEAD] += 1
                self.transport.close()
            case Stage.IDLE:
                self._limiter.ended[End.IDLE] += 1
                if self._unread_bytes():
                    self.end()  # ``close`` would wait for a client that does not read
                else:
                    self.transport.close()
            case Stage.LEAVING if self.flow.write_paused:
                return  # it still reads the earlier answer; ``Reading`` ends it if it does not
            case _:
                self.end()

    def end(self) -> None:
        self.transport.abort()

    def _unread_bytes(self) -> int:
        """Return the bytes that wait in this process for the client to read them."""
        below = self._raw.get_write_buffer_size() if self._raw is not None else 0
        return self.transport.get_write_buffer_size() + below

    def _end_unread(self) -> None:
        self._limiter.ended[End.UNREAD] += 1
        self.end()

    def _refuse(self, objection: Objection) -> None:
        """Answer, and close a connection that has no request."""
        self._leaving = True
        self.transport.write(self._rendered(objection))
        self._close_when_read()

    def _close_after(self) -> None:
        """Close after the last answer. If the client may still be sending, let it read that answer first."""
        cycle = cast(Exchange, self.cycle)
        if self._leaving or self.pipeline or cycle.more_body or cycle.objection is not None:
            self._close_when_read()
        else:
            self.transport.close()

    def _close_when_read(self) -> None:
        """Close once the client has read the answer. While it still sends, a reset would destroy the answer."""
        self._leaving = self._over = True
        self._limiter.move(self, Stage.LEAVING, self.loop.time())
        if self._raw is not None:
            self.transport.close()  # closes its own direction, and reads until the client closes too
            return
        try:
            self.transport.write_eof()
        except OSError:
            self.end()  # the client has gone already


def _address(transport: asyncio.Transport, name: str) -> tuple[str, int] | None:
    """Return one end of a connection. An IPv6 address has more parts than these two."""
    found = transport.get_extra_info(name)
    return (str(found[0]), int(found[1])) if isinstance(found, tuple) else None


def _path(url: bytes) -> str:
    """Return the path of a URL that may be cut off or wrong. It decides which dialect the client probably speaks."""
    return url.partition(b"?")[0][:_PATH_MAX].decode("latin-1")


def answer(
    status: int, content_type: bytes, body: bytes, headers: Iterable[tuple[bytes, bytes]] = ()
) -> bytes:
    """Return a complete answer, the last one on its connection."""
    lines = [
        f"HTTP/1.1 {status} {HTTPStatus(status).phrase}".encode(),
        b"content-type: " + content_type,
        f"content-length: {len(body)}".encode(),
        b"connection: close",
        *(name + b": " + value for name, value in headers),
    ]
    return b"\r\n".join(lines) + b"\r\n\r\n" + body
