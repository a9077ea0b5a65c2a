"""The controller's loop as ``bootstrap`` builds it, over nodes whose agents are doubles at the edge.

Run as a program with a number of objects and of passes, it prints how long each pass took, as JSON.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from reconciler.bootstrap.controller import compose
from reconciler.controller.clock_gaps import Clocks
from reconciler.controller.loop import Loop
from reconciler.controller.parts import Parts, Surroundings
from reconciler.controller.reconcile import reconcile
from reconciler.controller.routes_file import RoutesFile
from reconciler.planning.context.memory_needs import ModelNeeds, needs
from reconciler.planning.context.tcp_ports import PORT_FIRST
from reconciler.planning.context.workload import hash_of
from reconciler.remote.agent_connection import AgentConnection
from reconciler.resources import Manifest
from reconciler.source.sources import DirectorySource
from reconciler.source.yaml.documents import load
from reconciler.state import (
    Attempt,
    Cause,
    Ends,
    GatewayAnswer,
    GatewayObservation,
    GroupRecord,
    NodeName,
    NodeObservation,
)
from reconciler.state.slices import whole
from reconciler.store import Store
from reconciler.wire.launch import Phase
from reconciler.wire.node import NodeReport, RankReport
from tests.bench.measures.documents import manifests
from tests.gateway.rank_double import eventually
from tests.machines import LocalMachines
from tests.processes import resident_bytes
from tests.worlds import World


def served_text(text: str, size: int = 2) -> World:
    """A cluster in which all that these manifests want runs, every deployment on so many nodes."""
    return served([document.manifest for document in load({"cluster.yaml": text.encode()})], size)


def served(manifests: list[Manifest], size: int = 2) -> World:
    """A cluster in which all of this runs: every deployment on so many nodes, a replica each."""
    world = World(manifests)
    desired = world.desired()
    names = sorted(desired.nodes)
    world.agents = set(names)
    for number, (name, deployment) in enumerate(sorted(desired.deployments.items())):
        members = tuple(sorted(names[(number * size + turn) % len(names)] for turn in range(size)))
        model = desired.models[deployment.spec.model]
        weights = world._node(members[0]).model(model.spec.source.folder)
        assert weights is not None
        record = GroupRecord(
            workload=world.replica(name),
            epoch=1,
            members=members,
            port=PORT_FIRST + number * (size + 1),
            secret="s",
            fingerprint=hash_of(deployment.spec, model),
            created_at=world.now,
            rank_bytes=needs(ModelNeeds.of_deployment(deployment, 4096), weights, "tensor", size)[0],
            proven_at=world.now,
        )
        world.groups[record.replica] = record
        for rank_id, member in zip(record.rank_ids, members, strict=True):
            report = RankReport(
                id=rank_id, group=record.fingerprint, socket=f"/run/{rank_id}.sock", pid=100, shim_pid=99,
                phase=Phase.READY, steps=0, demand=0, loaded_bytes=0, total_bytes=0, detail="",
                started_at=world.now,
            )  # fmt: skip
            world.ranks[rank_id] = (member, report)
    return world


class AgentDouble:
    """A connection to an agent that always reports the same and never has news."""

    ends = Ends()

    def __init__(self, report: NodeReport) -> None:
        self._report = report

    async def request(self, message: Any, timeout: float) -> NodeReport:  # noqa: ASYNC109 - as a link has it
        return replace(self._report, token=message.token, asked_with=message.token)

    async def changes(self) -> AsyncIterator[int]:
        await asyncio.Event().wait()
        yield 0

    async def close(self) -> None:
        return


def composed(
    world: World,
    folder: Path,
    text: str,
    connect: Callable[[NodeReport], AgentDouble] = AgentDouble,
    **machines: Any,
) -> tuple[Loop, Parts]:
    """A controller with everything real but the agents, and the ``machines`` as ``LocalMachines`` takes them."""
    (folder / "manifests").mkdir()
    (folder / "manifests" / "cluster.yaml").write_text(text)
    nodes: dict[NodeName, NodeObservation] = dict(world.observed().nodes)
    store = Store(folder / "store.db")
    for record in world.groups.values():
        why = Attempt(record.epoch, world.now, Cause.NEW_REPLICA.value, None, "it has no group yet", "")
        store.allocate(record, why)
        store.prove(record.replica, record.epoch, world.now)
    for name in nodes:
        store.keep_agent(name)

    async def dial(name: NodeName) -> AgentConnection:
        report = nodes[name].report
        assert report is not None
        return cast(AgentConnection, connect(report))

    around = Surroundings(
        source=DirectorySource(folder / "manifests"),
        routes=RoutesFile(folder / "routes.json"),
        machines=LocalMachines(dial=dial, **machines),
        gateway=lambda: GatewayObservation(1, "http://127.0.0.1:8400/v1", door=GatewayAnswer(True)),
        entropy=lambda: "entropy",
        clocks=Clocks(time.time, time.monotonic, time.monotonic),
    )
    return compose(around, store)


async def passes(objects: int, times: int, folder: Path) -> dict[str, list[float]]:
    """Seconds, seconds of processor time, and MiB of memory after each pass that found nothing to do."""
    text = manifests(objects)
    _, parts = composed(served_text(text), folder, text)
    await parts.desired_state.refresh(None)
    await eventually(lambda: whole(reconcile(parts)).settled)
    found: dict[str, list[float]] = {"seconds": [], "cpu": [], "mib": []}
    for _ in range(times):
        started, used = time.perf_counter(), time.process_time()
        plan = whole(reconcile(parts))
        found["seconds"].append(time.perf_counter() - started)
        found["cpu"].append(time.process_time() - used)
        found["mib"].append(resident_bytes(os.getpid()) / 2**20)
        if not plan.settled:
            raise RuntimeError(f"a pass over what is served already decided {plan}")
        await asyncio.sleep(0)
    await parts.collector.close()
    await parts.executor.close()
    parts.store.close()
    return found


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        print(json.dumps(asyncio.run(passes(int(sys.argv[1]), int(sys.argv[2]), Path(name)))))
