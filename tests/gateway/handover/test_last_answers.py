"""After the switch the old gateway's answers say that it closes their connections, and nothing that was sent to it is lost."""

from __future__ import annotations

import asyncio
import contextlib

from tests.gateway.conftest import HELLO, Start

from .gateways import Tale, another


async def test_an_answer_that_is_being_worked_on_at_the_switch_is_the_last_of_its_connection(
    start: Start,
) -> None:
    tale = Tale()
    cluster = await start(tale)
    asking = asyncio.create_task(cluster.post({"model": "llama", "messages": HELLO}))
    await cluster.ranks[0].until(lambda rank: bool(rank.asked))
    async with another(cluster):
        tale.go_on.set()
        status, headers, _ = await asking
        assert (status, headers.get("connection")) == (200, "close")


async def test_requests_that_were_sent_together_are_all_answered(start: Start) -> None:
    cluster = await start()
    reader, writer = await asyncio.open_connection(*cluster.address)
    with contextlib.closing(writer):
        writer.write(b"GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n")
        assert b"connection: close" not in await reader.readuntil(b"\r\n\r\n")
        async with another(cluster):
            writer.write(b"GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n" * 3)
            answered = await reader.read()
            assert answered.count(b"HTTP/1.1 200 OK") == 3
            assert answered.count(b"connection: close") == 1
