"""One run, from the first command to the last sample."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.e2e.cluster import MODEL, ROOT, Cluster, cluster, node

from .agents import Agents
from .conversations import CONTEXT
from .samples import Sample, Sampler
from .verdict import Run, bound_mib, busy, line

NAME = "tiny"
PREFIX_CACHE = "24MiB"
"""Room for 12,288 tokens on each of two ranks: six of the conversations."""
DEPLOYMENT = f"""apiVersion: reconciler/v1alpha1
kind: ModelDeployment
metadata:
  name: {NAME}
spec:
  model: tiny
  parallelism: {{strategy: tensor, nodes: 2}}
  serving: {{context: {CONTEXT}, maxBatch: 16, prefixCache: {PREFIX_CACHE}}}
"""
MALLOC = "MALLOC_MMAP_THRESHOLD_=131072"
"""By itself glibc does not give back what large arrays took (mallopt(3), M_MMAP_THRESHOLD): without this the memory of a
rank says how its arrays happened to lie, twice as much as it uses, and a leak would not be seen among that."""
SAMPLE_SECONDS = 10.0
LINE_SECONDS = 60.0
LAST = "Hello"
"""A group that nobody asks holds the caches of what ended last until the next request: let that be a short one."""


@dataclass(slots=True)
class Soak:
    """``run`` it once. ``progress`` is given a line each minute."""

    minutes: float
    seed: int
    busy: float
    """The part of the machine that the cluster is to use."""
    progress: Callable[[str], None]
    samples: list[Sample] = field(default_factory=list)

    def run(self, folder: Path) -> Run:
        """Raises ``AssertionError`` where the cluster does not come up."""
        with two_ranks(folder) as made:
            sampler = Sampler(made)
            before, charged = made.last_event(), _charged(made)
            agents = Agents(made.endpoint(), NAME, self.seed)
            self.samples.append(sampler.sample(time.monotonic()))
            agents.start()
            try:
                self._watch(sampler, agents)
            finally:
                agents.end()
            agents.ask(LAST)
            self.samples.append(sampler.sample(time.monotonic()))
            return Run(
                self.minutes,
                self.samples,
                agents.counts,
                bound_mib(self.samples[-1]),
                charged,
                _restarted(made, sampler, before),
                _cores(),
            )

    def _watch(self, sampler: Sampler, agents: Agents) -> None:
        begun = told = self.samples[0]
        while (now := time.monotonic()) < begun.at + 60 * self.minutes:
            assert agents.alive, "the agents have ended"
            time.sleep(min(SAMPLE_SECONDS, begun.at + 60 * self.minutes - now))
            self.samples.append(sampler.sample(time.monotonic()))
            if self.samples[-1].at >= told.at + LINE_SECONDS:
                self.progress(line(begun, told, self.samples[-1], agents.counts, _cores()))
                agents.pace(busy(told, self.samples[-1], _cores()), self.busy)
                told = self.samples[-1]


@contextmanager
def two_ranks(folder: Path) -> Iterator[Cluster]:
    """`reconciler up` with one replica on two nodes of this machine, settled."""
    python = folder / "python"
    python.write_text(f'#!/bin/sh\n{MALLOC} exec "{sys.executable}" "$@"\n')
    python.chmod(0o755)
    nodes = [node(f"node-{letter}") + f"  python: {python}\n" for letter in "ab"]
    gateway = (ROOT / "manifests" / "gateway.yaml").read_text()
    (folder / "cluster.yaml").write_text("---\n".join([*nodes, MODEL, DEPLOYMENT, gateway]))
    with cluster() as made:
        models = ROOT / "examples" / "models"
        made.start("-f", str(folder), "--models", str(models), "--any-port")
        made.wait_settled()
        yield made


def _charged(made: Cluster) -> dict[str, float]:
    """MiB that placement charges for each rank."""
    items = made.json("top", "ranks")["items"]
    return {f"rank {item['name'].rpartition('.')[2]}": item["chargedBytes"] / 2**20 for item in items}


def _restarted(made: Cluster, sampler: Sampler, before: int) -> list[str]:
    """What happened to ranks since an event, a sentence each."""
    found = [
        f"{event['object']}: {event['reason']}: {event['message']}"
        for event in made.events()
        if event["id"] > before and event["reason"] in ("RankExited", "EpochAllocated", "RankStarted")
    ]
    pids = {f"rank {row['rank']}": row["pid"] for row in made.ranks()}
    gone = [name for name, pid in pids.items() if sampler.pids.get(name) != pid]
    return found + [f"{name} is another process than at the start" for name in gone]


def _cores() -> int:
    return len(os.sched_getaffinity(0))
