"""One HTTP exchange: a body in, JSON or an event stream out, and a client that may go away meanwhile."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Protocol, runtime_checkable

from starlette.datastructures import Headers
from starlette.types import Message, Receive, Scope, Send

from reconciler.gateway.errors import ApiError, ClientGone, body_too_slow, too_large
from reconciler.gateway.events import Said
from reconciler.gateway.routing.runs import Runs
from reconciler.gateway.routing.timing import Timing

from .shape import KEEP_ALIVE, error_body, error_headers

BODY_BYTES_MAX = 12 * 1024 * 1024
"""Less than a frame to a rank holds, so that the token ids to resume with fit as well."""

_JSON = (b"content-type", b"application/json")
_EVENT_STREAM = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-cache"),
    (b"x-accel-buffering", b"no"),
]


@dataclasses.dataclass(frozen=True, slots=True)
class Sources:
    """Where time and chance come from."""

    now: Callable[[], float]
    """Seconds since the Unix epoch."""
    new_id: Callable[[], str]
    """Letters and digits that no other call returns."""
    new_seed: Callable[[], int]
    """A number of 63 random bits."""


@runtime_checkable
class Stream(Protocol):
    """Answers to server-sent events."""

    def encode(self, said: Sequence[Said]) -> bytes: ...

    def error(self, fault: ApiError) -> bytes: ...


class Reply(Protocol):
    """Answers to one JSON object."""

    def add(self, said: Sequence[Said]) -> None: ...

    def body(self) -> bytes: ...


async def read_body(scope: Scope, receive: Receive, timing: Timing) -> bytes:
    """The whole body. Raises ``Fault`` (408, 413) and ``ClientGone``."""
    try:
        async with asyncio.timeout(timing.body):
            return await _read(scope, receive)
    except TimeoutError:
        raise body_too_slow() from None


async def _read(scope: Scope, receive: Receive) -> bytes:
    length = Headers(scope=scope).get("content-length", "")
    if length.isdigit() and int(length) > BODY_BYTES_MAX:
        raise too_large(BODY_BYTES_MAX)
    body = bytearray()
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientGone("the client went away while sending its request")
        body += message.get("body", b"")
        if len(body) > BODY_BYTES_MAX:
            raise too_large(BODY_BYTES_MAX)
        if not message.get("more_body", False):
            return bytes(body)


@contextlib.asynccontextmanager
async def watching(receive: Receive, runs: Runs) -> AsyncIterator[None]:
    """Meanwhile, abandon ``runs`` when the client goes away."""
    watcher = asyncio.create_task(_watch_client(receive, runs))
    try:
        yield
    finally:
        watcher.cancel()


async def _watch_client(receive: Receive, runs: Runs) -> None:
    while (await receive())["type"] != "http.disconnect":
        continue
    runs.abandon()


async def send_reply(send: Send, runs: Runs, reply: Reply, timing: Timing) -> None:
    """The whole answer at its end."""
    while not runs.done:
        reply.add(await runs.next(timing.keep_alive))
    await send_json(send, 200, reply.body())


async def send_stream(send: Send, runs: Runs, stream: Stream, timing: Timing) -> None:
    """Faults before the first event are statuses; after it they are the stream's last event."""
    said: Sequence[Said] = await runs.next(timing.headers_after)
    await send({"type": "http.response.start", "status": 200, "headers": list(_EVENT_STREAM)})
    await _send_part(send, stream.encode(said) or KEEP_ALIVE, more=not runs.done)
    loop = asyncio.get_running_loop()
    written_at = loop.time()
    try:
        while not runs.done:
            part = stream.encode(await runs.next(timing.keep_alive))
            if not part and loop.time() - written_at >= timing.keep_alive:
                part = KEEP_ALIVE
            if part:
                await _send_part(send, part, more=not runs.done)
                written_at = loop.time()
    except ApiError as fault:
        await _send_part(send, stream.error(fault), more=False)


async def send_error(send: Send, fault: ApiError) -> None:
    """An answer that is an error from its first byte."""
    await send_json(send, fault.status, error_body(fault), error_headers(fault))


async def send_json(
    send: Send, status: int, body: bytes, headers: Sequence[tuple[bytes, bytes]] = ()
) -> None:
    start: Message = {
        "type": "http.response.start",
        "status": status,
        "headers": [_JSON, (b"content-length", str(len(body)).encode()), *headers],
    }
    await send(start)
    await _send_part(send, body, more=False)


async def _send_part(send: Send, part: bytes, more: bool) -> None:
    await send({"type": "http.response.body", "body": part, "more_body": more})
