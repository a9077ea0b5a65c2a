"""Too little memory: how much is missing where, and what would fit that is nearest to what was wished."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from reconciler.planning.context.memory_needs import ModelNeeds, bits, gib, needs
from reconciler.planning.context.sharding import Split, Unsplit, splits
from reconciler.planning.context.workload import Workload
from reconciler.resources.deployment import RANKS_MAX
from reconciler.state import NodeName, Refusal, RefusedBecause
from reconciler.wire.node import ModelReport

from .search import FreeMemory

CONTEXT_STEP = 1024
"""Contexts are suggested in whole thousands where they are that large."""
CONTEXT_MIN = 16
BITS = (8, 6, 5, 4, 3)
"""Of the quantized weights that are usually to be had."""
SCALE_BITS = 0.5
"""Of a scale and a bias for each group of 64 weights."""


def no_room(workload: Workload, rooms: FreeMemory, weights: ModelReport, size: int, split: Split) -> Refusal:
    """Refuse a group of ``size`` nodes that could be split this way, and say what would fit."""
    wish = ModelNeeds.of_deployment(workload.deployment)
    each = sorted(needs(wish, weights, split.strategy, size), reverse=True)
    shares = _shares(rooms, size)
    short = next((at for at, need in enumerate(each) if need > shares[at][0]), size - 1)
    need, (free, name) = each[short], shares[short]
    where = f"on each of {size} nodes" if each[0] == each[-1] else f"on one of {size} nodes"
    text = f"needs {gib(need)} {where}, {name} has {gib(max(0, free))} free"
    if size == 1:
        text = f"needs {gib(need)} on a node, {name} has the most free: {gib(max(0, free))}"
    fits = list(_fitting(workload, rooms, weights, size))
    change = f"fits: {' or '.join(fits)}" if fits else "add nodes, or take weights with fewer bits"
    return workload.refuse(RefusedBecause.NO_MEMORY, f"{text}; {change}")


def _shares(rooms: FreeMemory, size: int) -> list[tuple[int, NodeName]]:
    """The roomiest ``size`` nodes, and how much a rank could have on each, with as many on its host as are named."""
    shares: list[tuple[int, NodeName]] = []
    beside: dict[str, int] = {}
    for name in sorted(rooms.nodes, key=lambda name: -rooms.free[rooms.hosts[name]]):
        host = rooms.hosts[name]
        beside[host] = beside.get(host, 0) + 1
        shares.append((rooms.free[host] // beside[host], name))
    return sorted(shares, key=lambda share: -share[0])[:size]


def _fitting(workload: Workload, rooms: FreeMemory, weights: ModelReport, size: int) -> Iterator[str]:
    """What of the wish could be less, each for itself, so that it fits."""
    wish, bounds = ModelNeeds.of_deployment(workload.deployment), workload.deployment.spec.parallelism.nodes
    sizes = {size, bounds.min}
    rooms = rooms.roomiest(RANKS_MAX)

    def fit(wish: ModelNeeds, sizes: Iterable[int] = sizes) -> bool:
        return any(_fits(workload, rooms, weights, wish, size) for size in sizes)

    context = _largest_fitting(wish.context, lambda context: fit(replace(wish, context=context)))
    if context >= CONTEXT_STEP:
        context -= context % CONTEXT_STEP
    if context >= CONTEXT_MIN:
        yield f"context: {context}"
    batch = _largest_fitting(wish.batch, lambda batch: fit(replace(wish, batch=batch)))
    if batch:
        yield f"maxBatch: {batch}"
    most = min(RANKS_MAX, len(rooms.nodes))
    others = [more for more in range(1, most + 1) if not bounds.min <= more <= bounds.max]
    nodes = next(
        (more for more in sorted(others, key=lambda more: abs(more - size)) if fit(wish, (more,))), 0
    )
    if nodes:
        yield f"nodes: {nodes}"
    held = bits(weights.config)
    scales = held + (SCALE_BITS if "quantization" in weights.config else 0)
    fewer = (b for b in BITS if b < held and fit(replace(wish, weights_scale=(b + SCALE_BITS) / scales)))
    found = next(fewer, 0)
    if found:
        yield f"weights with {found} bits"


def _fits(workload: Workload, rooms: FreeMemory, weights: ModelReport, wish: ModelNeeds, size: int) -> bool:
    possible = splits(workload.deployment.spec.parallelism.strategy, weights, size)
    if isinstance(possible, Unsplit):
        return False
    few = rooms.roomiest(size)
    return any(few.fit(needs(wish, weights, split.strategy, size)) for split in possible)


def _largest_fitting(below: int, fits: Callable[[int], bool]) -> int:
    """The largest number below that fits; 0 for none. What fits with more fits with less."""
    low, high = 0, below
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low
