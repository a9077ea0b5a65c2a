"""A controller keeps the gateways of nodes by its passes: one gets routes and starts, gets new ones, and ends."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from reconciler.bootstrap.controller import compose
from reconciler.controller.clock_gaps import Clocks, loop_time
from reconciler.controller.parts import Surroundings
from reconciler.controller.routes_file import RoutesFile
from reconciler.errors import Unreachable
from reconciler.execution.gateways import Gateways
from reconciler.remote.agent_connection import AgentConnection
from reconciler.source.sources import DirectorySource
from reconciler.state import GatewayObservation, NodeName
from reconciler.store import EventFilter, Store
from tests.execution.test_gateways import Double
from tests.gateway.rank_double import eventually
from tests.machines import LocalMachines
from tests.status.test_gateway import SSH

MANIFESTS = f"""
apiVersion: reconciler/v1alpha1
kind: Node
metadata: {{name: b}}
spec: {{ssh: {{host: b, user: me, hostKey: "{SSH["hostKey"]}"}}, python: /usr/bin/python3}}
---
apiVersion: reconciler/v1alpha1
kind: Gateway
metadata: {{name: main}}
spec: {{listen: "0.0.0.0:8400", auth: {{mode: keys}}, hold: 60s, nodes: [b]}}
"""


class Controlled:
    """A controller of one node over SSH that has no agent, and a double of its gateway."""

    def __init__(self, folder: Path) -> None:
        self.manifests = folder / "cluster" / "manifests.yaml"
        self.manifests.parent.mkdir()
        self.manifests.write_text(MANIFESTS)
        self.remembered = folder / "fronts.json"
        self.store = Store(folder / "store.db")
        self.gateway = Double()
        self.loop, self.parts = compose(
            Surroundings(
                source=DirectorySource(self.manifests.parent),
                routes=RoutesFile(folder / "routes.json"),
                machines=LocalMachines(dial=self._dial),
                gateway=lambda: GatewayObservation(1, "http://127.0.0.1:8400/v1"),
                entropy=lambda: "entropy",
                clocks=Clocks(time.time, loop_time, loop_time),
                gateways=Gateways(lambda name: self.gateway, self.remembered, folder / "gateway"),
            ),
            self.store,
        )
        self.running = asyncio.create_task(self.loop.run())

    def write(self, old: str, new: str) -> None:
        """Change the manifests."""
        self.manifests.write_text(self.manifests.read_text().replace(old, new))
        self.loop.look_at_source()

    def reasons(self) -> list[str]:
        """Of the events about gateways, the newest last."""
        found = (event.reason for _, event in self.store.events(EventFilter(kind="Gateway")))
        return [reason for reason in found if reason.startswith("Gateway")]

    async def close(self) -> None:
        self.loop.end()
        await self.running
        await self.parts.gateways.close()
        await self.parts.executor.close()
        await self.parts.collector.close()
        self.store.close()

    async def _dial(self, name: NodeName) -> AgentConnection:
        raise Unreachable("no agent")


@pytest.fixture
async def controlled(tmp_path: Path) -> AsyncIterator[Controlled]:
    made = Controlled(tmp_path)
    yield made
    await made.close()


async def test_it_starts_gets_new_routes_at_once_and_ends(controlled: Controlled) -> None:
    gateway = controlled.gateway
    await eventually(lambda: gateway.did == ["send", "start"])
    assert controlled.remembered.read_text() == '["b"]'
    controlled.write("hold: 60s", "hold: 61s")
    await eventually(lambda: gateway.did == ["send", "start", "send"])
    written_at = controlled.parts.around.routes.path.stat().st_mtime
    assert gateway.sent_at - written_at < 1.0
    controlled.write("nodes: [b]", "nodes: []")
    await eventually(lambda: controlled.remembered.read_text() == "[]")
    assert gateway.did[3:] == ["remove", "TERM", "CONT"]
    await eventually(lambda: controlled.parts.gateways.seen == {})
    await eventually(lambda: controlled.reasons() == ["GatewayStarted", "GatewayStopped"])


async def test_a_gateway_that_dies_is_seen_in_the_plan_and_started_again(
    controlled: Controlled, monkeypatch: pytest.MonkeyPatch
) -> None:
    gateway = controlled.gateway
    await eventually(lambda: gateway.did == ["send", "start"])
    await controlled.parts.gateways.look(NodeName("b"))
    gateway.starts = False
    await gateway.signal("KILL")
    await controlled.parts.gateways.look(NodeName("b"))
    await eventually(lambda: gateway.did[-1] == "start")
    assert "gateway-on/b" in controlled.parts.executor.in_flight
    decided = await controlled.loop.preview()
    assert [each.text for each in decided.waiting if "gateway" in each.text] == [
        "the gateway on b: something is being done about it"
    ]
    gateway.starts = True
    await gateway.start()
    await eventually(lambda: controlled.parts.gateways.seen[NodeName("b")].serves)
