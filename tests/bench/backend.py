"""What stands behind everything that is measured in the middle: one story, told in steps, as rank 0 tells it and as an
HTTP server would.

All streams go on together, once a step. What a connection gets of a step is one write, as rank 0 writes it
(``runner/requests/outgoing.py``); an HTTP server has a connection for each stream.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from reconciler.runner.requests.event_frames import event_frame
from reconciler.wire import SPOKEN
from reconciler.wire.codec import Hello, to_wire
from reconciler.wire.frames import encode, read
from reconciler.wire.generation import Accepted, Delta, Finished

MODEL = "llama"
_PROMPT = tuple(range(12))
_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n"


@dataclass(eq=False)
class _Telling:
    """One answer on its way."""

    writer: asyncio.StreamWriter
    encode: Callable[[object], bytes]
    request: str
    told: int = 0
    ended: Callable[[], None] = field(default=lambda: None)


class Backend:
    """Tells each who asks ``words`` words, one a step; all at once where a step takes no time."""

    def __init__(self) -> None:
        self.words = 1
        self.step_seconds = 0.0
        self.connections = 0
        """Those that gateways ever made."""
        self._telling: list[_Telling] = []
        self._ticking: asyncio.TimerHandle | None = None

    async def serve_rank(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer a gateway."""
        self.connections += 1
        writer.write(encode(to_wire(Hello("rank", SPOKEN))))
        try:
            while (frame := await read(reader)) is not None:
                if frame["type"] == "generate":
                    self._begin(_Telling(writer, event_frame, frame["request"]))
        except asyncio.CancelledError:
            pass  # asyncio would report that the server was closed
        finally:
            writer.close()

    async def serve_http(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer whatever speaks HTTP, as often as it asks on a connection."""
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).lower()
                await _skip_body(reader, head)
                close = b"connection: close" in head
                ended = asyncio.Event()
                writer.write(_HEAD + (b"Connection: close\r\n\r\n" if close else b"\r\n"))
                self._begin(_Telling(writer, _event, "", ended=ended.set))
                await ended.wait()
                if close:
                    return
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass  # asyncio would report that the server was closed
        finally:
            writer.close()

    def _begin(self, telling: _Telling) -> None:
        telling.writer.write(telling.encode(Accepted(telling.request, _PROMPT)))
        self._telling.append(telling)
        if self._ticking is None:
            self._ticking = asyncio.get_running_loop().call_later(self.step_seconds, self._step)

    def _step(self) -> None:
        written: dict[asyncio.StreamWriter, list[bytes]] = {}
        for telling in self._telling:
            parts = written.setdefault(telling.writer, [])
            parts.append(telling.encode(Delta(telling.request, (telling.told,), f"w{telling.told} ")))
            telling.told += 1
            if telling.told >= self.words:
                parts.append(telling.encode(Finished(telling.request, "length", len(_PROMPT), self.words)))
        for writer, parts in written.items():
            writer.write(b"".join(parts))
        for telling in self._telling:
            if telling.told >= self.words:
                telling.ended()
        self._telling = [telling for telling in self._telling if telling.told < self.words]
        loop = asyncio.get_running_loop()
        self._ticking = loop.call_later(self.step_seconds, self._step) if self._telling else None


def _event(event: object) -> bytes:
    """As OpenAI's server-sent events, in chunks of HTTP."""
    match event:
        case Accepted():
            return _chunk(_data({"role": "assistant", "content": ""}))
        case Delta():
            return _chunk(_data({"content": event.text}))
        case Finished():
            usage = {"prompt_tokens": 12, "completion_tokens": event.completion_tokens, "total_tokens": 0}
            end = _data({}, "length") + _data(None, usage=usage) + b"data: [DONE]\n\n"
            return _chunk(end) + b"0\r\n\r\n"
        case _:
            raise TypeError(event)


def _data(delta: dict[str, str] | None, finish: str | None = None, **more: Any) -> bytes:
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
    body = {
        "id": "chatcmpl-0123456789abcdef01234567",
        "object": "chat.completion.chunk",
        "created": 1_700_000_000,
        "model": MODEL,
        "choices": [] if delta is None else [choice],
        **more,
    }
    return b"data: " + json.dumps(body, separators=(",", ":")).encode() + b"\n\n"


def _chunk(part: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(part), part)


@asynccontextmanager
async def serving(socket: Path) -> AsyncIterator[tuple[Backend, int]]:
    """A backend that gateways find at ``socket``, and all others at the port."""
    backend = Backend()
    rank = await asyncio.start_unix_server(backend.serve_rank, str(socket))
    http = await asyncio.start_server(backend.serve_http, "127.0.0.1", 0, backlog=1024)
    try:
        yield backend, int(http.sockets[0].getsockname()[1])
    finally:
        rank.close()
        http.close()


async def _skip_body(reader: asyncio.StreamReader, head: bytes) -> None:
    """Read a request's body, with a length or in chunks. ``head`` is in lower case."""
    if b"transfer-encoding: chunked" not in head:
        length = head.partition(b"\r\ncontent-length:")[2].partition(b"\r\n")[0]
        await reader.readexactly(int(length or b"0"))
        return
    while size := int((await reader.readline()).partition(b";")[0], 16):
        await reader.readexactly(size + len(b"\r\n"))
    while (await reader.readline()).strip():
        pass  # trailers
