"""A group that is killed again and again: it is back within the time that it takes to load, each time."""

from __future__ import annotations

import os
import random
import signal
import time
from datetime import datetime

import pytest

from .cluster import Cluster, quickstart

pytestmark = [pytest.mark.e2e, pytest.mark.nightly]

SEED = int(os.environ.get("KILLS_SEED", "7"))
KILLS = int(os.environ.get("KILLS", "6"))
"""Six in ten minutes; ``KILLS=60`` takes a hundred."""
NOISE = 4.0
"""Machines of tests are shared: loading the same weights takes so many times as long at times."""


def serving_epoch(cluster: Cluster) -> int:
    """The epoch of the group that serves; 0 where none does."""
    status = cluster.deployments()["tiny"]
    return max((row["epoch"] for row in cluster.ranks()), default=0) if status["readyReplicas"] else 0


@pytest.mark.timeout(20 * KILLS * 6 + 600)
def test_kills_at_random_cost_no_more_than_so_many_loads() -> None:
    check(KILLS, 100.0 * KILLS)


def check(kills: int, seconds: float) -> None:
    draw = random.Random(SEED)
    times = sorted(draw.uniform(0, seconds) for _ in range(kills))
    with quickstart() as cluster:
        load = max(5.0, first_load(cluster))
        began, away = time.monotonic(), []
        for at in times:
            time.sleep(max(0.0, began + at - time.monotonic()))
            away.append(kill(cluster, draw))
        print(f"load {load:.1f} s, away {[round(each, 1) for each in away]}")
        assert max(away) <= NOISE * load, away
        assert not [event for event in cluster.events() if event["reason"] == "Stalled"]
        cluster.wait_settled()


def kill(cluster: Cluster, draw: random.Random) -> float:
    """Kill one rank; how long it took until the next group served."""
    epoch = serving_epoch(cluster)
    os.kill(draw.choice(cluster.ranks())["pid"], signal.SIGKILL)
    return cluster.wait("the next group", lambda: serving_epoch(cluster) > epoch, 300.0)


def first_load(cluster: Cluster) -> float:
    """How long it took the first group from its epoch to its proof, in seconds."""
    by_reason = {event["reason"]: event["time"] for event in reversed(cluster.events())}
    begun, proven = (datetime.fromisoformat(by_reason[each]) for each in ("EpochAllocated", "GroupProven"))
    return (proven - begun).total_seconds()
