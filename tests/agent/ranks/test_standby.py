"""The process that waits for the next rank: it becomes one, it never counts as one, and never outlives its agent."""

from __future__ import annotations

import dataclasses
import os
import shutil
import signal
import time

import pytest

from reconciler.remote.agent_connection import AgentConnection
from reconciler.wire.launch import Phase, RankId
from reconciler.wire.node import Done, ForgetRank, Shutdown, StartRank, StopRank
from tests.agent.bench import (
    QUICK_STANDBY_SECONDS,
    RANK,
    Bench,
    ask,
    ended,
    gone,
    in_phase,
    observe,
    program,
    rank,
    until,
)
from tests.processes import command_of, listed

pytestmark = pytest.mark.processes

NEXT = RankId("llama", 0, 2, 0)
WAITS = """
config = os.environ["RECONCILER_RANK_CONFIG"]
print("reads", config, flush=True)
config = sys.stdin.readline().strip() if config == "-" else config
if config:
    print("known", os.path.exists(os.path.join(os.path.dirname(config), "process.json")), flush=True)
    say("ready", detail=config)
    sleep()
"""


async def start(
    bench: Bench, link: AgentConnection, id: RankId = RANK, body: str = WAITS, can: bool = True
) -> None:
    """A rank whose program ``can`` be a spare."""
    spec = dataclasses.replace(bench.spec(program(body), id), spare=can)
    assert isinstance(await ask(link, StartRank(1, spec)), Done)
    await in_phase(link, Phase.READY, id)


def spares(bench: Bench) -> list[tuple[int, int]]:
    """The node's spares: pid of the shim, and of the process that waits with it."""
    found = listed()
    shims = [each.pid for each in found if " spare " in each.command and str(bench.home) in each.command]
    return [(each.parent, each.pid) for each in found if each.state != "Z" and each.parent in shims]


async def spare(bench: Bench) -> tuple[int, int]:
    """Wait until there is one."""
    await until(lambda: len(spares(bench)) == 1)
    (only,) = spares(bench)
    return only


async def test_the_process_that_waits_becomes_the_next_rank(bench: Bench) -> None:
    link = await bench.quick_agent()
    await start(bench, link)
    shim, waiting = await spare(bench)
    assert [report.id for report in (await observe(link)).ranks] == [RANK], "a spare is no rank"

    await start(bench, link, NEXT)

    report = await rank(link, NEXT)
    assert (report.shim_pid, report.pid) == (shim, waiting)
    assert report.detail == str(bench.rank_directory(NEXT) / "config.json")
    assert (bench.rank_directory(NEXT) / "rank.0.log").read_text().endswith("reads -\nknown True\n")
    os.kill(waiting, signal.SIGSEGV)
    assert (await ended(link, NEXT)).exit is not None
    again, _ = await spare(bench)
    assert again != shim, "its place is taken by another one"


async def test_a_rank_of_another_program_is_started_as_ever_and_nothing_is_left_of_the_one_that_waited(
    bench: Bench,
) -> None:
    link = await bench.quick_agent()
    await start(bench, link)
    _, waiting = await spare(bench)
    await start(bench, link, NEXT, "say('ready', detail='another'); sleep()", can=False)
    report = await rank(link, NEXT)
    assert report.detail == "another"
    assert report.pid != waiting
    await gone(waiting)


async def test_only_a_program_that_can_wait_is_started_before_there_is_a_rank_for_it(bench: Bench) -> None:
    link = await bench.quick_agent()
    await start(bench, link, can=False)
    await start(bench, link, NEXT)
    shim, _ = await spare(bench)
    assert command_of(shim).endswith(f"--program {bench.directory / 'spare.json'}")


@pytest.mark.second_tier
@pytest.mark.parametrize("end", ["killed", "asked", "taken away"])
async def test_a_spare_ends_with_its_agent_and_the_next_agent_has_one_of_its_own(
    bench: Bench, end: str
) -> None:
    link = await bench.agent()
    await start(bench, link)
    before, agent = await spare(bench), bench.agent_pid()
    if end == "killed":
        await bench.kill_agent()
    elif end == "asked":
        await ask(link, Shutdown(1))
    else:
        shutil.rmtree(bench.directory)
    for pid in before:
        await gone(pid)
    if end != "taken away":
        await bench.agent_gone()
        await gone(agent)  # its connections and its spare end before it lets go of its lock
        await bench.agent()
        assert not set(await spare(bench)) & set(before)


@pytest.mark.parametrize("which", [0, 1])
async def test_without_the_spare_that_was_there_the_next_rank_is_started_as_ever(
    bench: Bench, which: int
) -> None:
    link = await bench.quick_agent()
    await start(bench, link)
    both = await spare(bench)
    os.kill(both[which], signal.SIGKILL)
    for pid in both:
        await gone(pid)
    await start(bench, link, NEXT)
    assert (await rank(link, NEXT)).pid not in both


async def test_a_node_whose_ranks_were_stopped_a_while_ago_keeps_no_spare(bench: Bench) -> None:
    link = await bench.quick_agent()
    await start(bench, link)
    both = await spare(bench)
    await ask(link, StopRank(1, RANK, 1.0))
    exited = (await ended(link)).exit
    for pid in both:
        await gone(pid)
    assert exited is not None
    assert time.time() - exited.at > QUICK_STANDBY_SECONDS - 0.01, "the next rank may be about to come"


async def test_a_node_without_ranks_keeps_no_spare(bench: Bench) -> None:
    link = await bench.quick_agent()
    await start(bench, link)
    both = await spare(bench)
    os.kill((await rank(link)).pid or 0, signal.SIGKILL)
    await ended(link)
    await ask(link, ForgetRank(1, RANK))
    for pid in both:
        await gone(pid)
