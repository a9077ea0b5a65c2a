"""What an agent answers, and to whom: on a machine that says what the test has it say."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from reconciler.agent.server import TOOLS_MAX, Agent
from reconciler.wire.codec import Refused
from reconciler.wire.launch import RankId
from reconciler.wire.node import (
    Changed,
    ContinueRank,
    Done,
    FetchWeights,
    ForgetRank,
    GiveWeights,
    HeldBy,
    Load,
    Log,
    ModelReport,
    NodeReport,
    Observe,
    ReadLog,
    RemoveWeights,
    Shutdown,
    StopRank,
)
from reconciler.wire.tools import Ending, RunTool, ToolSaid
from reconciler.wire.weights import FetchSource
from tests.agent.bench import soon

ID = RankId("llama", 0, 1, 0)
PS = RunTool(("ps",), 1.0)
IDENTITY = NodeReport(
    sequence=0, boot_id="boot", agent_id="agent", system="Linux", release="6", machine="arm64", hostname="far",
    memory_bytes=8, cpus=2, host_id="host", python="/p", runtime=None, run_directory="/run", token=0,
    held_by=HeldBy.SESSION,
)  # fmt: skip


class Peer:
    """A controller's connection."""

    congested, greeted = False, True

    def __init__(self) -> None:
        self.sent: list[Any] = []
        self.replies: dict[int, Any] = {}

    def send(self, message: Any) -> None:
        self.sent.append(message)

    def reply(self, request: int, message: Any) -> None:
        self.replies[request] = message

    def close(self) -> None:
        raise AssertionError("a controller is never sent away")

    abort = close


class Node:
    """An agent with one controller."""

    def __init__(self) -> None:
        self.token = 3
        self.full = False
        self.problem = ""
        self.tools: list[asyncio.Future[ToolSaid]] = []
        self.done: list[str] = []
        self.host: Any = SimpleNamespace(
            identity=lambda: IDENTITY,
            token=lambda: self.token,
            save_token=self._save,
            room=lambda: (5, 10),
            clock=lambda: 7.12345,
            stored_weights=tuple,
            runtime=lambda: {"mlx": "1"},
            repair_report=lambda: None,
            model=lambda path: ModelReport(path, f"/models/{path}", present=False),
            fetch=lambda message: self._act(f"fetch {message.path}"),
            serve_weights=lambda path: self._act(f"give {path}"),
            discard=lambda path: self._act(f"discard {path}"),
            read_log=lambda id, most, offset: Log(f"{id} {most} {offset}", 9),
            run_tool=self._run_tool,
        )
        self.agent = Agent(asyncio.get_running_loop(), self.host)
        self.peer: Any = Peer()
        self.agent.on_connected(self.peer)

    def _save(self, token: int) -> None:
        if self.full:
            raise OSError("no space left on device")
        self.token = token

    def _act(self, what: str) -> None:
        if self.problem:
            raise ValueError(self.problem)
        self.done.append(what)

    async def _run_tool(self, call: RunTool) -> ToolSaid:
        self.tools.append(asyncio.get_running_loop().create_future())
        return await self.tools[-1]

    def ask(self, message: Any, number: int = 1) -> Any:
        self.agent.on_message(self.peer, message, number)
        return self.peer.replies.pop(number, None)


async def test_so_many_tools_are_run_at_a_time_and_one_that_ends_makes_room() -> None:
    node = Node()
    for number in range(TOOLS_MAX):
        assert node.ask(PS, number) is None
    assert node.ask(PS, 99).code == "Busy"
    await soon(lambda: len(node.tools) == TOOLS_MAX)
    said = ToolSaid(Ending.ENDED, 0, "said")
    node.tools[4].set_result(said)
    await soon(lambda: node.peer.replies)
    assert node.peer.replies == {4: said}
    assert node.ask(PS, 99) is None
    for tool in node.tools:
        if not tool.done():
            tool.set_result(said)
    await soon(lambda: len(node.tools) == TOOLS_MAX + 1)
    node.tools[-1].set_result(said)
    await soon(lambda: len(node.peer.replies) == TOOLS_MAX + 1)


async def test_a_look_has_all_that_is_known_of_the_node() -> None:
    node = Node()
    report = node.ask(Observe(("tiny",), 4))
    assert (report.hostname, report.held_by, report.sequence) == ("far", HeldBy.SESSION, 1)
    assert (report.token, report.asked_with) == (4, 4)
    assert (report.models_free_bytes, report.models_total_bytes, report.kept) == (5, 10, ("tiny",))
    assert (report.runtime, report.repair, report.ranks, report.load) == ({"mlx": "1"}, None, (), None)
    assert [model.path for model in report.models] == ["tiny"]
    node.agent.ranks.load = Load(1.0, 5, "", 0.5)
    assert node.ask(Observe()).load == Load(7.123, 5, "", 0.5)
    node.full = True
    report = node.ask(Observe((), 5))
    assert (report.token, report.asked_with) == (5, 0), "a full disk hides no node"


@pytest.mark.parametrize(
    ("message", "done", "changes"),
    [
        (FetchWeights(3, "hub/a/b", FetchSource("a", "b")), ["fetch hub/a/b"], 1),
        (GiveWeights(3, "hub/a/b"), ["give hub/a/b"], 0),
        (RemoveWeights(3, "hub/a/b"), ["discard hub/a/b"], 1),
        (StopRank(3, ID, 1.0), [], 0),
        (ContinueRank(3, ID), [], 0),
        (ForgetRank(3, ID), [], 0),
    ],
)
async def test_what_is_asked_for_is_done_and_what_changes_the_node_is_told(
    message: Any, done: list[str], changes: int
) -> None:
    node = Node()
    assert node.ask(message) == Done(1 + changes)
    assert (node.done, node.peer.sent) == (done, [Changed(2)] * changes)
    if done:
        node.problem = "not like this"
        assert node.ask(message) == Refused("Invalid", "not like this")
        assert node.peer.sent == [Changed(2)] * changes


async def test_a_controller_that_was_replaced_is_refused_and_a_full_disk_named() -> None:
    node = Node()
    for message in (StopRank(2, ID, 1.0), Shutdown(2)):
        refused = node.ask(message)
        assert (refused.code, refused.text) == (
            "Fenced",
            "token 2 is older than 3: another controller has taken over",
        )
    assert not node.agent.ending.is_set()
    node.full = True
    assert node.ask(StopRank(4, ID, 1.0)) == Refused("Failed", "no space left on device")


async def test_what_is_no_request_is_not_answered() -> None:
    node = Node()
    for message, number in ((Observe(), None), (PS, None), (Changed(3), 5)):
        node.agent.on_message(node.peer, message, number)
    assert (node.peer.replies, node.tools) == ({}, [])


async def test_logs_are_of_ranks_that_are_there() -> None:
    node = Node()
    assert node.ask(ReadLog(ID, 10)) == Refused("NotFound", f"there is no rank {ID} on this node")
    node.agent.ranks._ranks[ID] = SimpleNamespace(id=ID)  # type: ignore[assignment]
    assert node.ask(ReadLog(ID, 10, 4)) == Log(f"{ID} 10 4", 9)


async def test_an_agent_ends_after_it_has_said_so_and_its_session_may_end_before() -> None:
    node = Node()
    node.agent.end_with_session()
    assert node.ask(Observe()).held_by == HeldBy.LEFT
    assert node.peer.sent == [Changed(2)]
    assert node.ask(Shutdown(3)) == Done(2)
    assert not node.agent.ending.is_set()
    await asyncio.sleep(0)
    assert node.agent.ending.is_set()


async def test_changes_that_can_wait_are_told_together() -> None:
    node = Node()
    for _ in range(5):
        node.agent._changed(False)
    assert node.peer.sent == []
    node.agent._changed(True)
    assert node.peer.sent == [Changed(7)]
    node.agent._changed(False)
    await soon(lambda: len(node.peer.sent) == 2)
    await asyncio.sleep(0.02)
    assert node.peer.sent == [Changed(7), Changed(8)]
