"""Nodes on this machine."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import os
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from reconciler.errors import Refused, Silent, Unreachable
from reconciler.wire.node import Observe, Shutdown
from tests.agent.bench import Bench, alive, ask, gone, observe
from tests.processes import parent_of

pytestmark = pytest.mark.processes


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    """A node of its own for one test."""
    made = Bench.make()
    yield made
    await made.close()


async def test_an_agent_that_runs_is_left_as_it_is(bench: Bench) -> None:
    first = await observe(await bench.agent())

    second = await observe(await bench.agent())

    assert first.agent_id == second.agent_id


async def test_an_agent_belongs_to_nobody_and_has_its_own_session(bench: Bench) -> None:
    await bench.agent()
    pid = bench.agent_pid()

    assert os.getsid(pid) == pid
    assert parent_of(pid) != os.getpid()


async def test_an_agent_that_cannot_start_says_why(bench: Bench) -> None:
    bench.home.joinpath("node").write_text("a file is in the way")

    with pytest.raises(Unreachable, match=r"the agent of bench did not start: agent: .*File exists"):
        await bench.node().start_agent()


async def test_an_agent_is_not_started_for_a_controller_that_was_replaced(bench: Bench) -> None:
    link = await bench.agent()
    await ask(link, Observe((), 7))
    await bench.node().start_agent(6)  # one that runs is left as it is
    await bench.kill_agent()

    with pytest.raises(Refused, match="token 6 is older than 7") as refused:
        await bench.node().start_agent(6)
    assert refused.value.code == "Fenced"

    for token in (0, 7):
        await bench.node().start_agent(token)
        await bench.controller()
        await bench.kill_agent()


async def test_an_interpreter_that_is_missing_is_named(bench: Bench) -> None:
    node = dataclasses.replace(bench.node(), agent_python=Path("/no/such/python"))

    with pytest.raises(Unreachable, match=r"cannot start.*/no/such/python"):
        await node.start_agent()


async def test_an_interpreter_that_does_nothing_is_given_up_on_and_ended(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    idle = bench.home / "idle"
    idle.write_text("#!/bin/sh\nexec sleep 600\n")
    idle.chmod(0o700)
    node = dataclasses.replace(bench.node(), agent_python=idle, start_seconds=0.2)
    started: list[asyncio.subprocess.Process] = []
    start = asyncio.create_subprocess_exec

    async def seen(*words: Any, **options: Any) -> asyncio.subprocess.Process:
        started.append(await start(*words, **options))
        return started[-1]

    monkeypatch.setattr(asyncio, "create_subprocess_exec", seen)

    with pytest.raises(Unreachable, match=r"did not start: not serving after 0\.2 s"):
        await node.start_agent()

    (idler,) = started
    await gone(idler.pid)


async def test_a_node_without_an_agent_does_not_answer(bench: Bench) -> None:
    with pytest.raises(Unreachable, match="the agent of bench does not answer at "):
        await bench.node().dial()


async def test_an_agent_that_takes_no_connections_any_more_is_not_said_to_be_down(bench: Bench) -> None:
    with socket.socket(socket.AF_UNIX) as listener, contextlib.ExitStack() as stack:
        Path(bench.node().socket).parent.mkdir()
        listener.bind(bench.node().socket)
        listener.listen(1)
        for _ in range(2):
            waiting = stack.enter_context(socket.socket(socket.AF_UNIX))
            waiting.connect(bench.node().socket)
        with pytest.raises(Silent, match="accepts no connection"):
            await bench.node().dial()


async def test_a_directory_too_deep_for_sockets_is_known_before_anything_is_started(bench: Bench) -> None:
    with pytest.raises(ValueError, match="choose a shorter RECONCILER_HOME"):
        dataclasses.replace(bench.node(), run_directory=bench.home / ("d" * 100))


async def test_several_nodes_of_one_machine_share_its_memory_and_nothing_else(bench: Bench) -> None:
    other = dataclasses.replace(bench.node(), name="other", directory=bench.home / "other")
    first = await observe(await bench.agent())
    await other.start_agent()
    link = await other.dial()
    second = await observe(link)

    assert first.host_id == second.host_id
    assert first.agent_id != second.agent_id
    pid = int((other.directory / "agent.lock").read_text())
    await ask(link, Shutdown(1))
    await link.closed.wait()
    await link.close()
    await gone(pid)
    assert alive(bench.agent_pid())


async def test_changes_end_with_the_connection(bench: Bench) -> None:
    link = await bench.agent()
    await bench.kill_agent()

    assert [sequence async for sequence in link.changes()] == []
    with pytest.raises(Unreachable):
        await observe(link)
