"""One framed connection of the agent or the shim, bounded in both directions.

Unsent output is bounded: beyond ``_OUTPUT_BYTES``, nothing more is read from this peer, and so nothing more is
answered, until the peer has read some. Other peers are not affected.
"""

from __future__ import annotations

import asyncio
import collections
import logging
from typing import Any, Callable, Deque, Dict, List, Mapping, Optional, cast

from reconciler.wire import SPOKEN
from reconciler.wire.codec import Hello, Refused, WireError, agree, decode, to_wire
from reconciler.wire.frames import Decoder, encode

_OUTPUT_BYTES = 1024 * 1024
_log = logging.getLogger("agent")


class Peer(asyncio.Protocol):
    """A ``host.Connection``. Exchanges ``Hello``, then calls ``on_message`` for each message, one at a time, in order."""

    def __init__(
        self,
        role: str,
        hears: Mapping[str, type],
        on_message: Callable[[Peer, Any, Optional[int]], None],
        on_open: Callable[[Peer], None],
        on_close: Callable[[Peer], None],
    ) -> None:
        self._role = role
        self._vocabulary = hears
        self._on_message = on_message
        self._on_open = on_open
        self._on_close = on_close
        self._decoder = Decoder()
        self._waiting: Deque[Dict[str, Any]] = collections.deque()
        self._transport: Optional[asyncio.Transport] = None
        self._unsent: List[bytes] = []
        """Messages sent before the connection is established, which happens at once."""
        self._over = False
        self.greeted = False
        """True if the peer has said hello in a supported version."""
        self.congested = False
        """The peer is slow: messages that can wait should."""
        self.on_drained: Callable[[Peer], None] = lambda peer: None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(high=_OUTPUT_BYTES)
        self.send(Hello(self._role, SPOKEN))
        for content in self._unsent:
            self._transport.write(content)
        self._unsent.clear()
        self._on_open(self)

    def connection_lost(self, error: Optional[Exception]) -> None:
        self._transport, self._over = None, True
        self._on_close(self)

    def data_received(self, chunk: bytes) -> None:
        try:
            self._waiting.extend(self._decoder.feed(chunk))
        except WireError as error:
            _log.warning("%s: closing a connection: %s", self._role, error)
            self.abort()
            return
        self._answer()

    def pause_writing(self) -> None:
        self.congested = True
        if self._transport is not None:
            self._transport.pause_reading()

    def resume_writing(self) -> None:
        self.congested = False
        self._answer()
        if self._transport is not None and not self.congested:
            self._transport.resume_reading()
            self.on_drained(self)

    def _answer(self) -> None:
        while self._waiting and not self.congested:
            self._on_frame(self._waiting.popleft())

    def _on_frame(self, frame: Dict[str, Any]) -> None:
        request = frame.get("call")
        request = request if isinstance(request, int) else None
        try:
            message = decode(frame, self._vocabulary)
            if not self.greeted:
                self._check_hello(message)
                return
        except WireError as error:
            _log.warning("%s: %s", self._role, error)
            if not self.greeted:
                self.abort()
            elif request is not None:
                self.reply(request, Refused("Malformed", str(error)))
            return
        self._on_message(self, message, request)

    def _check_hello(self, message: Any) -> None:
        if not isinstance(message, Hello):
            raise WireError("expected hello as the first frame, got {!r:.80}".format(message))
        agree(SPOKEN, message.versions)
        self.greeted = True

    def send(self, message: Any) -> None:
        self._write(to_wire(message))

    def reply(self, request: int, message: Any) -> None:
        try:
            self._write({**to_wire(message), "reply": request})
        except WireError as error:
            self._write({**to_wire(Refused("TooLong", str(error))), "reply": request})

    def _write(self, frame: Dict[str, Any]) -> None:
        content = encode(frame)
        if self._transport is None:
            if not self._over:
                self._unsent.append(content)
        elif not self._transport.is_closing():
            self._transport.write(content)

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()
