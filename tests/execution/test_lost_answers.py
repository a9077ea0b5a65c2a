"""Requests whose answers are lost: they may be carried out yet, and nothing older is believed from there on."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from reconciler.errors import Deposed, Refused, Unreachable
from reconciler.execution import Tools
from reconciler.execution.handlers import carry_out, requests
from reconciler.remote.agent_connection import AgentConnection
from reconciler.resources import LOCAL
from reconciler.state import ContinueRank, DeploymentName, NodeName, ReplicaId, StartAgent, StopRank, Write
from reconciler.store import Store
from reconciler.wire import SPOKEN, frames
from reconciler.wire.codec import Hello, to_wire
from tests.agent.bench import RANK
from tests.machines import LocalMachines

NODE = NodeName("bench")
REPLICA = ReplicaId(DeploymentName("llama"), 0)
LINK = 3


class MuteAgent:
    """An agent that greets, hears every request and answers none; and the one connection to it."""

    def __init__(self, server: asyncio.Server, connection: AgentConnection) -> None:
        self.server = server
        self.connection = connection

    @classmethod
    async def make(cls, socket: Path) -> MuteAgent:
        async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(frames.encode(to_wire(Hello("agent", SPOKEN))))
            while await frames.read(reader) is not None:
                continue
            writer.close()

        server = await asyncio.start_unix_server(greet, socket)
        reader, writer = await asyncio.open_unix_connection(socket)
        return cls(server, await AgentConnection(reader, writer).open("controller"))

    def link(self, name: NodeName) -> tuple[AgentConnection, int]:
        return self.connection, LINK

    def look(self, name: NodeName) -> None:
        raise AssertionError("nothing was changed that could be looked at")

    async def reach(self, name: NodeName, starts: bool = True) -> None:
        raise Unreachable(f"the agent of {name} was started but does not answer")

    async def renew(self, name: NodeName) -> None:
        raise AssertionError("nothing is repaired")

    def token(self, name: NodeName) -> int:
        return 0

    async def lose(self, name: NodeName) -> None:
        raise Unreachable(f"the agent of {name} was asked to end but still runs")

    async def close(self) -> None:
        await self.connection.close()
        self.server.close()
        await self.server.wait_closed()


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = Store(tmp_path / "store.db")
    yield opened
    opened.close()


@pytest.fixture
async def tools(tmp_path: Path, store: Store, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Tools]:
    monkeypatch.setattr(requests, "REQUEST_SECONDS_MAX", 0.05)
    agent = await MuteAgent.make(tmp_path / "agent.sock")

    async def start_agent(name: NodeName, token: int) -> None:
        raise Unreachable(f"{name} went away while its agent was being started")

    yield Tools(store, agent, LocalMachines(start_agent=start_agent), time.time)
    await agent.close()


async def test_after_a_lost_answer_only_a_later_connection_tells_what_became_of_it(tools: Tools) -> None:
    with pytest.raises(Unreachable, match="no answer to stop_rank"):
        await carry_out(StopRank(REPLICA, NODE, RANK, 1.0, "test"), tools)
    assert tools.volatile.writes[NODE] == Write(LINK + 1, 0)
    assert tools.token == 2, "and only that of an agent that refuses the request from there on"
    link, _ = tools.links.link(NODE)
    assert link.closed.is_set()
    assert tools.volatile.stops == {}


async def test_a_rank_counts_as_continued_also_when_nobody_confirms_it(tools: Tools) -> None:
    for _ in range(2):
        with pytest.raises(Unreachable):
            await carry_out(ContinueRank(REPLICA, NODE, RANK), tools)
    assert len(tools.volatile.continued[RANK]) == 2


async def test_an_agent_that_may_have_been_started_is_somebody_s_to_end(tools: Tools, store: Store) -> None:
    with pytest.raises(Unreachable, match="went away while"):
        await carry_out(StartAgent(NODE), tools)
    assert store.agents.all() == {NODE: LOCAL}


async def test_who_may_start_no_agent_any_more_is_deposed(tools: Tools) -> None:
    async def refuse(name: NodeName, token: int) -> None:
        raise Refused("Fenced", "token 6 is older than 7")

    tools.machines = LocalMachines(start_agent=refuse)
    with pytest.raises(Deposed, match="a node obeys another controller: token 6 is older than 7"):
        await carry_out(StartAgent(NODE), tools)


@pytest.mark.parametrize("code", ["Failed", "fenced", ""])
async def test_an_agent_that_its_machine_refuses_to_start_for_another_reason_is_not_reached(
    code: str, tools: Tools, monkeypatch: pytest.MonkeyPatch
) -> None:
    reached = []

    async def refuse(name: NodeName, token: int) -> None:
        raise Refused(code, "its disk is full")

    async def reach(name: NodeName) -> None:
        reached.append(name)

    tools.machines = LocalMachines(start_agent=refuse)
    monkeypatch.setattr(tools.links, "reach", reach)
    with pytest.raises(Refused, match="its disk is full"):
        await carry_out(StartAgent(NODE), tools)
    assert reached == []
