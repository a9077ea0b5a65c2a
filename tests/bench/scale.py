"""The controller's loop over many nodes at work: how much of a core it takes, and for how long it is ever blocked.

Everything is real but the agents and, of a ``Collector`` alone, the probes. Run as a program, it prints one
measurement as JSON: ``busy NODES SECONDS``, ``cold NODES`` or ``cables NODES SECONDS``.
"""

from __future__ import annotations

import asyncio
import gc
import json
import random
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

from reconciler.bootstrap.controller import keep_what_lasts
from reconciler.controller.pace import in_slices
from reconciler.controller.reconcile import reconcile
from reconciler.inventory import Collector
from reconciler.remote.agent_connection import AgentConnection
from reconciler.state import AllocateEpoch, MachineFacts, NodeName, PortFacts
from reconciler.state.slices import whole
from reconciler.wire.launch import Phase
from reconciler.wire.node import Done, ForgetRank, NodeReport, RankReport, StartRank
from tests.bench.controller import AgentDouble, composed, served_text
from tests.e2e.cluster import MODEL, deployment, node
from tests.gateway.rank_double import eventually
from tests.machines import LocalMachines
from tests.worlds import World
from tests.worlds import node as manifest_of_node

NODES_A_GROUP = 4
NODES_A_DEPLOYMENT = 5
"""Of the cold placement: a fifth of the nodes stays free."""
ANSWER_SECONDS = 0.002
PUSH_SECONDS = 0.5
"""Four times as often as agents push steps now: older agents did."""
SETTLE_SECONDS = 3.0
TICK_SECONDS = 0.005
PROBES_SECONDS = 10.0
REPLUGGED = 0.01
"""The part of the machines whose cables have changed since the last round of probes."""


class BusyAgent(AgentDouble):
    """The agent of a node whose rank decodes: it pushes, and each report has new steps and other requests."""

    def __init__(self, report: NodeReport) -> None:
        super().__init__(report)
        self._steps = 0

    async def request(self, message: Any, timeout: float) -> NodeReport:  # noqa: ASYNC109 - as a link has it
        await asyncio.sleep(ANSWER_SECONDS)
        self._steps += 1
        ranks = tuple(
            replace(
                rank, steps=self._steps, demand=1 + self._steps % 4, tokens_per_second=25.0 + self._steps % 3
            )
            for rank in self._report.ranks
        )
        answer = replace(self._report, token=message.token, asked_with=message.token)
        return replace(answer, sequence=self._report.sequence + self._steps, ranks=ranks)

    async def changes(self) -> AsyncIterator[int]:
        await asyncio.sleep(random.random() * PUSH_SECONDS)
        while True:
            yield self._steps
            await asyncio.sleep(PUSH_SECONDS)


class ObedientAgent(AgentDouble):
    """The agent of a node whose ranks are ready as soon as they are started."""

    def __init__(self, report: NodeReport) -> None:
        super().__init__(report)
        self._news = asyncio.Event()

    async def request(self, message: Any, timeout: float) -> Any:  # noqa: ASYNC109 - as a link has it
        await asyncio.sleep(ANSWER_SECONDS)
        if isinstance(message, StartRank | ForgetRank):
            if isinstance(message, StartRank):
                ranks = (*self._report.ranks, _ready(message))
                self._report = replace(self._report, ranks=ranks)
            self._report = replace(self._report, sequence=self._report.sequence + 1)
            self._news.set()
            return Done(self._report.sequence)
        return await super().request(message, timeout)

    async def changes(self) -> AsyncIterator[int]:
        while True:
            await self._news.wait()
            self._news.clear()
            yield self._report.sequence


def _ready(start: StartRank) -> RankReport:
    spec = start.spec
    return RankReport(
        id=spec.id, group=spec.group, socket=spec.config.socket, pid=100, shim_pid=99, phase=Phase.READY, steps=0,
        demand=0, loaded_bytes=0, total_bytes=0, detail="", started_at=time.time(), size=spec.config.size,
        memory_bytes=spec.memory_bytes,
    )  # fmt: skip


@dataclass
class Used:
    """What was used within a block."""

    share: float = 0.0
    """Percent of a core."""
    cpu: float = 0.0
    """Seconds of processor time."""
    blocked: float = 0.0
    """The longest time in milliseconds for which nothing else was done."""


@asynccontextmanager
async def measured() -> AsyncIterator[Used]:
    """Measure a block."""
    used, ticking = Used(), asyncio.create_task(_tick(found := [0.0]))
    await asyncio.sleep(0)
    began, before = time.perf_counter(), time.process_time()
    yield used
    used.cpu = time.process_time() - before
    used.share = 100 * used.cpu / (time.perf_counter() - began)
    await asyncio.sleep(2 * TICK_SECONDS)
    used.blocked = 1000 * found[0]
    ticking.cancel()


async def _tick(worst: list[float]) -> None:
    """Note how late it is woken, as far as this process has used the time: what others take is not the loop's fault."""
    while True:
        asked, before = time.perf_counter(), time.process_time()
        await asyncio.sleep(TICK_SECONDS)
        late, used = time.perf_counter() - asked - TICK_SECONDS, time.process_time() - before
        worst[0] = max(worst[0], min(late, used))


def _text(nodes: int, deployments: int) -> str:
    names = [node(f"node-{number:04}") for number in range(nodes)]
    wanted = [deployment(f"tiny-{number:04}", NODES_A_GROUP) for number in range(deployments)]
    return "---\n".join([*names, MODEL, *wanted])


async def busy(nodes: int, seconds: float, folder: Path) -> dict[str, float]:
    """Every node has a rank that decodes."""
    text = _text(nodes, nodes // NODES_A_GROUP)
    world = served_text(text, NODES_A_GROUP)
    loop, parts = composed(world, folder, text, BusyAgent)
    running = asyncio.create_task(loop.run())
    keeping = asyncio.create_task(keep_what_lasts(parts))
    await eventually(lambda: parts.lease.looked and loop.plan.settled)
    await asyncio.sleep(SETTLE_SECONDS)
    async with measured() as used:
        await asyncio.sleep(seconds)
    loop.end()
    await running
    keeping.cancel()
    await parts.collector.close()
    await parts.executor.close()
    parts.store.close()
    return {"share": used.share, "blocked": used.blocked}


async def cold(nodes: int, folder: Path) -> dict[str, float]:
    """All nodes are there, and nothing runs: the pass that places everything, and all until it serves."""

    async def complete(name: NodeName, socket: str) -> float:
        await asyncio.sleep(ANSWER_SECONDS)
        return ANSWER_SECONDS

    text, count = _text(nodes, nodes // NODES_A_DEPLOYMENT), nodes // NODES_A_DEPLOYMENT
    world = World([manifest_of_node(f"node-{number:04}") for number in range(nodes)])
    world.agents = set(world.desired().nodes)
    loop, parts = composed(world, folder, text, ObedientAgent, request_completion=complete)
    await parts.desired_state.refresh(None)
    keeping = asyncio.create_task(keep_what_lasts(parts))
    whole(reconcile(parts))
    await eventually(lambda: all(seen.probed and seen.report for seen in parts.collector.nodes().values()))
    async with measured() as used:
        plan, _ = await in_slices(reconcile(parts))
    placed = sum(isinstance(step, AllocateEpoch) for step in plan.steps)
    if placed != count:
        raise RuntimeError(f"{placed} of {count} groups were placed: {plan.waiting[:1]} {plan.refused[:1]}")
    async with measured() as until:
        running = asyncio.create_task(loop.run())
        await eventually(lambda: len(_proven(parts.last.memory.groups)) == count)
    loop.end()
    await running
    keeping.cancel()
    await parts.collector.close()
    await parts.executor.close()
    parts.store.close()
    return {
        "cpu": used.cpu, "blocked": used.blocked, "served_cpu": until.cpu, "served_blocked": until.blocked
    }  # fmt: skip


def _proven(groups: Any) -> list[Any]:
    return [group for group in groups.values() if group.proven_at is not None]


async def cables(nodes: int, seconds: float) -> dict[str, float]:
    """Machines in a ring of cables, each of which is probed again and again."""
    names = [NodeName(f"mac-{number:04}") for number in range(nodes)]
    links: dict[AgentConnection, int] = {}
    news = 0

    async def dial(name: NodeName) -> AgentConnection:
        await asyncio.sleep(random.random())
        link = cast(AgentConnection, AgentDouble(_report(name)))
        links[link] = names.index(name)
        return link

    async def probe(link: AgentConnection, report: NodeReport, refresh: bool) -> MachineFacts:
        await asyncio.sleep(random.random())
        number, unplugged = links[link], random.random() < REPLUGGED
        return MachineFacts(ports=tuple(_ports(number, nodes, unplugged)))

    def changed() -> None:
        nonlocal news
        news += 1

    collector = Collector(LocalMachines(dial=dial, probe=probe), time.time, changed)
    collector.probes_seconds = PROBES_SECONDS
    collector.watch(frozenset(names), ())
    await eventually(lambda: all(seen.facts.ports for seen in collector.nodes().values()))
    await asyncio.sleep(SETTLE_SECONDS)
    gc.freeze()  # as the controller does
    async with measured() as used:
        await asyncio.sleep(seconds)
    joined = sum(any(port.peer for port in seen.facts.ports) for seen in collector.nodes().values())
    await collector.close()
    if joined < nodes * (1 - 5 * REPLUGGED) or not news:
        raise RuntimeError(f"only {joined} of {nodes} machines know where their cables lead")
    return {"share": used.share, "blocked": used.blocked}


def _report(name: NodeName) -> NodeReport:
    report = World([manifest_of_node(name)], agents={name}).observed().nodes[name].report
    assert report is not None
    return report


def _ports(number: int, of: int, unplugged: bool) -> Iterator[PortFacts]:
    after, before = (number + 1) % of, (number - 1) % of
    yield PortFacts(
        1, "en2", connected=not unplugged, domain=f"{number}/1", peer_domain="" if unplugged else f"{after}/2"
    )
    yield PortFacts(2, "en3", connected=True, domain=f"{number}/2", peer_domain=f"{before}/1")
    yield PortFacts(3, "en4", connected=False, domain=f"{number}/3")
    yield PortFacts(4, "en5", connected=False, domain=f"{number}/4")


def main(what: str, nodes: int, seconds: float = 0.0) -> dict[str, float]:
    """Measure one thing."""
    if what == "cables":
        return asyncio.run(cables(nodes, seconds))
    with tempfile.TemporaryDirectory() as name:
        return asyncio.run(busy(nodes, seconds, Path(name)) if what == "busy" else cold(nodes, Path(name)))


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1], int(sys.argv[2]), *map(float, sys.argv[3:]))))
