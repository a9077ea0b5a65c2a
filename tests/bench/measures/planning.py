"""``plan()`` over more and more nodes of which nothing is wanted that is not there: a fifth as many deployments."""

from __future__ import annotations

import gc
import math
import statistics
import time
from collections.abc import Iterator

from reconciler.planning import plan
from tests.bench.controller import served
from tests.bench.figures import Figure, alone
from tests.worlds import World, deployment, model, node

COUNTS = (100, 1000, 10_000)
NODES_A_GROUP = 4
NODES_A_DEPLOYMENT = 5
TARGET_COUNT = 1000


def world(nodes: int) -> World:
    """So many nodes, four fifths of them in a group."""
    names = [f"node-{number:05}" for number in range(nodes)]
    wanted = [
        deployment(f"tiny-{number:05}", nodes=NODES_A_GROUP) for number in range(nodes // NODES_A_DEPLOYMENT)
    ]
    return served([*(node(name) for name in names), model(), *wanted], NODES_A_GROUP)


def seconds(nodes: int, times: int) -> list[float]:
    """Seconds of processor time of each of so many passes, each over fresh snapshots as a controller has them."""
    found = []
    cluster = world(nodes)
    for _ in range(times):
        desired, observed, memory = cluster.desired(), cluster.observed(), cluster.memory()
        gc.collect()
        started = time.process_time()
        decided = plan(desired, observed, memory, cluster.now, "entropy")
        found.append(time.process_time() - started)
        if decided.steps or decided.waiting or decided.refused:
            raise RuntimeError(f"there is something to do: {decided.steps[:1]} {decided.waiting[:1]}")
    return found


def measure(quick: bool) -> Iterator[Figure]:
    """And how much faster than n log n it grows from the smallest to the largest: at most 1."""
    counts = COUNTS[:2] if quick else COUNTS
    medians = {}
    for count in counts:
        times = seconds(count, 3 if quick else 5)
        medians[count] = statistics.median(times)
        target = "< 1 s" if count == TARGET_COUNT else ""
        yield alone(f"plan, nothing to do, {count:,} nodes: CPU", "s", times, target)
    first, last = counts[0], counts[-1]
    bound = last * math.log(last) / (first * math.log(first))
    growth = medians[last] / medians[first] / bound
    yield alone(f"plan, growth from {first:,} to {last:,} nodes / n log n", "", [growth], "<= 1")
