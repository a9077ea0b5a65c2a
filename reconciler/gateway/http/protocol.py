"""HTTP as uvicorn speaks it, with bounds: heads, connections, and clients that send or read nothing."""

from __future__ import annotations

import asyncio
import urllib.parse
from http import HTTPStatus
from typing import Any

import httptools
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.protocols.utils import is_ssl

from reconciler.gateway.admission import Admission, End, Stage
from reconciler.gateway.dialects.dialect import RenderedError
from reconciler.gateway.dialects.table import DEFAULT
from reconciler.gateway.errors import ApiError, head_too_large, head_too_slow, invalid, too_many_connections

from .exchange import SCOPE_KEY as EXCHANGE
from .exchange import Exchange
from .reading import SCOPE_KEY, Reading

HEAD_BYTES_MAX = 64 * 1024
"""The most bytes of a request's line and headers; also of what follows a body."""

UNREAD_BYTES = 16 * 1024
"""How much of an answer waits in the gateway, beside what the system buffers, until it waits for the client."""


class HeadTooLargeError(Exception):
    """Ends the parsing of a head that is complete, but too large."""


class Protocol(HttpToolsProtocol):
    """One connection. Refuses in the shape in which everything else is refused."""

    def __init__(self, admission: Admission, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.address = ""
        self._admission = admission
        self._reading: Reading | None = None
        self._fed = 0
        """Bytes of which the parser has told nothing yet but single headers."""
        self._in_head = True
        self._head_too_large = False
        self._leaving = False
        self._raw: asyncio.Transport | None = None

    def sealed_in(self, raw: asyncio.Transport) -> None:
        """Note the transport below TLS, before the connection is made: what it holds is not read either."""
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
        self._reading = Reading(self.loop, self._unread_bytes, self._end_unread, self._admission.limits)
        if not self._admission.admit(self, self.loop.time()):
            self._refuse(too_many_connections())

    def connection_lost(self, exc: Exception | None) -> None:
        self._admission.forget(self)
        reading, self._reading = self._reading, None
        if reading is not None:
            reading.resume()
            reading.gone()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Parse some bytes. A parser keeps what is no body: more than a head may have is refused unread."""
        if self._leaving:
            return
        self._fed += len(data)
        super().data_received(data)
        if self._fed > HEAD_BYTES_MAX and not self._leaving and not self.transport.is_closing():
            self._admission.ended[End.LARGE_HEAD] += 1
            self._refuse(head_too_large(HEAD_BYTES_MAX))

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
        if self._admission.stage(self) is Stage.IDLE:
            self._admission.move(self, Stage.UNFINISHED, self.loop.time())

    def on_headers_complete(self) -> None:
        size = len(self.url) + sum([len(name) + len(value) for name, value in self.headers])
        if size > HEAD_BYTES_MAX:
            self._head_too_large = True
            raise HeadTooLargeError
        self._fed = 0
        version = self._complete_scope()
        before, exchange = self.cycle, self._exchange(version)
        self.cycle = exchange
        self.scope["state"][EXCHANGE] = exchange
        if before is None or before.response_complete:
            self._start_asgi_task(exchange, self.app)
        else:  # the next of several that were sent without waiting for answers
            self.flow.pause_reading()
            self.pipeline.appendleft((exchange, self.app))
        self._in_head = False
        self._admission.move(self, Stage.BUSY, self.loop.time())

    def _complete_scope(self) -> str:
        """Put what is asked for into the scope of ASGI. Returns the version of HTTP."""
        version: str = self.parser.get_http_version()
        url = httptools.parse_url(self.url)
        path = url.path.decode("ascii")
        self.scope["http_version"] = version
        self.scope["method"] = self.parser.get_method().decode("ascii")
        self.scope["path"] = urllib.parse.unquote(path) if "%" in path else path
        self.scope["raw_path"] = url.path
        self.scope["query_string"] = url.query or b""
        return version

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
            keep_alive=version != "1.0" and self.parser.should_keep_alive(),
            on_response=self.on_response_complete,
        )
        exchange.admission, exchange.following = self._admission, self.pipeline
        return exchange

    def on_body(self, body: bytes) -> None:
        self._fed = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._fed = 0
        super().on_message_complete()
        if not self.pipeline:
            self.flow.resume_reading()  # the end of the connection is read like everything else

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self.cycle.response_complete:
            # Its state leads back to it: nothing else would free the two before the collector does.
            self.cycle.scope["state"].clear()
            stage = Stage.UNFINISHED if self._in_head else Stage.IDLE
            self._admission.move(self, stage, self.loop.time())

    # --- ends --------------------------------------------------------------------------------------

    def send_400_response(self, msg: str) -> None:
        """Answer what cannot be parsed, and close the connection."""
        if self._head_too_large:
            self._admission.ended[End.LARGE_HEAD] += 1
            self._refuse(head_too_large(HEAD_BYTES_MAX))
        else:
            self._refuse(invalid(f"this is not a valid HTTP request: {msg}", None, "invalid_http"))

    def expire(self, stage: Stage) -> None:
        """End a connection that has been in ``stage`` for too long."""
        if self.transport.is_closing() and stage is not Stage.LEAVING:
            return
        match stage:
            case Stage.UNFINISHED if self._fed:
                self._admission.ended[End.SLOW_HEAD] += 1
                self._refuse(head_too_slow())
            case Stage.UNFINISHED:
                self._admission.ended[End.SLOW_HEAD] += 1
                self.transport.close()
            case Stage.IDLE:
                self._admission.ended[End.IDLE] += 1
                if self._unread_bytes():
                    self.end()  # to close would wait for a client that does not read
                else:
                    self.transport.close()
            case _:
                self.end()

    def end(self) -> None:
        """Close at once."""
        self.transport.abort()

    def _unread_bytes(self) -> int:
        """Return how much waits in this process for the client to read."""
        below = self._raw.get_write_buffer_size() if self._raw is not None else 0
        return self.transport.get_write_buffer_size() + below

    def _end_unread(self) -> None:
        self._admission.ended[End.UNREAD] += 1
        self.end()

    def _refuse(self, error: ApiError) -> None:
        """Answer with an error and close, unless these bytes would become a part of another answer."""
        answering = self.cycle is not None and not self.cycle.response_complete
        if self.pipeline or (answering and self.cycle.response_started):
            self.end()
            return
        self._leaving = True
        self.transport.write(_http(DEFAULT.rendered(error)))
        if answering:
            self.transport.close()  # the request that is being answered has no client from now on
        else:
            self._close_when_read()

    def _close_when_read(self) -> None:
        """Close once the client has read the answer: while it still sends, a reset would take it away from it."""
        self._admission.move(self, Stage.LEAVING, self.loop.time())
        if self._raw is not None:
            self.transport.close()  # says goodbye, and takes what comes until the client does too
            return
        try:
            self.transport.write_eof()
        except OSError:
            self.end()  # the client has gone already


def _address(transport: asyncio.Transport, name: str) -> tuple[str, int] | None:
    """Return one end of a connection; an address of IPv6 has more parts than the two."""
    found = transport.get_extra_info(name)
    return (str(found[0]), int(found[1])) if isinstance(found, tuple) else None


def _http(error: RenderedError) -> bytes:
    lines = [
        f"HTTP/1.1 {error.status} {HTTPStatus(error.status).phrase}".encode(),
        b"content-type: application/json",
        f"content-length: {len(error.body)}".encode(),
        b"connection: close",
        *(name + b": " + value for name, value in error.headers),
    ]
    return b"\r\n".join(lines) + b"\r\n\r\n" + error.body
