"""Answers of the endpoint: JSON or a stream."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from starlette.types import Message, Send

from reconciler.gateway.dialects.dialect import Headers, RenderedError, Reply, Stream
from reconciler.gateway.dialects.replaced import Head
from reconciler.gateway.dialects.table import DEFAULT
from reconciler.gateway.errors import ApiError, refused
from reconciler.gateway.events import Piece
from reconciler.gateway.routing.runs import Runs
from reconciler.gateway.routing.timeouts import Timing
from reconciler.serving import protocol
from reconciler.serving.exchange import Exchange
from reconciler.serving.objections import Objection

JSON = b"application/json"
PIECE_BYTES = 64 * 1024
"""The most bytes of an answer that are written at once."""
_UNBUFFERED = ((b"cache-control", b"no-cache"), (b"x-accel-buffering", b"no"))
"""Makes proxies pass on each part of a stream at once."""


async def send_reply(send: Send, runs: Runs, reply: Reply, timing: Timing, head: Head) -> None:
    while not runs.done:
        pieces = await runs.next(timing.keep_alive)
        head = head.after(pieces)
        reply.add(pieces)
    await send_json(send, 200, reply.body(), head.lines())


_COMMENT = b": keep-alive\n\n"


class _Straight:
    """Writes the parts of a stream straight to its connection."""

    def __init__(self, stream: Stream, body: Exchange) -> None:
        self._stream = stream
        self._body = body
        self._loop = asyncio.get_running_loop()
        self.written_at = self._loop.time()

    def take(self, pieces: Sequence[Piece]) -> bool:
        """Write the next pieces, if the connection takes more."""
        body = self._body
        if not body.ready:
            return False
        part = self._stream.encode(pieces)
        if part:
            body.write(part)
            self.written_at = self._loop.time()
        return True

    def written(self) -> None:
        self.written_at = self._loop.time()

    def silent_for(self, seconds: float) -> float:
        """Return the seconds until nothing has been written for ``seconds``."""
        return self.written_at + seconds - self._loop.time()


async def send_stream(
    send: Send,
    runs: Runs,
    stream: Stream,
    timing: Timing,
    head: Head,
    failed: Callable[[ApiError], None],
    body: Exchange,
    comments: bool,
) -> None:
    """Send an answer as it comes. An error before the first part is raised and becomes a status. A later error is the
    last part, and goes to ``failed``.

    During a silence, also at the beginning, it sends an event that changes nothing, or with ``comments`` a comment.

    After the first part, and while the client reads, text goes to ``body`` and skips all layers around ``send``.
    """
    pieces: Sequence[Piece] = await runs.next(timing.headers_after)
    headers = head.after(pieces).lines()
    await send(
        {
            "type": "http.response.start",
            "status": 200,
            "headers": [(b"content-type", stream.content_type), *_UNBUFFERED, *headers],
        }
    )
    await _send_part(send, stream.encode(pieces) or _sign(stream, comments), more=not runs.done)
    runs.outlet = straight = _Straight(stream, body)
    try:
        while not runs.done:
            part = stream.encode(await runs.next(straight.silent_for(timing.keep_alive)))
            if not part and straight.silent_for(timing.keep_alive) <= 0:
                part = _sign(stream, comments)
            if part or runs.done:  # the end of an answer may have no text of its own
                await _send_part(send, part, more=not runs.done)
                straight.written()
    except ApiError as error:
        failed(error)
        await _send_part(send, stream.error(error), more=False)


def _sign(stream: Stream, comments: bool) -> bytes:
    return _COMMENT if comments else stream.keep_alive()


def refuse(objection: Objection) -> bytes:
    error = DEFAULT.rendered(refused(objection))
    return protocol.answer(error.status, JSON, error.body, error.headers)


async def send_error(send: Send, error: RenderedError) -> None:
    await send_json(send, error.status, error.body, error.headers)


async def send_json(send: Send, status: int, body: bytes, headers: Headers = ()) -> None:
    start: Message = {
        "type": "http.response.start",
        "status": status,
        "headers": [(b"content-type", JSON), (b"content-length", str(len(body)).encode()), *headers],
    }
    await send(start)
    await _send_part(send, body, more=False)


async def _send_part(send: Send, part: bytes, more: bool) -> None:
    """Send a part in pieces. Before each, the server waits for a client that does not read. TLS would accept the whole
    part in one write, however much waits below it."""
    for at in range(0, len(part) - PIECE_BYTES, PIECE_BYTES):
        await send({"type": "http.response.body", "body": part[at : at + PIECE_BYTES], "more_body": True})
    last = part[(max(0, len(part) - 1) // PIECE_BYTES) * PIECE_BYTES :]
    await send({"type": "http.response.body", "body": last, "more_body": more})
