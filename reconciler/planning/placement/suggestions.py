"""Refusals for too little memory: the node, the bytes that it lacks, and the nearest change that would fit.

A guess refuses nothing by itself: if the weights alone would fit, and a node's runtime is yet to report the other needs, the
group waits for the report. If the model's code cannot say them, the deployment can.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime

from reconciler.planning.context.gpu_memory import how_to_raise
from reconciler.planning.context.memory_needs import ModelNeeds, bits, gib, guessed, needs, weights_alone
from reconciler.planning.context.sharding import Split, Unsplit, splits
from reconciler.planning.context.workload import Workload
from reconciler.resources.deployment import RANKS_MAX
from reconciler.state import NodeName, Refusal, RefusedBecause, Waiting, WaitingFor
from reconciler.wire.node import ModelReport
from reconciler.wire.weights import FailedExamination

from .contexts import Contexts
from .search import FreeMemory

CONTEXT_STEP = 1024
"""Contexts are suggested in thousands if they are that large."""
CONTEXT_MIN = 16
BITS = (8, 6, 5, 4, 3)
"""Bits of the quantized weights that are usually available."""
SCALE_BITS = 0.5
"""For a scale and a bias of each group of 64 weights."""


def no_room(
    workload: Workload,
    rooms: FreeMemory,
    weights: ModelReport,
    size: int,
    split: Split,
    failed: Mapping[NodeName, FailedExamination],
) -> Refusal | Waiting:
    """Say what would fit if a group of ``size`` nodes with this split does not: a refusal, or, if only a guess says so, a wait
    for a report. ``failed``: the examinations that failed, and are tried again."""
    text = _lacking(workload, rooms, weights, size, split)
    if not guessed(weights, split.strategy, size):
        return workload.refuse(RefusedBecause.NO_MEMORY, text)
    alone = weights_alone(weights, split.strategy, size)
    if not rooms.roomiest(size).fit(alone):
        text = f"{text}; its weights alone need {gib(max(alone))}"
        return workload.refuse(RefusedBecause.NO_MEMORY, text)
    text = f"{text}; or say what requests may take: serving.kvCache"
    if not failed:
        return workload.refuse(RefusedBecause.NO_MEMORY, text)
    node, first = min(failed.items(), key=lambda entry: entry[1].again)
    at = datetime.fromtimestamp(first.again, UTC).strftime("%H:%M:%S UTC")
    why = f"the examination of its weights on {node} failed: {first.text}; it is tried again at {at}"
    return workload.wait(WaitingFor.EXAMINATION, f"{text}; {why}", first.again)


def _lacking(workload: Workload, rooms: FreeMemory, weights: ModelReport, size: int, split: Split) -> str:
    """Say what a group needs, which node lacks it, and what would fit."""
    model_needs = _needed_at_least(workload, weights)
    each = sorted(needs(model_needs, weights, split.strategy, size), reverse=True)
    shares = _shares(rooms, size)
    short = next((at for at, need in enumerate(each) if need > shares[at][0]), size - 1)
    need, (free, name) = each[short], shares[short]
    where = f"on each of {size} nodes" if each[0] == each[-1] else f"on one of {size} nodes"
    figure = gib(need, guessed(weights, split.strategy, size))
    text = f"needs {figure} {where}, {name} has {gib(max(0, free))} free"
    if size == 1:
        text = f"needs {figure} on a node, {name} has the most free: {gib(max(0, free))}"
    bounded = rooms.bounded(name)
    text += f" ({bounded})" if bounded else ""
    advice = change(workload, rooms, weights, size)
    advice += f"; or {how_to_raise(name)}" if bounded else ""
    return f"{text}; {advice}"


def change(workload: Workload, rooms: FreeMemory, weights: ModelReport, size: int) -> str:
    """Say what would let a group of ``size`` nodes fit."""
    fits = list(_fitting(workload, rooms, weights, size))
    return f"fits: {' or '.join(fits)}" if fits else "add nodes, or take weights with fewer bits"


def _needed_at_least(workload: Workload, weights: ModelReport) -> ModelNeeds:
    least = Contexts.of(workload.deployment, weights).least
    return ModelNeeds.of_deployment(workload.deployment, least)


def _shares(rooms: FreeMemory, size: int) -> list[tuple[int, NodeName]]:
    """Return the roomiest ``size`` nodes, and how much each of their ranks could have, given those on the same host."""
    shares: list[tuple[int, NodeName]] = []
    beside: dict[str, int] = {}
    for name in sorted(rooms.nodes, key=lambda name: -rooms.free[rooms.hosts[name]]):
        host = rooms.hosts[name]
        beside[host] = beside.get(host, 0) + 1
        shares.append((rooms.free[host] // beside[host], name))
    return sorted(shares, key=lambda share: -share[0])[:size]


def _fitting(workload: Workload, rooms: FreeMemory, weights: ModelReport, size: int) -> Iterator[str]:
    """Yield the changes that would each make it fit."""
    bounds = workload.deployment.spec.parallelism.nodes
    model_needs = _needed_at_least(workload, weights)
    sizes = {size, bounds.min}
    rooms = rooms.roomiest(RANKS_MAX)

    def fit(model_needs: ModelNeeds, sizes: Iterable[int] = sizes) -> bool:
        return any(_fits(workload, rooms, weights, model_needs, size) for size in sizes)

    context = _largest_fitting(
        model_needs.context, lambda context: fit(replace(model_needs, context=context))
    )
    if context >= CONTEXT_STEP:
        context -= context % CONTEXT_STEP
    if context >= CONTEXT_MIN:
        yield f"context: {context}"
    batch = _largest_fitting(model_needs.batch, lambda batch: fit(replace(model_needs, batch=batch)))
    if batch:
        yield f"maxBatch: {batch}"
    if model_needs.prefix_cache != 0 and fit(replace(model_needs, prefix_cache=0)):
        yield "prefixCache: 0B"
    most = min(RANKS_MAX, len(rooms.nodes))
    others = [more for more in range(1, most + 1) if not bounds.min <= more <= bounds.max]
    nodes = next(
        (more for more in sorted(others, key=lambda more: abs(more - size)) if fit(model_needs, (more,))), 0
    )
    if nodes:
        yield f"nodes: {nodes}"
    held = bits(weights.config)
    scales = held + (SCALE_BITS if "quantization" in weights.config else 0)
    fewer = (
        b for b in BITS if b < held and fit(replace(model_needs, weights_scale=(b + SCALE_BITS) / scales))
    )
    found = next(fewer, 0)
    if found:
        yield f"weights with {found} bits"


def _fits(
    workload: Workload, rooms: FreeMemory, weights: ModelReport, model_needs: ModelNeeds, size: int
) -> bool:
    possible = splits(workload.deployment.spec.parallelism.strategy, weights, size)
    if isinstance(possible, Unsplit):
        return False
    few = rooms.roomiest(size)
    return any(few.fit(needs(model_needs, weights, split.strategy, size)) for split in possible)


def _largest_fitting(below: int, fits: Callable[[int], bool]) -> int:
    """Return the largest number below that fits; 0 for none. If one fits, all smaller ones do."""
    return bisect_left(range(1, below), True, key=lambda number: not fits(number))
