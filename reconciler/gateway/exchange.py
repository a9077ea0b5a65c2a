"""One HTTP exchange: a body in, JSON or an event stream out, and a client that may go away meanwhile."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Protocol

from starlette.datastructures import Headers
from starlette.types import Message, Receive, Scope, Send

from .dispatch import Run
from .events import Answer
from .faults import ClientGone, Fault, body_too_slow, too_large
from .openai_shape import KEEP_ALIVE, fault_body, fault_headers
from .timing import Timing

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


class Stream(Protocol):
    """Answers to server-sent events."""

    def encode(self, answers: Sequence[Answer]) -> bytes: ...

    def fault(self, fault: Fault) -> bytes: ...


class Reply(Protocol):
    """Answers to one JSON object."""

    def add(self, answers: Sequence[Answer]) -> None: ...

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
async def watching(receive: Receive, run: Run) -> AsyncIterator[None]:
    """Meanwhile, abandon ``run`` when the client goes away."""
    watcher = asyncio.create_task(_watch_client(receive, run))
    try:
        yield
    finally:
        watcher.cancel()


async def _watch_client(receive: Receive, run: Run) -> None:
    while (await receive())["type"] != "http.disconnect":
        continue
    run.abandon()


async def send_reply(send: Send, run: Run, reply: Reply, timing: Timing) -> None:
    """The whole answer at its end."""
    while not run.done:
        reply.add(await run.next(timing.keep_alive))
    await send_json(send, 200, reply.body())


async def send_stream(send: Send, run: Run, stream: Stream, timing: Timing) -> None:
    """Faults before the first event are statuses; after it they are the stream's last event."""
    answers: Sequence[Answer] = await run.next(timing.headers_after)
    await send({"type": "http.response.start", "status": 200, "headers": list(_EVENT_STREAM)})
    await _send_part(send, stream.encode(answers) or KEEP_ALIVE, more=not run.done)
    loop = asyncio.get_running_loop()
    written_at = loop.time()
    try:
        while not run.done:
            part = stream.encode(await run.next(timing.keep_alive))
            if not part and loop.time() - written_at >= timing.keep_alive:
                part = KEEP_ALIVE
            if part:
                await _send_part(send, part, more=not run.done)
                written_at = loop.time()
    except Fault as fault:
        await _send_part(send, stream.fault(fault), more=False)


async def send_fault(send: Send, fault: Fault) -> None:
    """An answer that is an error from its first byte."""
    await send_json(send, fault.status, fault_body(fault), fault_headers(fault))


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
