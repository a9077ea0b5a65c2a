"""One key at ten times its limit, and what another notices of it."""

from __future__ import annotations

import asyncio
import contextlib
import statistics
from collections import Counter

import pytest

from tests.gateway.conftest import Cluster, Start
from tests.gateway.rank_double import story

from .test_limits import ask, key, started

PHASE_SECONDS = 62.0
"""A minute, in which the limit has its whole effect."""
A_MINUTE = 120
TOKENS, TOKEN_SECONDS, BATCH = 20, 0.01, 4


async def flood(cluster: Cluster, answers: Counter[int]) -> None:
    """Send ten times as many requests as the key may, evenly."""

    async def one() -> None:
        status, _, _ = await ask(cluster, 0, max_tokens=TOKENS)
        answers[status] += 1

    async with asyncio.TaskGroup() as group:
        while True:
            group.create_task(one())
            await asyncio.sleep(60 / (10 * A_MINUTE))


async def median(cluster: Cluster) -> float:
    """The median time of the other key's answers, one after the other, for a minute."""
    loop, times = asyncio.get_running_loop(), []
    end = loop.time() + PHASE_SECONDS
    while loop.time() < end:
        began = loop.time()
        status, _, _ = await ask(cluster, 1, max_tokens=TOKENS)
        assert status == 200
        times.append(loop.time() - began)
        await asyncio.sleep(0.2)
    return statistics.median(times)


@pytest.mark.nightly
@pytest.mark.timeout(300)
async def test_a_key_at_ten_times_its_limit_changes_anothers_median_by_less_than_a_tenth(
    start: Start, record_property: object
) -> None:
    script = story(TOKENS, pause=TOKEN_SECONDS)
    cluster = await started(start, script, key(requests_per_minute=A_MINUTE), key(1))
    await cluster.routed(*cluster.ranks, batch=BATCH, keys=(key(requests_per_minute=A_MINUTE), key(1)))
    alone = await median(cluster)
    answers: Counter[int] = Counter()
    flooding = asyncio.create_task(flood(cluster, answers))
    beside = await median(cluster)
    flooding.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await flooding
    assert answers[200] <= 2 * A_MINUTE
    assert answers[429] > 7 * A_MINUTE

    assert beside < 1.1 * alone
