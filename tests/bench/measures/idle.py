"""What a cluster at rest uses."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator

from tests.bench.figures import Figure, paired
from tests.bench.sides import both
from tests.bench.streams import together
from tests.processes import cpu_seconds

WINDOWS = 4


def measure(quick: bool) -> Iterator[Figure]:
    """Both sides on two ranks, in the same seconds: at rest neither is in the other's way."""
    seconds = 1.0 if quick else 5.0
    mine: list[float] = []
    others: list[float] = []
    with both(2) as (our_side, peer):
        for side in (our_side, peer):
            asyncio.run(together(side.url, side.model, 1, 4))
        time.sleep(2)
        sides = (our_side.pids, mine), (peer.pids, others)
        for _ in range(WINDOWS):
            before, started = [cpu_seconds(pids) for pids, _ in sides], time.monotonic()
            time.sleep(seconds)
            passed = time.monotonic() - started
            for (pids, shares), used in zip(sides, before, strict=True):
                shares.append(100 * (cpu_seconds(pids) - used) / passed)
    yield paired("at rest, 2 ranks: CPU", "% core", mine, others, "< 2 %")
