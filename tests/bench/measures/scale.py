"""A loop that keeps up: with many busy nodes, after a power cut, with many cables, and at rest."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator

from tests.bench.figures import Figure, alone
from tests.bench.sides import ours
from tests.processes import cpu_seconds

SHARES = {16: "<= 3 %", 64: "<= 6 %", 256: "<= 12 %", 1000: "<= 30 %"}
"""How much of a core the loop may take, by the number of busy nodes."""
BLOCKED = "<= 100 ms"
NODES = 1000
WINDOWS = 3
LIMIT_SECONDS = 300.0


def measure(quick: bool) -> Iterator[Figure]:
    """Each in a process of its own, as the controller is."""
    seconds = 2.0 if quick else 21.0  # with two regular passes in it
    for nodes, aim in SHARES.items():
        if quick and nodes > min(SHARES):
            break
        found = _run("busy", nodes, seconds)
        yield alone(f"{nodes:,} busy nodes: CPU", "% core", [found["share"]], aim)
        yield alone(f"{nodes:,} busy nodes: loop blocked", "ms", [found["blocked"]], BLOCKED)
    nodes = 50 if quick else NODES
    found = _run("cold", nodes)
    words = f"cold, {nodes:,} nodes"
    yield alone(f"{words}: pass, CPU", "s", [found["cpu"]], "<= 0.5 s")
    yield alone(f"{words}: pass, blocked", "ms", [found["blocked"]], BLOCKED)
    yield alone(f"{words}: served, CPU", "s", [found["served_cpu"]])
    yield alone(f"{words}: served, blocked", "ms", [found["served_blocked"]], BLOCKED)
    found = _run("cables", nodes, seconds)
    yield alone(f"cables of {nodes:,} Macs: CPU", "% core", [found["share"]], "< 10 %")
    yield from _at_rest(2.0 if quick else 10.0)


def _at_rest(seconds: float) -> Iterator[Figure]:
    """Our cluster of two ranks, as the quickstart starts it."""
    shares = []
    with ours(2) as side:
        time.sleep(seconds)
        for _ in range(WINDOWS):
            pids, began = side.pids, time.monotonic()
            before = cpu_seconds(pids)
            time.sleep(seconds)
            shares.append(100 * (cpu_seconds(pids) - before) / (time.monotonic() - began))
    yield alone("quickstart at rest: CPU", "% core", shares, "<= 0.6 %")


def _run(what: str, nodes: int, *seconds: float) -> dict[str, float]:
    command = [sys.executable, "-m", "tests.bench.scale", what, str(nodes), *map(str, seconds)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, timeout=LIMIT_SECONDS)
    found: dict[str, float] = json.loads(done.stdout)
    return found
