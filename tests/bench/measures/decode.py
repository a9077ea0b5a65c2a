"""Tokens per second of streams through each side's endpoint: gateway and all, not the bare model."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, field

from tests.bench.figures import Figure, paired
from tests.bench.sides import Ours, Peer, both, undisturbed
from tests.bench.streams import Decoded, together
from tests.processes import cpu_seconds

TOKENS = {1: 256, 8: 256, 32: 128}
"""A stream, by their number."""
RANKS = (2, 1)
AIMS = {
    (1, 1): ">= 1.0",
    (1, 8): ">= 1.2",
    (1, 32): ">= 1.2",
    (2, 1): ">= 1.0",
    (2, 8): ">= 1.1",
    (2, 32): ">= 1.1",
}
"""By ranks and streams."""


@dataclass
class Samples:
    """What one side did in each repetition."""

    speed: list[float] = field(default_factory=list)
    """Tokens per second."""
    cost: list[float] = field(default_factory=list)
    """Milliseconds of processor time a token, of all processes of the side."""

    def run(self, side: Ours | Peer, streams: int, tokens: int) -> None:
        pids = side.pids
        asyncio.run(together(side.url, side.model, 1, 4))  # wakes what has been held still
        before = cpu_seconds(pids)
        done: Decoded = asyncio.run(together(side.url, side.model, streams, tokens))
        if done.tokens != streams * tokens:
            raise RuntimeError(f"{done.tokens} tokens came, {streams * tokens} were asked for")
        self.speed.append(done.tokens_per_second)
        self.cost.append(1000 * (cpu_seconds(pids) - before) / done.tokens)


def measure(quick: bool) -> Iterator[Figure]:
    """Both sides on two ranks and on one."""
    for ranks in RANKS[:1] if quick else RANKS:
        with both(ranks) as (mine, other):
            for streams in TOKENS:
                yield from _of(mine, other, ranks, streams, quick)


def _of(mine: Ours, other: Peer, ranks: int, streams: int, quick: bool) -> Iterator[Figure]:
    times, tokens = (2, 64 if streams == 1 else 16) if quick else (7, TOKENS[streams])
    samples = Samples(), Samples()
    for _ in range(times):
        with undisturbed(other):
            samples[0].run(mine, streams, tokens)
        samples[1].run(other, streams, tokens)
    words = f"{'1 stream' if streams == 1 else f'{streams} streams'}, {ranks} rank{'s'[: ranks - 1]}"
    yield paired(f"decode, {words}", "tokens/s", samples[0].speed, samples[1].speed, AIMS[ranks, streams])
    yield paired(f"decode, {words}: CPU", "ms/token", samples[0].cost, samples[1].cost, "<= 1")
