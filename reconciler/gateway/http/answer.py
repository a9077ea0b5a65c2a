"""Answers of the endpoint: JSON or a stream, and a client that may go away meanwhile."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Sequence

from starlette.types import Message, Receive, Send

from reconciler.gateway.dialects.dialect import Headers, RenderedError, Reply, Stream
from reconciler.gateway.errors import ApiError
from reconciler.gateway.events import Piece
from reconciler.gateway.routing.runs import Runs
from reconciler.gateway.routing.timeouts import Timing

JSON = b"application/json"
_UNBUFFERED = ((b"cache-control", b"no-cache"), (b"x-accel-buffering", b"no"))
"""Proxies hand each part of a stream on as it comes."""


@contextlib.asynccontextmanager
async def abandon_when_gone(receive: Receive, runs: Runs) -> AsyncIterator[None]:
    """Abandon ``runs`` when the client goes away meanwhile."""
    watcher = asyncio.create_task(_watch_client(receive, runs))
    try:
        yield
    finally:
        watcher.cancel()


async def _watch_client(receive: Receive, runs: Runs) -> None:
    while (await receive())["type"] != "http.disconnect":
        continue
    runs.abandon()


async def send_reply(send: Send, runs: Runs, reply: Reply, timing: Timing, headers: Headers = ()) -> None:
    """Send the complete answer at its end."""
    while not runs.done:
        reply.add(await runs.next(timing.keep_alive))
    await send_json(send, 200, reply.body(), headers)


async def send_stream(
    send: Send,
    runs: Runs,
    stream: Stream,
    timing: Timing,
    headers: Headers,
    failed: Callable[[ApiError], None],
) -> None:
    """Send an answer as it comes. An error before the first part is raised and is a status; after it, it is the last
    part, and ``failed`` is told."""
    pieces: Sequence[Piece] = await runs.next(timing.headers_after)
    await send(
        {
            "type": "http.response.start",
            "status": 200,
            "headers": [(b"content-type", stream.content_type), *_UNBUFFERED, *headers],
        }
    )
    await _send_part(send, stream.encode(pieces) or stream.keep_alive, more=not runs.done)
    loop = asyncio.get_running_loop()
    written_at = loop.time()
    try:
        while not runs.done:
            part = stream.encode(await runs.next(timing.keep_alive))
            if not part and loop.time() - written_at >= timing.keep_alive:
                part = stream.keep_alive
            if part or runs.done:  # the end of an answer may have no text of its own
                await _send_part(send, part, more=not runs.done)
                written_at = loop.time()
    except ApiError as error:
        failed(error)
        await _send_part(send, stream.error(error), more=False)


async def send_error(send: Send, error: RenderedError) -> None:
    """Send an answer that is an error from its first byte."""
    await send_json(send, error.status, error.body, error.headers)


async def send_json(send: Send, status: int, body: bytes, headers: Headers = ()) -> None:
    """Send an answer that is one JSON object."""
    start: Message = {
        "type": "http.response.start",
        "status": status,
        "headers": [(b"content-type", JSON), (b"content-length", str(len(body)).encode()), *headers],
    }
    await send(start)
    await _send_part(send, body, more=False)


async def _send_part(send: Send, part: bytes, more: bool) -> None:
    await send({"type": "http.response.body", "body": part, "more_body": more})
