"""Time to the first token of a short request while others are being answered."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from tests.bench.figures import Figure, paired
from tests.bench.sides import Ours, Peer, both, undisturbed
from tests.bench.streams import COUNT, stream, together

BUSY_STREAMS = 4
BUSY_TOKENS = 390
PAUSES = (0.11, 0.23, 0.17)
"""Seconds before each short request: no multiples of one another, so as to meet a step anywhere."""


def measure(quick: bool) -> Iterator[Figure]:
    """On two ranks."""
    mine, others = [], []
    with both(2) as (our_side, peer):
        for _ in range(1 if quick else 7):
            with undisturbed(peer):
                mine += asyncio.run(first_tokens(our_side))
            others += asyncio.run(first_tokens(peer))
    yield paired(f"first token beside {BUSY_STREAMS} streams", "s", mine, others, "<= 0.3")


async def first_tokens(side: Ours | Peer) -> list[float]:
    """Seconds to the first token of some short requests, one after the other."""
    await together(side.url, side.model, 1, 4)
    begun = [asyncio.Event() for _ in range(BUSY_STREAMS)]
    busy = [asyncio.create_task(stream(side.url, side.model, COUNT, BUSY_TOKENS, event)) for event in begun]
    for event in begun:
        await event.wait()
    short = []
    for pause in PAUSES:
        await asyncio.sleep(pause)
        short.append(await stream(side.url, side.model, COUNT, 1))
    await asyncio.gather(*busy)
    return [one.first for one in short]
