"""Two gateways on two hosts, with the same routes and keys: one dies under load, and the controller goes away."""

from __future__ import annotations

import asyncio
import copy
import os
import signal
import time

import aiohttp
import pytest

from tests.gateway.rank_double import eventually, told

from .node_gateways import WORDS, answer, gateways

pytestmark = [pytest.mark.timeout(200), pytest.mark.second_tier]

REQUESTS_EACH, CLIENTS = 12, 8


async def test_one_of_two_gateways_dies_under_load_and_clients_that_retry_lose_nothing() -> None:
    async with gateways() as made:
        both = [made.url("front-a"), made.url("front-b")]
        async with aiohttp.ClientSession() as session:

            async def client(number: int) -> list[tuple[str, int]]:
                mine = both if number % 2 else both[::-1]
                return [await answer(session, mine) for _ in range(REQUESTS_EACH)]

            asking = asyncio.gather(*map(client, range(CLIENTS)))
            await asyncio.sleep(0.8)
            before, killed_at = made.seen()["front-a"].pid, time.monotonic()
            assert before is not None
            os.kill(before, signal.SIGKILL)
            answers = [each for of_one in await asking for each in of_one]
            assert len(answers) == CLIENTS * REQUESTS_EACH
            assert {text for text, _ in answers} == {told(WORDS)}
            assert max(attempts for _, attempts in answers) > 1
            await eventually(lambda: made.serving(2) and made.seen()["front-a"].pid != before)
            print(f"started again after {time.monotonic() - killed_at:.1f} s")
            assert await answer(session, both[:1] * 2) == (told(WORDS), 1)


@pytest.mark.nightly
async def test_gateways_go_on_without_the_controller_and_the_next_one_finds_and_ends_them() -> None:
    async with gateways() as made, aiohttp.ClientSession() as session:
        async with made.loop.following():
            pass  # that controller keeps nothing any more
        pids = {name: each.pid for name, each in made.seen().items()}
        for name in made.hosts:
            assert await answer(session, [made.url(name)] * 2) == (told(WORDS), 1)
        next_one = copy.copy(made)
        next_one.loop = made.next_loop()
        async with next_one.loop.following():
            next_one.loop.follow(next_one.routes("front-b"))
            await eventually(lambda: next_one.serving(1))
            assert next_one.seen()["front-b"].pid == pids["front-b"]
            await eventually(
                lambda: "front-a" not in next_one.seen() and not made.hosts["front-a"].pids("gateway-")
            )
            assert next_one.remembered.read_text() == '["front-b"]'
