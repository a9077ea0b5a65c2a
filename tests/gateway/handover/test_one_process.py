"""Two gateways of one process: the second takes over while an answer of the first is on its way."""

from __future__ import annotations

import asyncio
from pathlib import Path

import aiohttp
import pytest

from reconciler.errors import Invalid
from reconciler.gateway.routing.timeouts import Timing
from reconciler.gateway.server import serve
from reconciler.wire.gateway import Tls
from tests.certificates import self_signed
from tests.gateway.conftest import SOURCES, Start

from .gateways import WORDS, Tale, another


async def test_an_answer_is_finished_by_who_began_it_and_the_next_is_the_others(start: Start) -> None:
    tale = Tale()
    cluster = await start(tale)
    asking = asyncio.create_task(cluster.events())
    await cluster.ranks[0].until(lambda rank: bool(rank.asked))
    began = cluster.state()["started_at"]
    async with another(cluster):
        assert cluster.state()["started_at"] > began
        async with aiohttp.ClientSession() as http, http.get(cluster.url("/v1/models")) as answer:
            assert "connection" not in answer.headers, "a new connection is the new gateway's"
        assert not asking.done()
        tale.go_on.set()
        lines = await asking
        assert lines[-1] == "data: [DONE]"
        assert sum('"content":"w' in line for line in lines) == WORDS
        async with cluster.http.get(cluster.url("/v1/models")) as answer:
            assert answer.headers["connection"] == "close", "the old gateway's is used once more"


async def test_a_gateway_without_a_certificate_takes_nothing_over_from_one_that_has_a_good_one(
    start: Start, tmp_path: Path
) -> None:
    cluster = await start()
    file = self_signed(tmp_path)
    cluster.front = {"tls": Tls(str(file), str(file))}
    await cluster.routed()
    file.write_bytes(b"half of it")
    with pytest.raises(Invalid, match="no certificate in PEM form"):
        await serve(cluster.home, False, asyncio.Event(), Timing(), SOURCES, take_over=True)
    async with cluster.http.get(f"https://{cluster.listen}/health", ssl=False) as answer:
        assert answer.status == 200
