"""What is left when an agent or a shim is killed, and how the next agent goes on from there."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from reconciler.errors import Refused, Unreachable
from reconciler.remote.agent_connection import AgentConnection
from reconciler.wire.launch import Phase, RankId
from reconciler.wire.node import ForgetRank, Gone, Observe, RankReport, Shutdown, StartRank, StopRank
from reconciler.wire.paths import agent_socket, shim_socket
from tests.agent.bench import (
    RANK,
    WAIT_SECONDS,
    Bench,
    alive,
    ask,
    ended,
    exit_of,
    gone,
    in_phase,
    observe,
    program,
    pushed,
    rank,
    until,
)

pytestmark = pytest.mark.processes

OTHER = RankId("llama", 0, 1, 1)


def _but_for_what_an_agent_measures(report: RankReport) -> RankReport:
    """Without what each agent counts anew from its own beginning, so far as it has looked by now."""
    return replace(
        report,
        cores=0.0,
        resident_bytes=0,
        tokens_per_second=0.0,
        silent_seconds=0.0,
        idle_seconds=0.0,
        age_seconds=0.0,
    )


def serve_arguments(bench: Bench, directory: Path) -> list[str]:
    """Return what Python is given for one more agent of the bench's node, with this directory."""
    node = bench.node()
    given = {
        "--node": node.name,
        "--directory": directory,
        "--models": node.models,
        "--run-directory": node.run_directory,
        "--python": "python3",
    }
    return ["-I", str(node.bundle), "serve", *(str(word) for pair in given.items() for word in pair)]


async def test_a_killed_agent_costs_no_rank_and_the_next_one_still_learns_how_it_ends(bench: Bench) -> None:
    link, before = await bench.ready("say('ready', steps=3); sleep()")
    await bench.kill_agent()

    link = await bench.agent()

    after = await pushed(link, lambda report: report.steps == 3)
    assert _but_for_what_an_agent_measures(after) == _but_for_what_an_agent_measures(before)
    assert before.pid is not None
    os.kill(before.pid, signal.SIGSEGV)
    end = await exit_of(link)
    assert (end.code, end.signal) == (None, signal.SIGSEGV)


async def test_the_end_of_a_rank_is_known_although_no_agent_was_there(bench: Bench) -> None:
    link = await bench.agent()
    await bench.start(
        link, "signal.signal(10, lambda *_: sys.exit(67)); say('ready', detail='no peer'); sleep()"
    )
    before = await in_phase(link, Phase.READY)
    assert before.pid is not None
    await bench.kill_agent()

    os.kill(before.pid, signal.SIGUSR1)
    await gone(before.pid)
    await gone(before.shim_pid)

    report = await rank(await bench.agent())
    assert report.exit is not None
    assert (report.exit.code, report.exit.detail) == (67, "no peer")


async def test_a_rank_can_be_stopped_by_the_next_agent(bench: Bench) -> None:
    link, _ = await bench.ready()
    await bench.kill_agent()
    link = await bench.agent()

    await ask(link, StopRank(1, RANK, grace_seconds=60))

    end = await exit_of(link)
    assert end.signal == signal.SIGTERM


@pytest.mark.parametrize("end", ["signal", "request"])
async def test_an_agent_that_ends_in_order_leaves_ranks_alone(bench: Bench, end: str) -> None:
    link, before = await bench.ready()

    if end == "signal":
        os.kill(bench.agent_pid(), signal.SIGTERM)
    else:
        await ask(link, Shutdown(1))
    await bench.agent_gone()
    await gone(bench.agent_pid())

    assert not Path(bench.node().socket).exists()
    assert (await rank(await bench.agent())).pid == before.pid


async def test_a_killed_shim_takes_its_rank_with_it_and_that_is_pushed(bench: Bench) -> None:
    link, before = await bench.ready("say('ready'); time.sleep(600)")
    assert before.shim_pid is not None

    os.kill(before.shim_pid, signal.SIGKILL)

    end = await exit_of(link)
    assert (end.code, end.signal) == (None, signal.SIGKILL)
    assert end.detail.startswith("the shim died; ")
    assert not alive(before.pid)
    assert (await pushed(link, lambda found: found.gone == Gone.YES)).kept == ""


async def test_the_next_agent_stops_a_rank_whose_shim_died_meanwhile(bench: Bench) -> None:
    _, before = await bench.ready("say('ready'); time.sleep(600)")
    await bench.kill_agent()
    assert before.shim_pid is not None
    os.kill(before.shim_pid, signal.SIGKILL)
    await gone(before.shim_pid)
    assert alive(before.pid)

    report = await ended(await bench.agent())

    assert report.exit is not None
    assert report.exit.detail.startswith("the shim died; ")
    assert not alive(before.pid)


async def test_a_later_process_with_the_number_of_a_rank_is_left_alone(bench: Bench) -> None:
    _, before = await bench.ready()
    assert before.shim_pid is not None
    await bench.kill_agent()
    os.kill(before.shim_pid, signal.SIGKILL)
    await gone(before.shim_pid)
    await gone(before.pid)
    bystander = await asyncio.create_subprocess_exec(sys.executable, "-c", "input()", stdin=subprocess.PIPE)
    process = bench.rank_directory() / "process.json"
    process.write_text(process.read_text().replace(str(before.pid), str(bystander.pid)))

    report = await rank(await bench.agent())

    assert report.exit is not None
    assert alive(bystander.pid)
    await bystander.communicate(b"\n")


async def test_a_signal_to_the_shim_ends_the_rank_in_order(bench: Bench) -> None:
    link, before = await bench.ready("signal.signal(15, lambda *_: sys.exit(0)); say('ready'); sleep()")
    assert before.shim_pid is not None

    os.kill(before.shim_pid, signal.SIGTERM)

    end = await exit_of(link)
    assert end.code == 0
    await gone(before.shim_pid)


# --- every place where a kill may strike ---


def _half_made_directory(bench: Bench) -> None:
    unfinished = bench.directory / "ranks" / f".new-{RANK}"
    unfinished.mkdir()
    (unfinished / "spec.json").write_text("{")


def _half_removed_directory(bench: Bench) -> None:
    bench.rank_directory().rename(bench.directory / "ranks" / f".gone-{RANK}")


def _directory_without_a_shim(bench: Bench) -> None:
    for path in bench.rank_directory().iterdir():
        if path.name not in ("spec.json", "config.json"):
            path.unlink()


def _socket_that_nobody_listens_to(bench: Bench) -> None:
    _directory_without_a_shim(bench)
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(shim_socket(str(bench.run_directory), RANK))


def _unfinished_state(bench: Bench) -> None:
    _directory_without_a_shim(bench)
    (bench.rank_directory() / "state.json").write_text("")
    (bench.rank_directory() / "state.json.new").write_text('{"pid"')


@pytest.mark.parametrize(
    ("strike", "reported"),
    [
        (_half_made_directory, "Completed"),
        (_half_removed_directory, "absent"),
        (_directory_without_a_shim, "never started: it printed no reason"),
        (_socket_that_nobody_listens_to, "never started: it printed no reason"),
        (_unfinished_state, "never started: it printed no reason"),
    ],
)
async def test_wherever_a_kill_strikes_the_next_agent_reports_what_is_left(
    bench: Bench, strike: Callable[[Bench], None], reported: str
) -> None:
    link = await bench.running("say('ready', detail='Completed')")
    await gone((await ended(link)).shim_pid)
    await bench.kill_agent()
    strike(bench)

    link = await bench.agent()

    ranks = (await observe(link)).ranks
    assert [report.exit.detail for report in ranks if report.exit] == (
        [] if reported == "absent" else [reported]
    )
    assert [path.name for path in (bench.directory / "ranks").iterdir()] == [str(found.id) for found in ranks]
    await ask(link, ForgetRank(1, RANK))
    await bench.start(link, "say('ready'); sleep()")
    assert alive((await in_phase(link, Phase.READY)).pid)


async def test_a_rank_whose_spec_cannot_be_read_is_still_reported_and_stopped(bench: Bench) -> None:
    link, before = await bench.ready()
    await bench.kill_agent()
    (bench.rank_directory() / "spec.json").write_text("{}")

    link = await bench.agent()

    found = await pushed(link, lambda report: report.pid is not None)
    assert (found.pid, found.group) == (before.pid, "")
    await ask(link, StopRank(1, RANK, grace_seconds=5))
    assert (await ended(link)).exit is not None


_DIES_AT = """
import os, runpy, signal, sys
fatal, sign, armed, seen = int(sys.argv[1]), sys.argv[2], False, 0
ACTIONS = {"os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.chmod", "shutil.rmtree", "socket.bind",
           "subprocess.Popen"}
def acts(event, arguments):
    writes = os.O_WRONLY | os.O_RDWR | os.O_CREAT
    return event in ACTIONS or (event == "open" and (arguments[2] or 0) & writes)
def strike(event, arguments):
    global armed, seen
    armed = armed or (acts(event, arguments) and sign in str(arguments[0]))
    if armed and acts(event, arguments):
        if seen == fatal:
            os.kill(os.getpid(), signal.SIGKILL)
        seen += 1
sys.argv = sys.argv[3:]
sys.addaudithook(strike)
runpy.run_path(sys.argv[0], run_name="__main__")
"""
"""An agent that is killed just before an action of a given number, counted from one on a path with a sign."""


async def _doomed(bench: Bench, action: int, sign: str) -> tuple[asyncio.subprocess.Process, AgentConnection]:
    """An agent that is going to be killed before its ``action``-th action from the sign on."""
    node = bench.node()
    serve = [
        str(node.bundle),
        "serve",
        "--node",
        node.name,
        "--directory",
        str(node.directory),
        "--models",
        "/x",
    ]
    serve += ["--run-directory", str(node.run_directory), "--python", "/no/such/python"]
    command = [sys.executable, "-I", "-c", _DIES_AT, str(action), sign, *serve]
    agent = await asyncio.create_subprocess_exec(*command)
    await until(lambda: _answers(node.socket))
    return agent, await bench.controller()


async def _dies(
    bench: Bench, agent: asyncio.subprocess.Process, link: AgentConnection, message: StartRank | ForgetRank
) -> bool:
    """Make the last request to a doomed agent; whether it was killed over it."""
    try:
        await ask(link, message)
    except Unreachable:
        died = await agent.wait() == -signal.SIGKILL
    else:
        died = False
        agent.kill()
        await agent.wait()
    await bench.agent_let_go()
    return died


def _answers(path: str) -> bool:
    with socket.socket(socket.AF_UNIX) as caller:
        return caller.connect_ex(path) == 0


STRIDES = [5, pytest.param(1, marks=pytest.mark.second_tier)]
"""Every so many actions are tried."""


@pytest.mark.timeout(300)  # two agents for each action
@pytest.mark.parametrize("stride", STRIDES)
async def test_an_agent_killed_before_any_action_of_a_start_leaves_at_most_one_process(
    bench: Bench, stride: int
) -> None:
    starts = bench.home / "starts"
    body = f"open({str(starts)!r}, 'a').write(os.environ['RANK']); say('ready'); sleep()"
    endings: list[str] = []
    died = True
    while died:
        epoch = len(endings)
        id = RankId("llama", 0, epoch, 0)
        message = StartRank(epoch + 1, bench.spec(program(body), id, RANK=f"<{epoch}>"))
        died = await _dies(bench, *await _doomed(bench, epoch * stride, "fence.json.new"), message)

        link = await bench.agent()
        known = {report.id for report in (await observe(link)).ranks}
        if id in known:
            report = await pushed(link, lambda report: report.phase in ("ready", "exited"), id)
            endings.append(report.exit.detail if report.exit else report.phase)
        else:
            endings.append("absent")
        started = starts.read_text().count(f"<{epoch}>") if starts.exists() else 0
        assert started == (1 if endings[-1] == "ready" else 0)
        await bench.kill_agent()

    assert endings == sorted(endings, key=["absent", "never started: it printed no reason", "ready"].index)
    assert set(endings) == {"absent", "never started: it printed no reason", "ready"}


@pytest.mark.timeout(300)
@pytest.mark.parametrize("stride", STRIDES)
async def test_an_agent_killed_before_any_action_of_a_removal_leaves_all_or_nothing(
    bench: Bench, stride: int
) -> None:
    left: list[bool] = []
    died = True
    while died:
        id = RankId("llama", 0, len(left), 0)
        agent, link = await _doomed(bench, len(left) * stride, ".gone-")
        await bench.start(link, "pass", id)
        exited = await ended(link, id)
        died = await _dies(bench, agent, link, ForgetRank(1, id))

        found = [report for report in (await observe(await bench.agent())).ranks if report.id == id]
        assert [report.exit for report in found] in ([], [exited.exit])
        assert [path.name for path in (bench.directory / "ranks").glob(".*")] == []
        left.append(bool(found))
        await bench.kill_agent()

    assert left == sorted(left, reverse=True)
    assert set(left) == {True, False}


# --- one agent, one controller ---


async def test_a_second_agent_is_told_who_serves_already(bench: Bench) -> None:
    await bench.agent()
    node = bench.node()
    command = serve_arguments(bench, node.directory)

    second = await asyncio.create_subprocess_exec(sys.executable, *command, stderr=subprocess.PIPE)
    async with asyncio.timeout(WAIT_SECONDS):
        _, stderr = await second.communicate()

    assert second.returncode == 75
    assert f"another agent serves {node.directory}: process {bench.agent_pid()}" in stderr.decode()


async def test_an_agent_for_the_same_node_with_another_directory_takes_no_socket_away(bench: Bench) -> None:
    link = await bench.agent()
    command = serve_arguments(bench, bench.home / "other")

    second = await asyncio.create_subprocess_exec(sys.executable, *command, stderr=subprocess.PIPE)
    async with asyncio.timeout(WAIT_SECONDS):
        await second.communicate()

    assert second.returncode == 75
    first = await observe(link)
    assert (await observe(await bench.controller())).agent_id == first.agent_id


async def test_the_socket_of_a_dead_agent_is_replaced(bench: Bench) -> None:
    bench.run_directory.mkdir()
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(agent_socket(str(bench.run_directory), "bench"))

    assert (await observe(await bench.agent())).ranks == ()


async def test_a_controller_that_was_replaced_can_change_nothing_even_after_a_restart(bench: Bench) -> None:
    link, before = await bench.ready()
    await ask(link, StopRank(7, OTHER, 0))

    for _ in range(2):
        for message in (
            StartRank(6, bench.spec(program("sleep()"), OTHER)),
            StopRank(6, RANK, 0),
            ForgetRank(6, RANK),
            Shutdown(6),
        ):
            with pytest.raises(Refused) as refused:
                await ask(link, message)
            assert refused.value.code == "Fenced"
        report = await observe(link)
        assert (report.token, [found.pid for found in report.ranks]) == (7, [before.pid])
        await bench.kill_agent()
        link = await bench.agent()


async def test_a_look_with_a_token_ends_what_an_older_controller_may_do(bench: Bench) -> None:
    link = await bench.agent()
    assert (await observe(link)).asked_with == 0, "a look without one leaves the token as it is"
    seen = [await ask(link, Observe((), token)) for token in (3, 8, 3, 0)]
    assert [(report.token, report.asked_with) for report in seen] == [(3, 3), (8, 8), (8, 0), (8, 0)]
    with pytest.raises(Refused, match="token 7 is older than 8") as refused:
        await ask(link, StartRank(7, bench.spec(program("sleep()"))))
    assert refused.value.code == "Fenced"
    await bench.kill_agent()
    assert (await observe(await bench.agent())).token == 8


async def test_without_its_fencing_token_an_agent_does_not_start(bench: Bench) -> None:
    bench.directory.mkdir(parents=True)
    (bench.directory / "fence.json").write_text('{"token": "seven"}')

    with pytest.raises(Exception, match=r"fence\.json: expected an object with the number 'token'"):
        await bench.agent()
