"""Bodies that are too large, too slow, or just large enough."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import orjson

from reconciler.gateway.routing.timeouts import Timing
from tests.gateway.conftest import HELLO, Start
from tests.gateway.rank_double import story


async def test_a_body_too_large_is_413_before_its_end(start: Start) -> None:
    cluster = await start(story(1))
    chunk = b"100000\r\n" + b" " * 0x100000 + b"\r\n"
    for said, sent in [(b"content-length: 12582913", b""), (b"transfer-encoding: chunked", chunk * 13)]:
        reader, writer = await asyncio.open_connection(*cluster.address)
        writer.write(b"POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\n" + said + b"\r\n\r\n" + sent)
        async with asyncio.timeout(20):
            assert (await reader.readline()).startswith(b"HTTP/1.1 413")
            assert b'"request_too_large"' in await reader.readuntil(b"}}")
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()


async def test_a_prompt_of_many_megabytes_passes_and_one_that_outgrows_a_frame_is_413(start: Start) -> None:
    cluster = await start(story(1))
    long = [{"role": "user", "content": "a" * 8_000_000}]
    assert (await cluster.post({"model": "llama", "messages": long}))[0] == 200
    numbers: Any = {"type": "object", "default": [1e15] * 1_000_000}
    tools = [{"type": "function", "function": {"name": "f", "parameters": numbers}}]
    body = orjson.dumps({"model": "llama", "messages": HELLO, "tools": tools})
    status, _, reply = await cluster.post(body.replace(b"1000000000000000.0", b"1e15"))
    assert (status, reply["error"]["code"]) == (413, "request_too_large")


async def test_a_body_that_never_comes_is_408(start: Start) -> None:
    cluster = await start(story(1), timing=Timing(body=0.2, shutdown=0.5))
    reader, writer = await asyncio.open_connection(*cluster.address)
    writer.write(b"POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\ncontent-length: 9\r\n\r\n{")
    assert (await reader.readline()).startswith(b"HTTP/1.1 408")
    writer.close()
    await writer.wait_closed()
