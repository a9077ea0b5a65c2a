"""When the loop looks again: soon after every trigger, and when something that it waits for is due."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

from reconciler.bootstrap import Surroundings, compose
from reconciler.controller.routes_file import RoutesFile
from reconciler.errors import Unreachable
from reconciler.source.sources import DirectorySource
from reconciler.state import MachineFacts, NodeName
from reconciler.store import Store
from reconciler.transport.link import AgentLink
from reconciler.wire.node import NodeReport

NODE = """
apiVersion: reconciler/v1alpha1
kind: Node
metadata: {name: studio-1}
spec: {local: {}}
"""
WAIT_SECONDS = 60.0


async def test_what_is_to_be_tried_again_is_tried_when_it_is_due_and_not_at_the_next_resync(
    tmp_path: Path,
) -> None:
    (tmp_path / "cluster").mkdir()
    (tmp_path / "cluster" / "node.yaml").write_text(NODE)
    attempts: asyncio.Queue[NodeName] = asyncio.Queue()

    async def dial(name: NodeName) -> AgentLink:
        raise Unreachable("nobody there")

    async def start_agent(name: NodeName, token: int) -> None:
        attempts.put_nowait(name)
        raise Unreachable("it cannot be started")

    async def probe(link: AgentLink, report: NodeReport) -> MachineFacts:
        return MachineFacts()

    async def ask(socket: str) -> float:
        raise Unreachable("nobody there")

    store = Store(tmp_path / "store.db")
    loop, parts = compose(
        Surroundings(
            source=DirectorySource(tmp_path / "cluster"),
            routes=RoutesFile(tmp_path / "routes.json"),
            dial=dial,
            probe=probe,
            start_agent=start_agent,
            ask=ask,
            gateway=lambda: None,
            clock=time.time,
            entropy=lambda: "entropy",
        ),
        store,
    )
    loop.resync_seconds = 10 * WAIT_SECONDS
    running = asyncio.create_task(loop.run())
    async with asyncio.timeout(WAIT_SECONDS):
        assert [await attempts.get() for _ in range(3)] == ["studio-1"] * 3
        loop.end()
        await running
    await parts.executor.close()
    await parts.collector.close()
    store.close()
