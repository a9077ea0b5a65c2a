"""What agent and shim live from is deleted under them: they end with it, and touch nothing that comes after."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from reconciler.agent.ranks.directory import RankDirectory
from reconciler.wire.launch import Phase
from reconciler.wire.node import RankReport
from tests.agent.bench import Bench, alive, gone, in_phase, observe, rank
from tests.processes import standing_still

pytestmark = pytest.mark.processes


async def ready(bench: Bench, body: str = "say('ready'); sleep()") -> tuple[int, RankReport]:
    """A node with a ready rank: the agent's pid, and the rank's report."""
    link = await bench.running(body)
    return bench.agent_pid(), await in_phase(link, Phase.READY)


@pytest.mark.parametrize("lock", ["agent.lock", "socket"])
async def test_an_agent_without_its_lock_or_socket_ends_and_the_next_one_adopts_its_ranks(
    bench: Bench, lock: str
) -> None:
    agent, before = await ready(bench)
    (bench.directory / "agent.lock" if lock == "agent.lock" else Path(bench.node().socket)).unlink()
    await gone(agent)
    link = await bench.agent()
    after = await rank(link)
    assert (after.pid, after.shim_pid, after.phase) == (before.pid, before.shim_pid, Phase.READY)


async def test_with_the_directory_of_a_node_its_agent_its_shims_and_its_ranks_end(bench: Bench) -> None:
    agent, before = await ready(bench)
    shutil.rmtree(bench.directory)
    for pid in (agent, before.shim_pid, before.pid):
        await gone(pid)


async def test_a_rank_that_does_not_end_by_itself_is_killed(bench: Bench) -> None:
    _, before = await ready(bench, "signal.signal(signal.SIGTERM, signal.SIG_IGN); say('ready'); sleep()")
    shutil.rmtree(bench.directory)
    await gone(before.pid)
    await gone(before.shim_pid)


async def test_the_end_of_the_old_takes_nothing_from_the_new_in_the_same_place(bench: Bench) -> None:
    """Same node, same rank, so the same paths for its sockets; only the old agent and shim take their time."""
    agent, before = await ready(bench, "signal.signal(signal.SIGTERM, signal.SIG_IGN); say('ready'); sleep()")
    assert before.shim_pid is not None
    with standing_still(agent, before.shim_pid):
        shutil.rmtree(bench.directory)
        shutil.rmtree(bench.run_directory)
        old_links, bench.links = bench.links, []
        link = await bench.agent()
        await bench.start(link, "say('ready'); sleep()")
        after = await in_phase(link, Phase.READY)
        assert alive(before.pid)
        assert after.pid != before.pid
    for pid in (agent, before.shim_pid, before.pid):
        await gone(pid)
    kept = RankDirectory(bench.rank_directory()).state()
    assert kept is not None
    assert (kept.pid, kept.exit) == (after.pid, None), "the old shim has written over it"
    bench.links += old_links
    assert (await rank(await bench.controller())).pid == after.pid
    await bench.kill_agent()
    assert (await rank(await bench.agent())).phase == Phase.READY, "the socket of its shim is gone"


async def test_the_loss_of_one_rank_is_the_end_of_that_rank_alone(bench: Bench) -> None:
    agent, before = await ready(bench)
    shutil.rmtree(bench.rank_directory())
    await gone(before.pid)
    await gone(before.shim_pid)
    assert alive(agent)
    (report,) = (await observe(await bench.controller())).ranks
    assert report.phase == Phase.EXITED
