"""Agents that live and give no answer: another takes their place, and nothing else is ended."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from reconciler.agent import hung
from reconciler.errors import Refused
from reconciler.wire.launch import Phase
from reconciler.wire.node import Observe
from tests.agent.bench import RANK, Bench, alive, ask, gone, observe
from tests.processes import standing_still

pytestmark = pytest.mark.processes


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    made = Bench.make()
    yield made
    await made.close()


def long_ago(path: Path) -> None:
    """As of an agent that began before ``BEGIN_SECONDS``."""
    then = time.time() - 2 * hung.BEGIN_SECONDS
    os.utime(path, (then, then))


async def test_an_agent_that_hangs_is_replaced_and_its_ranks_go_on(bench: Bench) -> None:
    _, before = await bench.ready()
    old = bench.agent_pid()
    os.kill(old, signal.SIGSTOP)
    long_ago(bench.directory / "agent.lock")

    await bench.node().start_agent()

    await gone(old)
    assert bench.agent_pid() != old
    (after,) = (await observe(await bench.controller())).ranks
    assert (after.id, after.pid) == (RANK, before.pid)
    assert after.phase != Phase.EXITED


async def test_an_agent_that_has_only_begun_is_left_to_begin(bench: Bench) -> None:
    await bench.agent()
    with standing_still(bench.agent_pid()):
        await bench.node().start_agent()
    assert alive(bench.agent_pid())


async def test_an_agent_that_answers_is_left_alone_however_long_ago_it_began(bench: Bench) -> None:
    link = await bench.agent()
    old = bench.agent_pid()
    long_ago(bench.directory / "agent.lock")
    await bench.node().start_agent()
    assert alive(old)
    assert bench.agent_pid() == old
    await observe(link)


async def test_an_agent_that_hangs_is_not_ended_for_a_controller_that_was_replaced(bench: Bench) -> None:
    await ask(await bench.agent(), Observe((), 7))
    old = bench.agent_pid()
    long_ago(bench.directory / "agent.lock")
    with standing_still(old):
        await bench.node().start_agent(6)
        assert alive(old)
        await bench.node().start_agent(7)
    await gone(old)
    await bench.kill_agent()
    with pytest.raises(Refused, match="token 6 is older than 7"):
        await bench.node().start_agent(6)


@pytest.mark.parametrize(
    "noted", ["", "{where} {pid} another boot 1", "{where} nobody", "{where} 1 {birth}", "1:2 {pid} {birth}"]
)
async def test_a_process_that_is_not_certainly_that_agent_is_left_alone(bench: Bench, noted: str) -> None:
    await bench.agent()
    old = bench.agent_pid()
    process = bench.directory / "agent.process"
    where, pid, birth = process.read_text().strip().split(" ", 2)
    process.write_text(noted.format(where=where, pid=pid, birth=birth))
    long_ago(bench.directory / "agent.lock")
    with standing_still(old):
        await bench.node().start_agent()
        assert alive(old)
