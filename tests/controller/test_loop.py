"""When the loop looks again: soon after every trigger, and when something that it waits for is due."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from reconciler.bootstrap.controller import compose
from reconciler.controller.clock_gaps import Clocks, loop_time
from reconciler.controller.parts import Surroundings
from reconciler.controller.routes_file import RoutesFile
from reconciler.errors import Deposed, Unreachable
from reconciler.remote.agent_connection import AgentConnection
from reconciler.source.sources import DirectorySource
from reconciler.state import DeploymentName, ForgetRank, NodeName, Outcome, ReplicaId
from reconciler.store import Store
from reconciler.wire.file_identity import FileIdentity
from reconciler.wire.launch import RankId
from tests.machines import LocalMachines

NODE = """
apiVersion: reconciler/v1alpha1
kind: Node
metadata: {name: studio-1}
spec: {local: {}}
"""
WAIT_SECONDS = 20.0


class Controlled:
    """A controller's loop over one node, whose agent can neither be reached nor started."""

    def __init__(self, folder: Path) -> None:
        (folder / "cluster").mkdir()
        (folder / "cluster" / "node.yaml").write_text(NODE)
        self.attempts: asyncio.Queue[NodeName] = asyncio.Queue()
        self.store = Store(folder / "store.db")
        self.loop, self.parts = compose(
            Surroundings(
                source=DirectorySource(folder / "cluster"),
                routes=RoutesFile(folder / "routes.json"),
                machines=LocalMachines(dial=self._dial, start_agent=self._start_agent),
                gateway=lambda: None,
                entropy=lambda: "entropy",
                clocks=Clocks(time.time, loop_time, loop_time),
            ),
            self.store,
        )
        self.loop.resync_seconds = 10 * WAIT_SECONDS

    async def close(self) -> None:
        await self.parts.executor.close()
        await self.parts.collector.close()
        self.store.close()

    async def _dial(self, name: NodeName) -> AgentConnection:
        raise Unreachable("nobody there")

    async def _start_agent(self, name: NodeName, token: int) -> None:
        self.attempts.put_nowait(name)
        raise Unreachable("it cannot be started")


@pytest.fixture
async def controlled(tmp_path: Path) -> AsyncIterator[Controlled]:
    made = Controlled(tmp_path)
    yield made
    await made.close()


async def test_what_is_to_be_tried_again_is_tried_when_it_is_due_and_not_at_the_next_resync(
    controlled: Controlled,
) -> None:
    running = asyncio.create_task(controlled.loop.run())
    async with asyncio.timeout(WAIT_SECONDS):
        assert [await controlled.attempts.get() for _ in range(3)] == ["studio-1"] * 3
        controlled.loop.end()
        await running


async def test_a_controller_whose_lock_was_taken_away_begins_no_other_pass(
    controlled: Controlled, tmp_path: Path
) -> None:
    lock = tmp_path / "controller.lock"
    lock.touch()
    controlled.parts.lease.identity = (FileIdentity.at(str(lock)),)
    lock.unlink()
    with pytest.raises(Deposed, match=r"controller\.lock was removed"):
        async with asyncio.timeout(WAIT_SECONDS):
            await controlled.loop.run()
    assert controlled.attempts.empty()


async def test_a_controller_that_finds_at_its_source_that_another_has_taken_over_ends(
    controlled: Controlled, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its next read would begin at once, and keep out what ends it."""
    reads = 0

    async def refresh(hook_at: float | None) -> None:
        nonlocal reads
        reads += 1
        if reads > 1000:
            controlled.loop._deposed = None  # for this process to end
            raise asyncio.CancelledError
        raise Deposed("another controller has taken over")

    monkeypatch.setattr(controlled.parts.desired_state, "refresh", refresh)
    controlled.loop.look_at_source()
    with pytest.raises(Deposed, match="another controller has taken over"):
        async with asyncio.timeout(WAIT_SECONDS):
            await controlled.loop.run()
    assert reads == 1


async def test_the_end_of_a_step_whose_effect_is_being_looked_at_waits_for_that_look(
    controlled: Controlled, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pass before the report could only wait for it; a step that failed is news at once."""
    name, looked = NodeName("studio-1"), {NodeName("studio-1")}
    monkeypatch.setattr(controlled.parts.collector, "looking", lambda node: node in looked)
    triggers: list[None] = []
    monkeypatch.setattr(controlled.loop, "trigger", lambda: triggers.append(None))
    done = Outcome(ForgetRank(ReplicaId(DeploymentName("tiny"), 0), name, RankId("tiny", 0, 1, 0)), 0.1)
    controlled.loop.finished(done)
    assert triggers == []
    controlled.loop.finished(replace(done, problem="no answer"))
    assert len(triggers) == 1
    looked.clear()
    controlled.loop.finished(done)
    assert len(triggers) == 2
