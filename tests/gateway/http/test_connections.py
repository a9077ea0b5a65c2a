"""Connections whose clients send nothing, too much, or read nothing, and more of them than there may be."""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import re
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import orjson
import pytest

from reconciler.gateway.routing.timeouts import Timing
from reconciler.serving.limiter import ConnectionLimits
from reconciler.serving.protocol import HEAD_BYTES_MAX
from tests.gateway.conftest import HELLO, Cluster, Start
from tests.gateway.rank_double import Turn, in_turn, silent, story, told

LIMITS = ConnectionLimits(in_all=40, of_one=40, leaving=4, leaving_seconds=0.05)
HEALTH = b"GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n"
WORDS = 150
HALF = b"GET /health HTTP/1.1\r\nhost: local"


class Client:
    """One connection, and whatever bytes its client likes to send."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def ask(self, request: bytes = HEALTH) -> int:
        """Send a request; the status of its answer, which is read to its end."""
        self.writer.write(request)
        status, body = await self.answer()
        assert status != 200 or orjson.loads(body) == {"status": "ok"}
        return status

    async def answer(self) -> tuple[int, bytes]:
        async with asyncio.timeout(20):
            head = (await self.reader.readuntil(b"\r\n\r\n")).decode().lower()
            length = int(head.split("content-length: ")[1].split("\r\n")[0])
            return int(head.split()[1]), await self.reader.readexactly(length)

    async def refusal(self) -> tuple[int, str]:
        """Status and code of an answer after which the connection ends."""
        status, body = await self.answer()
        await self.ended()
        return status, orjson.loads(body)["error"]["code"]

    async def ended(self) -> None:
        async with asyncio.timeout(20):
            assert await self.reader.read() == b""


@asynccontextmanager
async def clients(cluster: Cluster, count: int) -> AsyncIterator[list[Client]]:
    """So many connections, in the order in which they were made."""
    made: list[Client] = []
    try:
        while len(made) < count:
            made.append(Client(*await asyncio.open_connection(*cluster.address)))
        yield made
    finally:
        for each in made:
            each.writer.close()


@asynccontextmanager
async def client(cluster: Cluster) -> AsyncIterator[Client]:
    async with clients(cluster, 1) as (one,):
        yield one


# --- heads ---------------------------------------------------------------------------------------------


async def test_a_head_of_64_kib_is_read_and_a_larger_one_is_431_at_once(start: Start) -> None:
    cluster = await start(limits=LIMITS)
    line = b"GET /health HTTP/1.1\r\nhost: localhost\r\nx-much: "
    most = HEAD_BYTES_MAX - 64
    for size, end, status in (
        (most, b"\r\n\r\n", 200),
        (HEAD_BYTES_MAX, b"\r\n\r\n", 431),
        (1 << 20, b"", 431),
    ):
        async with client(cluster) as one:
            one.writer.write(line + b"x" * size + end)
            if status == 200:
                assert (await one.answer())[0] == 200
            else:
                assert await one.refusal() == (431, "headers_too_large")
    seen = await cluster.samples()
    assert seen['reconciler_connections_ended_total{reason="large_head"}'] == 2


async def test_what_follows_a_body_is_bounded_like_a_head(start: Start) -> None:
    cluster = await start(story(1), limits=LIMITS)
    body = orjson.dumps({"model": "llama", "messages": HELLO})
    head = b"POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n"
    async with client(cluster) as one:
        one.writer.write(head + b"%x\r\n%s\r\n0\r\nx-trailer: " % (len(body), body) + b"x" * (1 << 20))
        assert (await one.answer())[0] == 431
    assert cluster.ranks[0].asked == []


async def test_a_large_body_is_no_large_head(start: Start) -> None:
    cluster = await start(story(1), limits=LIMITS)
    long = [{"role": "user", "content": "a" * 2_000_000}]
    for _ in range(2):
        assert (await cluster.post({"model": "llama", "messages": long}))[0] == 200


@pytest.mark.parametrize("sent", [b"", HEALTH])
async def test_an_unfinished_head_is_408_whichever_request_it_begins(start: Start, sent: bytes) -> None:
    cluster = await start(limits=dataclasses.replace(LIMITS, head_seconds=0.1))
    async with client(cluster) as one:
        if sent:
            assert await one.ask(sent) == 200
        one.writer.write(HALF)
        assert await one.refusal() == (408, "request_timeout")


async def test_a_connection_on_which_nothing_is_sent_is_closed(start: Start) -> None:
    limits = dataclasses.replace(LIMITS, head_seconds=0.1, idle_seconds=0.1)
    cluster = await start(limits=limits)
    async with clients(cluster, 2) as (silent_one, idle):
        assert await idle.ask() == 200
        await idle.ended()
        await silent_one.ended()
    await cluster.until_sample('reconciler_connections{state="unfinished"}', 0)


async def test_an_answer_takes_as_long_as_it_takes(start: Start) -> None:
    limits = dataclasses.replace(LIMITS, head_seconds=0.05, idle_seconds=0.05)
    cluster = await start(story(20, pause=0.02), limits=limits)
    status, _, body = await cluster.post({"model": "llama", "messages": HELLO})
    assert (status, body["choices"][0]["message"]["content"]) == (200, told(20))


# --- how many ------------------------------------------------------------------------------------------


async def test_half_sent_heads_keep_nobody_out(start: Start) -> None:
    cluster = await start(limits=dataclasses.replace(LIMITS, in_all=4, of_one=4))
    async with clients(cluster, 12) as half:
        for each in half:
            each.writer.write(HALF)
        for _ in range(8):
            async with client(cluster) as one:
                assert await one.ask() == 200
        await half[0].ended()


async def test_where_all_connections_have_requests_a_further_one_is_503_until_one_ends(start: Start) -> None:
    cluster = await start(silent, limits=dataclasses.replace(LIMITS, in_all=2, of_one=2))
    asking = [asyncio.create_task(cluster.post({"model": "llama", "messages": HELLO})) for _ in range(2)]
    await cluster.ranks[0].until(lambda rank: len(rank.asked) == 2)
    async with client(cluster) as one:
        one.writer.write(HEALTH)
        head = (await one.reader.readuntil(b"\r\n\r\n")).lower()
        assert head.startswith(b"http/1.1 503")
        assert b"retry-after: 2" in head
        assert b"too_many_connections" in await one.reader.read()
    asking[0].cancel()
    await cluster.ranks[0].until(lambda rank: len(rank.cancelled) == 1)
    async with client(cluster) as one:
        assert await one.ask() == 200
    asking[1].cancel()
    await asyncio.wait(asking)


async def test_who_is_refused_and_has_gone_already_makes_no_room_and_is_no_error(
    start: Start, caplog: pytest.LogCaptureFixture
) -> None:
    cluster = await start(silent, limits=dataclasses.replace(LIMITS, in_all=1, of_one=1))
    asking = asyncio.create_task(cluster.post({"model": "llama", "messages": HELLO}))
    await cluster.ranks[0].until(lambda rank: len(rank.asked) == 1)
    socket.create_connection(cluster.address).close()
    async with client(cluster) as after_it:
        assert (await after_it.refusal())[0] == 503
    assert [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR] == []
    asking.cancel()
    await asyncio.wait([asking])


async def test_connections_are_counted_by_what_they_do(start: Start) -> None:
    cluster = await start(silent, limits=LIMITS)
    async with clients(cluster, 3) as (half, idle, _):
        half.writer.write(HALF)
        assert await idle.ask() == 200
        asking = asyncio.create_task(cluster.post({"model": "llama", "messages": HELLO}))
        await cluster.ranks[0].until(lambda rank: bool(rank.asked))
        await cluster.until_sample('reconciler_connections{state="unfinished"}', 2)
        seen = await cluster.samples()
        assert seen['reconciler_connections{state="idle"}'] == 1
        assert seen['reconciler_connections{state="busy"}'] == 2  # this question is one
        assert seen["reconciler_connections_max"] == LIMITS.in_all
        asking.cancel()
        await asyncio.wait([asking])


# --- clients that do not read --------------------------------------------------------------------------


async def much(turn: Turn) -> None:
    """Say more than sockets buffer."""
    turn.accept()
    for number in range(len(turn.generate.resume), WORDS):
        if turn.cancelled.is_set():
            return
        turn.say(f"{number:<4000}", number)
        await asyncio.sleep(0.001)
    turn.finish()


async def all_but_the_end(turn: Turn) -> None:
    """The same, and then stand still until the request gives way."""
    turn.accept()
    for number in range(WORDS - 1):
        turn.say(f"{number:<4000}", number)
        await asyncio.sleep(0.001)
    await turn.hang()


def words(stream: bytes) -> list[int]:
    """The numbers that ``much`` says, as they came in chunks of HTTP."""
    events = re.sub(rb"\r\n[0-9a-f]+\r\n", b"", stream)
    return [int(word) for text in re.findall(rb'"content":"([^"]*)"', events) for word in text.split()]


@asynccontextmanager
async def unread(cluster: Cluster, **fields: Any) -> AsyncIterator[socket.socket]:
    """A client that asks for a stream and reads nothing of it."""
    body = orjson.dumps({"model": "llama", "messages": HELLO, "stream": True, **fields})
    with socket.socket() as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        sock.setblocking(False)
        loop = asyncio.get_running_loop()
        await loop.sock_connect(sock, cluster.address)
        head = f"POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\ncontent-length: {len(body)}\r\n\r\n"
        await loop.sock_sendall(sock, head.encode() + body)
        yield sock


async def test_a_client_that_reads_nothing_loses_its_connection_and_its_request(start: Start) -> None:
    limits = dataclasses.replace(LIMITS, unread_seconds=0.02, unread_end_seconds=0.2)
    cluster = await start(much, limits=limits)
    async with unread(cluster):
        await cluster.until_sample('reconciler_connections_ended_total{reason="unread"}', 1)
    await cluster.until_sample('vllm:request_success_total{finished_reason="abort",model_name="llama"}', 1)


async def test_a_client_that_reads_slowly_keeps_its_connection(start: Start) -> None:
    limits = dataclasses.replace(LIMITS, unread_seconds=0.05, unread_end_seconds=0.3)
    cluster = await start(much, limits=limits)
    async with unread(cluster) as sock:
        loop, text = asyncio.get_running_loop(), b""
        while not text.endswith(b"[DONE]\n\n\r\n0\r\n\r\n"):
            part = await loop.sock_recv(sock, 65536)
            assert part
            text += part
            await asyncio.sleep(0.001)
    assert words(text) == list(range(WORDS))


async def test_a_place_in_the_batch_goes_from_who_does_not_read_to_who_waits_and_back(start: Start) -> None:
    limits = dataclasses.replace(LIMITS, unread_seconds=0.02)
    script = in_turn(all_but_the_end, story(3), much)
    cluster = await start(script, limits=limits, timing=Timing(shutdown=0.5, hello=60.0, routes_idle=0.02))
    await cluster.routed(cluster.ranks[0], batch=1)
    async with unread(cluster) as sock:
        await cluster.ranks[0].until(lambda rank: bool(rank.asked))
        status, _, body = await cluster.post({"model": "llama", "messages": HELLO})
        assert (status, body["choices"][0]["message"]["content"]) == (200, told(3))
        loop, text = asyncio.get_running_loop(), b""
        while not text.endswith(b"[DONE]\n\n\r\n0\r\n\r\n"):
            text += await loop.sock_recv(sock, 65536)
    first, _, again = cluster.ranks[0].asked
    assert cluster.ranks[0].cancelled == [first.request]
    assert again.resume == tuple(range(len(again.resume)))
    assert again.resume
    assert words(text) == list(range(WORDS))
