"""One connection to one rank 0, shared by all requests that it answers."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Protocol, cast

import orjson

from reconciler.gateway.events import Event
from reconciler.wire import SPOKEN
from reconciler.wire.codec import Hello, WireError, agree, decode, to_wire
from reconciler.wire.frames import Decoder, encode, read_json
from reconciler.wire.generation import (
    GATEWAY_RECEIVES,
    Backend,
    Cancel,
    Finished,
    Generate,
    KeptPrefixes,
    Machine,
)

from .rank_frames import plain_delta, request_frame
from .timeouts import Timing

log = logging.getLogger(__name__)

Key = tuple[Machine | None, str, int]
"""Identifies a connection: the machine, the socket's path there, and the epoch behind it."""


def key_of(backend: Backend) -> Key:
    return backend.machine, backend.socket, backend.epoch


Reach = Callable[[Backend, asyncio.Protocol], Awaitable[None]]
"""Connects a protocol to a backend's socket. Raises ``OSError``."""

UNSENT_BYTES_MAX = 4 * 1024 * 1024
"""A backend with more unread bytes gets no new requests until it continues reading."""


class Listener(Protocol):
    """Receives the events of one request. It is called from callbacks of the event loop and must not block."""

    def on_events(self, events: Sequence[Event], now: float) -> None:
        """Take the events that have arrived together, in their order. ``now``: the time of the event loop."""

    def on_lost(self) -> None:
        """Take note that the connection is gone; no event follows."""


class RankConnection:
    """The connection to one backend: opened on demand; ids pair events with requests.

    ``notify`` is called whenever requests that wait for a backend should look again.
    """

    def __init__(self, backend: Backend, timing: Timing, reach: Reach, notify: Callable[[], None]) -> None:
        self.backend = backend
        self.draining = False
        """True if the rank takes no new requests."""
        self.withdrawn = False
        """True if the backend is no longer in the routes file."""
        self.last_event_at = 0.0
        """The time of the last event of any of its requests: a backend that works on others is not silent."""
        self.kept: KeptPrefixes | None = None
        """The group's last report of its prefix cache."""
        self._timing = timing
        self._reach = reach
        self._notify = notify
        self._listeners: dict[str, Listener] = {}
        self._connection: _Connection | None = None
        self._opening: asyncio.Task[None] | None = None
        self._retry_at = 0.0
        self._backoff = timing.reconnect_first

    @property
    def in_flight(self) -> int:
        return len(self._listeners)

    @property
    def ready(self) -> bool:
        return self._connection is not None and not self._connection.paused and not self.draining

    @property
    def opening(self) -> bool:
        return self._opening is not None

    def silent(self, now: float, seconds: float) -> bool:
        """Return whether it has requests, and none of them has had an event for ``seconds``."""
        return bool(self._listeners) and now - self.last_event_at > seconds

    def open(self, now: float) -> None:
        """Start to connect, unless it is connected, connecting, or has just failed to connect."""
        if self._connection is None and self._opening is None and now >= self._retry_at:
            self._opening = asyncio.create_task(self._open())

    def reset(self) -> None:
        """Forget draining and failures: new routes name this backend again."""
        self.draining = False
        self._retry_at = 0.0
        self._backoff = self._timing.reconnect_first

    def submit(self, generate: Generate, listener: Listener, **attempt: Any) -> None:
        """Send a request. ``attempt`` has the fields of ``generate`` that this attempt changes.

        Raises ``WireError`` if it does not fit into a frame.
        """
        if self._connection is None:
            raise WireError("not connected")
        frame = request_frame(generate, **attempt)
        if not self._listeners:
            self.last_event_at = asyncio.get_running_loop().time()  # without requests it was not silent
        self._listeners[attempt.get("request", generate.request)] = listener
        self._connection.write(frame)

    def leave(self, request: str, cancel: bool) -> None:
        """Stop taking events of a request; with ``cancel``, the rank stops working on it."""
        known = self._listeners.pop(request, None) is not None
        if known and cancel and self._connection is not None:
            self._connection.write(encode(to_wire(Cancel(request))))
        if self.withdrawn and not self._listeners:
            self.close()

    def withdraw(self) -> None:
        """Take no new requests; close after the last one."""
        self.withdrawn = True
        if not self._listeners:
            self.close()

    def close(self) -> None:
        """Close the connection; its requests are lost."""
        if self._opening is not None:
            self._opening.cancel()
            self._opening = None
        if self._connection is not None:
            self._connection.close()

    async def _open(self) -> None:
        connection = _Connection(self._on_events, self._lost, self._notify)
        try:
            async with asyncio.timeout(self._timing.hello):
                await self._reach(self.backend, connection)
                await connection.hello
            if not connection.alive:
                raise ConnectionResetError("closed by the rank")
        except (OSError, WireError, TimeoutError) as error:
            connection.close()
            self._failed(error)
        except asyncio.CancelledError:
            connection.close()
            raise
        else:
            self._connection = connection
            self._backoff = self._timing.reconnect_first
        self._opening = None
        self._notify()

    def _failed(self, error: Exception) -> None:
        log.info("no connection to %s on %s: %r", self.backend.socket, self.backend.node, error)
        self._retry_at = asyncio.get_running_loop().time() + self._backoff
        self._backoff = min(self._backoff * 2, self._timing.reconnect_max)

    def _on_events(self, events: Sequence[Event]) -> None:
        """Hand each request all its new events at once, so that its client gets one write."""
        self.last_event_at = now = asyncio.get_running_loop().time()
        of_request: dict[str, list[Event]] = {}
        for event in events:
            if type(event) is Finished:
                self.kept = event.prefix_cache or self.kept
            its = of_request.get(event.request)
            if its is None:
                of_request[event.request] = [event]
            else:
                its.append(event)
        for request, its in of_request.items():
            listener = self._listeners.get(request)
            if listener is not None:
                listener.on_events(its, now)

    def _lost(self, connection: _Connection) -> None:
        if connection is not self._connection:
            return
        self._connection = None
        listeners, self._listeners = self._listeners, {}
        if listeners:
            log.warning(
                "lost %s on %s with %d requests", self.backend.socket, self.backend.node, len(listeners)
            )
        for listener in listeners.values():
            listener.on_lost()


def _read_json(body: bytes | bytearray) -> Any:
    """Return the value of JSON, a few times faster than the standard library, which handles the rest: halves of
    surrogate pairs."""
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError:
        return read_json(body)


class _Connection(asyncio.Protocol):
    """Decodes events from one socket; sends ``Hello`` first and expects one."""

    def __init__(
        self,
        on_events: Callable[[Sequence[Event]], None],
        on_lost: Callable[[_Connection], None],
        on_writable: Callable[[], None],
    ) -> None:
        self._on_events = on_events
        self._on_lost = on_lost
        self._on_writable = on_writable
        self.paused = False
        """True while the rank does not read the sent bytes."""
        self._decoder = Decoder(_read_json)
        self._transport: asyncio.Transport | None = None
        self.hello: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._greeted = False
        """True once the rank's ``Hello`` has come, and fits."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's transports do not inherit from it
        self._transport.set_write_buffer_limits(UNSENT_BYTES_MAX)
        self.write(encode(to_wire(Hello("gateway", SPOKEN))))

    @property
    def alive(self) -> bool:
        return self._transport is not None

    def write(self, frame: bytes) -> None:
        if self._transport is not None:
            self._transport.write(frame)

    def data_received(self, data: bytes) -> None:
        events: list[Event] = []
        broken: WireError | None = None
        try:
            for frame in self._decoder.feed(data):
                delta = plain_delta(frame)
                if delta is not None and self._greeted:
                    events.append(delta)
                else:
                    self._take(decode(frame, GATEWAY_RECEIVES), events)
        except WireError as error:
            broken = error
        if events:
            self._on_events(events)
        if broken is not None:
            log.error("a rank broke the protocol: %s", broken)
            self._end(broken)

    def _take(self, event: Event | Hello, events: list[Event]) -> None:
        if isinstance(event, Hello):
            agree(SPOKEN, event.versions)
            self._greeted = True
            if not self.hello.done():
                self.hello.set_result(None)
        elif self._greeted:
            events.append(event)
        else:
            raise WireError("expected hello first")

    def pause_writing(self) -> None:
        self.paused = True

    def resume_writing(self) -> None:
        self.paused = False
        self._on_writable()

    def connection_lost(self, exc: Exception | None) -> None:
        self._end(exc or ConnectionResetError("closed by the rank"))

    def close(self) -> None:
        self._end(ConnectionAbortedError("closed by the gateway"))

    def _end(self, error: Exception) -> None:
        if not self.hello.done():
            self.hello.set_exception(error)
            self.hello.exception()  # marks it as retrieved: the opening task may have given up already
        if self._transport is not None:
            self._transport.abort()
            self._transport = None
        self._on_lost(self)
