"""From the end of a rank to the next token: by our loop, and by a script that does nothing else."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections.abc import Iterator
from itertools import pairwise

from tests.bench.figures import Figure, paired
from tests.bench.sides import Ours, ours
from tests.bench.streams import COUNT, WEIGHTS, stream
from tests.processes import cpu_seconds
from tests.runner.ranks import connected, running

RANKS = 2
TOKENS = 380
KILLED_AFTER_SECONDS = 0.3
RUNNER = "-m reconciler.runner"
"""In the command line of a rank and of what waits to be one."""
LOOK_SECONDS = 0.5
CALM_LOOKS = 4
"""Longer than an agent takes to see that a spare is missing."""
CALM_SHARE = 0.1
"""Of a core: less than anything takes that is being started."""


def measure(quick: bool) -> Iterator[Figure]:
    """A rank is killed under an open stream; beside it, the same processes are restarted by hand."""
    times = 1 if quick else 4
    yield paired("rank killed -> next token", "s", *_measured(times, spares=True), "<= 1.2")
    yield paired("the same, without spares", "s", *_measured(times, spares=False))


def _measured(times: int, spares: bool) -> tuple[list[float], list[float]]:
    mine, by_hand = [], []
    with ours(RANKS) as side:
        for number in range(times):
            _outlive_back_off(side, number)
            if spares:
                side.made.wait("a spare on each node", lambda: len(side.made.pids(RUNNER)) == 2 * RANKS)
            else:
                _end_spares(side)
            _wait_at_rest(side)
            mine.append(asyncio.run(_killed(side, number % RANKS)))
            _wait_at_rest(side)
            by_hand.append(_restarted())
    return mine, by_hand


def _end_spares(side: Ours) -> None:
    for pid in side.made.pids(".pyz spare"):
        os.kill(pid, signal.SIGKILL)
    side.made.wait("the end of the spares", lambda: len(side.made.pids(RUNNER)) == RANKS)


def _wait_at_rest(side: Ours) -> None:
    """What ours does beside serving, as preparing the next spares, must not be in the way of either side."""
    calm = 0
    while calm < CALM_LOOKS:
        before = cpu_seconds(side.pids)
        time.sleep(LOOK_SECONDS)
        calm = calm + 1 if cpu_seconds(side.pids) - before < CALM_SHARE * LOOK_SECONDS else 0


def _outlive_back_off(side: Ours, failures: int) -> None:
    """Groups that die again and again are started after longer and longer waits; this is not about them."""
    side.made.wait_settled()
    time.sleep(0 if failures < 2 else 2 ** (failures - 1))


async def _killed(side: Ours, rank: int) -> float:
    """Seconds from the signal to the first token after it, in the same stream."""
    pid = next(row["pid"] for row in side.made.ranks() if row["rank"] == rank)
    begun = asyncio.Event()
    streaming = asyncio.create_task(stream(side.url, side.model, COUNT, TOKENS, begun))
    await begun.wait()
    await asyncio.sleep(KILLED_AFTER_SECONDS)
    os.kill(pid, signal.SIGKILL)
    killed = time.monotonic()
    answer = await streaming
    if answer.tokens != TOKENS:
        raise RuntimeError(f"{answer.tokens} tokens came, {TOKENS} were asked for")
    _, resumed = max(pairwise(answer.events), key=lambda pair: pair[1] - pair[0])
    return resumed - killed


def _restarted() -> float:
    """Seconds from the end of all ranks to an answer of the next ones."""
    with running(WEIGHTS, RANKS, python=sys.executable) as group:
        group.ready()
        asyncio.run(_answer(group.socket))
        started = time.monotonic()
        for rank in group.ranks:
            rank.end()
        with running(WEIGHTS, RANKS, python=sys.executable) as again:
            asyncio.run(_answer(again.ready().socket))
            return time.monotonic() - started


async def _answer(socket: str) -> None:
    async with connected(socket) as client:
        await client.ask("one", COUNT, tokens_max=1)
