"""Two gateways of one process: the second takes over while an answer of the first is on its way."""

from __future__ import annotations

import asyncio
import contextlib

import aiohttp

from reconciler.gateway.handover.claim import Claim
from reconciler.gateway.handover.lock import Lock
from reconciler.gateway.handover.taking import Taking
from reconciler.gateway.routing.timeouts import Timing
from reconciler.gateway.server import serve
from tests.gateway.conftest import SOURCES, Start
from tests.gateway.rank_double import eventually

from .gateways import WORDS, Tale


def _inherits_nothing(descriptor: int) -> Lock:
    raise AssertionError("there was no lock")


async def test_an_answer_is_finished_by_who_began_it_and_the_next_is_the_others(start: Start) -> None:
    tale = Tale()
    cluster = await start(tale)
    asking = asyncio.create_task(cluster.events())
    await cluster.ranks[0].until(lambda rank: bool(rank.asked))
    began = cluster.state()["started_at"]
    before, stop = await asyncio.to_thread(Taking, cluster.home, _inherits_nothing, False), asyncio.Event()
    with contextlib.closing(before):
        claim = Claim(before=before)
        serving = asyncio.create_task(serve(cluster.home, False, stop, Timing(), SOURCES, claim=claim))
        await eventually(lambda: bool(cluster.state()["started_at"] > began))
        async with aiohttp.ClientSession() as http, http.get(cluster.url("/v1/models")) as answer:
            assert "connection" not in answer.headers, "a new connection is the new gateway's"
        assert not asking.done()
        tale.go_on.set()
        lines = await asking
        assert lines[-1] == "data: [DONE]"
        assert sum('"content":"w' in line for line in lines) == WORDS
        async with cluster.http.get(cluster.url("/v1/models")) as answer:
            assert answer.headers["connection"] == "close", "the old gateway's is used once more"
        stop.set()
        await serving
