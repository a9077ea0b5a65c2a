"""Repairing a machine as the controller does it: asked over one connection, and confirmed over the next."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from reconciler.agent.system.machine import boot_id
from reconciler.errors import Refused, Unreachable
from reconciler.execution import Tools
from reconciler.execution.handlers import carry_out
from reconciler.remote.agent_connection import AgentConnection
from reconciler.state import ConfirmRepair, NodeName, RepairNode, Write
from reconciler.store import Store
from reconciler.wire.repair import Change, RepairState
from tests.agent.bench import Bench, observe
from tests.agent.settable import FORBIDDEN, Place
from tests.machines import LocalMachines

pytestmark = pytest.mark.processes

NODE = NodeName("bench")
OUT = Change(("ifconfig", "bridge0", "deletem", "en3"), ("ifconfig", "bridge0", "addm", "en3"))


class Links:
    """Connections to the agent of a bench, as the collector has them."""

    def __init__(self, bench: Bench) -> None:
        self._bench = bench

    def link(self, name: NodeName) -> tuple[AgentConnection, int]:
        return self._bench.links[-1], len(self._bench.links)

    def look(self, name: NodeName) -> None:
        """The tests look."""

    async def renew(self, name: NodeName) -> None:
        await self._bench.links[-1].close()

    def token(self, name: NodeName) -> int:
        raise Unreachable(name)

    async def reach(self, name: NodeName, starts: bool = True) -> None:
        if self._bench.links[-1].closed.is_set():
            await self._bench.controller()

    async def lose(self, name: NodeName) -> None:
        raise Unreachable(name)


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    made = Bench.make()
    yield made
    await made.close()


@pytest.fixture
async def tools(bench: Bench, tmp_path: Path) -> AsyncIterator[Tools]:
    store = Store(tmp_path / "store.db")
    yield Tools(store, Links(bench), LocalMachines(), time.time)
    store.close()


def step() -> RepairNode:
    return RepairNode(NODE, "r1", boot_id(), (OUT,), "en3 is a member of bridge0")


async def test_after_it_only_what_is_seen_over_a_new_connection_is_believed(
    bench: Bench, tools: Tools
) -> None:
    place = Place(bench)
    first = await place.agent()
    await carry_out(step(), tools)
    assert place.settings == ([], {})
    assert tools.volatile.writes[NODE] == Write(2, 0)
    assert first.closed.is_set()

    link, number = tools.links.link(NODE)
    assert number == 2
    await carry_out(ConfirmRepair(NODE, "r1"), tools)
    report = (await observe(link)).repair
    assert report is not None
    assert report.state == RepairState.CONFIRMED
    assert NODE in tools.volatile.repaired


async def test_what_is_asked_over_a_connection_from_before_it_has_another_made(
    bench: Bench, tools: Tools
) -> None:
    place = Place(bench)
    await place.agent()
    between = await bench.controller()
    await carry_out(step(), tools)  # over that, which is closed with it
    assert between.closed.is_set()
    bench.links.append(bench.links[0])  # still open, and older than the repair
    with pytest.raises(Refused, match="made after the repair"):
        await carry_out(ConfirmRepair(NODE, "r1"), tools)
    assert bench.links[0].closed.is_set()
    await carry_out(ConfirmRepair(NODE, "r1"), tools)


async def test_a_machine_that_does_not_allow_it_is_also_reached_over_a_new_connection(
    bench: Bench, tools: Tools
) -> None:
    place = Place(bench)
    place.script("sudo", FORBIDDEN)
    first = await place.agent()
    with pytest.raises(Refused, match="a password is required"):
        await carry_out(step(), tools)
    assert first.closed.is_set()
    assert place.settings == (["en3"], {})
