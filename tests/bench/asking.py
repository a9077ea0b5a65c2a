"""A client that costs as little as can be: it reads to the end, and counts afterwards."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Sequence
from urllib.parse import urlsplit

from .backend import MODEL
from .streams import COUNT

_SCHEDULED = 2
"""``CPUCLOCK_SCHED``: nanoseconds on a processor."""


class _Answer(asyncio.Protocol):
    """Everything that comes until the connection is closed."""

    def __init__(self, request: bytes) -> None:
        self._request = request
        self.parts: list[bytes] = []
        self.closed: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        self.parts.append(data)

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.closed.done():
            self.closed.set_result(None)


async def ask(url: str, words: int, key: str = "") -> float:
    """Have a story of so many words told; the seconds that it took. Raises ``RuntimeError`` for anything but all of it."""
    place = urlsplit(url)
    body = {"model": MODEL, "messages": [{"role": "user", "content": COUNT}], "max_tokens": words}
    body |= {"stream": True, "stream_options": {"include_usage": True}}
    data = json.dumps(body).encode()
    head = f"POST {place.path}/chat/completions HTTP/1.1\r\nHost: {place.netloc}\r\nConnection: close\r\n"
    head += f"Authorization: Bearer {key}\r\n" if key else ""
    head += f"Content-Type: application/json\r\nContent-Length: {len(data)}\r\n\r\n"
    began = time.perf_counter()
    _, answer = await asyncio.get_running_loop().create_connection(
        lambda: _Answer(head.encode() + data), place.hostname or "", place.port or 80
    )
    await answer.closed
    took = time.perf_counter() - began
    whole = b"".join(answer.parts)
    if whole.count(b'"content":"w') != words or b"[DONE]" not in whole:
        raise RuntimeError(f"expected {words} words: {whole[:500]!r} ... {whole[-300:]!r}")
    return took


def processor_seconds(pids: Sequence[int]) -> float:
    """Time that these processes have had so far, with all threads that they ever had, by their clocks
    (clock_getcpuclockid(3): Linux makes their ids of the pids)."""
    return sum(time.clock_gettime_ns((~pid << 3) | _SCHEDULED) for pid in pids) / 1e9
