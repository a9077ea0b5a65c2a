"""What a running answer notices of a long prompt that is read beside it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from itertools import pairwise

from tests.bench.figures import Figure, paired
from tests.bench.sides import Ours, Peer, both, undisturbed
from tests.bench.streams import COUNT, Stream, long_text, stream

PROMPT_TOKENS = 8192
CONTEXT = 9216
RUNNING_TOKENS = 390


def measure(quick: bool) -> Iterator[Figure]:
    """On two ranks: the longest gap between two tokens of the running answer, and the first token of the other."""
    tokens, times = (512, 1) if quick else (PROMPT_TOKENS, 5)
    gaps: tuple[list[float], list[float]] = [], []
    firsts: tuple[list[float], list[float]] = [], []
    with both(2, CONTEXT, 4) as (our_side, peer):
        for number in range(times):
            prompt = (
                f"Prompt {number}. {long_text(tokens)}"  # another one each time, so that nobody has read it
            )
            with undisturbed(peer):
                mine = asyncio.run(beside(our_side, prompt))
            for (running, long), place in ((mine, 0), (asyncio.run(beside(peer, prompt)), 1)):
                gaps[place].append(longest_gap(running, long))
                firsts[place].append(long.first)
    yield paired(f"prompt of {tokens}: longest gap beside", "s", *gaps, "<= 0.25 s")
    yield paired("the same: its own first token", "s", *firsts)


async def beside(side: Ours | Peer, prompt: str) -> tuple[Stream, Stream]:
    """A running answer, and the one to a long prompt that came meanwhile."""
    begun = asyncio.Event()
    running = asyncio.create_task(stream(side.url, side.model, COUNT, RUNNING_TOKENS, begun))
    await begun.wait()
    long = await stream(side.url, side.model, prompt, 1)
    return await running, long


def longest_gap(running: Stream, long: Stream) -> float:
    """Seconds between two tokens of ``running``, of which the later one came after ``long`` was sent."""
    return max(later - earlier for earlier, later in pairwise(running.events) if later > long.sent)
