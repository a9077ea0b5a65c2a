"""How long commands take that people wait for, as processes of their own, asked of a running controller."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator

from tests.bench.figures import Figure, alone
from tests.cli.live import Live, live

COMMANDS = (
    "help",
    "get all",
    "get ranks",
    "describe deployment tiny",
    "plan",
    "events",
    "rollout history deployment/tiny",
    "trace deployment/tiny",
)
TIMES = 15


def measure(quick: bool) -> Iterator[Figure]:
    """The median of several runs each; the controller has one node and no ranks."""
    with live() as cluster:
        cluster.run("wait", "deployment/tiny", "--for=condition=Stalled", "--timeout=60s")
        for command in COMMANDS:
            taken = [_seconds(cluster, command) for _ in range(2 if quick else TIMES)]
            yield alone(command, "ms", [1000 * each for each in taken[1:]], "< 250")


def _seconds(cluster: Live, command: str) -> float:
    line, started = cluster.command(*command.split()), time.monotonic()
    subprocess.run(line, stdout=subprocess.DEVNULL, check=True)
    return time.monotonic() - started
