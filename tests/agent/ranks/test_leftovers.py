"""What a rank leaves behind when it ends: told while it is there, told when it is gone, and no stranger's."""

from __future__ import annotations

import dataclasses
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from reconciler.agent.ranks import leftovers
from reconciler.agent.system import operating_system
from reconciler.agent.system.process import birth
from reconciler.wire.node import Gone, StartRank, StopRank
from tests.agent.bench import RANK, Bench, ask, ended, in_phase, program, pushed, rank
from tests.agent.macs import mac
from tests.launcher.ranks import until
from tests.ports import free_port

pytestmark = pytest.mark.processes

CHILD = """
pid = os.fork()
if pid == 0:
    {leave}
    import socket
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", {port}))
        taken.listen()
        say("ready", detail=str(os.getpid()))
        time.sleep(600)
"""


def at_port(bench: Bench, body: str, port: int) -> StartRank:
    """Rank 0, which is to listen on a port for the other ranks."""
    spec = bench.spec(program(body))
    config = dataclasses.replace(spec.config, control=f"127.0.0.1:{port}")
    return StartRank(1, dataclasses.replace(spec, config=config))


NETSTAT = (
    "Active Internet connections (including servers)\n"
    "Proto Recv-Q Send-Q  Local Address          Foreign Address        (state)\n"
    "tcp4       0      0  127.0.0.1.21000        *.*                    LISTEN\n"
    "tcp46      0      0  *.8400                 *.*                    LISTEN\n"
    "tcp6       0      0  ::1.21002              ::1.50112              ESTABLISHED\n"
    "tcp4       0      0  127.0.0.1.21003        127.0.0.1.50113        TIME_WAIT\n"
)
"""``netstat -an -p tcp`` of a Mac."""


async def test_a_rank_that_ends_leaves_nothing(bench: Bench) -> None:
    link = await bench.running("say('ready'); sys.exit(0)", quick=True)
    report = await pushed(link, lambda found: found.gone == Gone.YES)
    assert (report.kept, report.exit is not None) == ("", True)


@pytest.mark.needs("linux")
def test_a_process_whose_first_thread_has_ended_is_there() -> None:
    body = "import ctypes, threading; threading.Thread(target=input).start(); ctypes.CDLL(None).pthread_exit(None)"
    with subprocess.Popen(
        [sys.executable, "-c", body], stdin=subprocess.PIPE, start_new_session=True
    ) as process:
        until(lambda: operating_system.proc_stat(process.pid)[0] == b"Z")
        found = leftovers.find(leftovers.Ended(process.pid, False, "/config.json", ()))
        born = birth(process.pid, "boot")
        process.kill()

    assert found == (Gone.NO, f"process {process.pid}")
    assert born is not None


async def test_a_process_that_left_the_ranks_session_and_its_port_are_reported_until_they_are_gone(
    bench: Bench,
) -> None:
    link, port = await bench.agent(), free_port()
    body = CHILD.format(leave="os.setsid()", port=port)
    await ask(link, at_port(bench, body + "sys.stdin.read()", port))
    child = int((await in_phase(link, "ready")).detail)
    os.kill((await rank(link)).pid or 0, signal.SIGKILL)
    left = await pushed(link, lambda found: found.gone == Gone.NO and "port" in found.kept)
    assert left.kept == f"process {child}, port {port}"
    assert (await rank(link)).ended_seconds >= left.ended_seconds
    await bench.kill_agent()
    link = await bench.agent()
    assert (await pushed(link, lambda found: found.gone != Gone.PENDING)).kept == left.kept, (
        "another agent sees it too"
    )
    os.kill(child, signal.SIGKILL)
    assert (await pushed(link, lambda found: found.gone == Gone.YES)).kept == ""


async def test_a_stranger_on_its_port_is_not_the_ranks(bench: Bench) -> None:
    link = await bench.quick_agent()
    with socket.socket() as stranger:
        stranger.bind(("127.0.0.1", 0))
        stranger.listen()
        await ask(link, at_port(bench, "sys.exit(1)", stranger.getsockname()[1]))
        assert (
            await pushed(link, lambda found: found.gone not in (Gone.PENDING, Gone.UNKNOWN))
        ).gone == Gone.YES


async def test_that_a_rank_had_to_be_killed_is_reported_with_its_grace(bench: Bench) -> None:
    link = await bench.running(
        "signal.signal(signal.SIGTERM, signal.SIG_IGN); say('ready'); time.sleep(600)", quick=True
    )
    await in_phase(link, "ready")
    await ask(link, StopRank(1, RANK, 0.2))
    killed = (await ended(link)).exit
    assert killed is not None
    assert killed.killed_after == 0.2


async def test_a_rank_that_somebody_else_killed_was_given_no_grace(bench: Bench) -> None:
    link = await bench.running("say('ready'); sleep()", quick=True)
    os.kill((await in_phase(link, "ready")).pid or 0, signal.SIGKILL)
    killed = (await ended(link)).exit
    assert killed is not None
    assert killed.killed_after is None


def test_listeners_are_read_from_the_tables_of_both_systems() -> None:
    linux = (
        "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
        "   0: 0100007F:5208 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 1 1 0 100 0\n"
        "   1: 0100007F:5209 0100007F:C350 01 00000000:00000000 00:00000000 00000000     0        0 2 1 0 20 4\n"
    )
    assert leftovers.listeners_in_proc(linux) == {21000}
    assert leftovers.listeners(NETSTAT) == {21000, 8400}


def test_members_of_a_group_are_those_that_live() -> None:
    table = "  501   500 S\n  502   500 Z+\n  503   499 R\n  500   500 U\n"
    assert leftovers.members(table, 500) == [501, 500]


def test_a_number_that_somebody_else_has_by_now_leaves_nobody() -> None:
    ended = leftovers.Ended(os.getsid(0), True, "/nowhere/config.json", ())
    assert leftovers.find(ended) == (Gone.YES, "")
    assert leftovers.find(ended._replace(reused=False))[0] == Gone.NO


@pytest.mark.parametrize(
    ("ended", "found"),
    [
        (leftovers.Ended(500, False, "", (21000, 21002)), (Gone.NO, "process 501, process 507, port 21000")),
        (leftovers.Ended(500, True, "", (21000,)), (Gone.NO, "port 21000")),
        (leftovers.Ended(500, True, "", (21003,)), (Gone.YES, "")),
        (
            leftovers.Ended(499, False, "", ()),
            (Gone.NO, "process 1, process 2, process 3, process 4, 2 more"),
        ),
        (leftovers.Ended(42, False, "", (8401,)), (Gone.YES, "")),
        (leftovers.Ended(None, False, "", (8400,)), (Gone.YES, "")),
    ],
    ids=["all", "its pid is another's", "nothing", "many", "no group", "never started"],
)
def test_on_a_mac_its_process_group_and_the_listeners_on_its_ports_are_what_a_rank_left(
    tmp_path: Path, ended: leftovers.Ended, found: tuple[str, str]
) -> None:
    crowd = "".join(f"{pid} 499 S\n" for pid in (6, 2, 3, 5, 4, 1))
    tools = {
        "ps -axo pid=,pgid=,stat=": f"507 500 S+\n501 500 U\n502 500 Z\n{crowd}",
        "netstat -an -p tcp": NETSTAT,
    }
    with mac(tmp_path, tools):
        assert leftovers.find(ended) == found


def test_where_a_macs_tools_fail_nothing_is_known_to_be_gone(tmp_path: Path) -> None:
    with mac(tmp_path, {"ps other": "", "netstat -an -p tcp": NETSTAT}):
        gone, words = leftovers.find(leftovers.Ended(500, False, "", (21000,)))
    assert gone == Gone.UNKNOWN
    assert words.startswith("it cannot be determined: ")
