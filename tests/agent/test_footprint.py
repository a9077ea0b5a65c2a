"""How agent and shim treat the machine they run on, and those who talk to them."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path

import pytest

from reconciler.errors import Refused
from reconciler.remote.agent_connection import AgentConnection
from reconciler.wire import SPOKEN, frames
from reconciler.wire.codec import Hello, to_wire
from reconciler.wire.launch import Phase
from reconciler.wire.node import Observe, ReadLog
from tests.agent.bench import RANK, WAIT_SECONDS, Bench, ask, observe
from tests.processes import command_of, cpu_seconds, resident_bytes

pytestmark = pytest.mark.processes

PYTHON_39 = [
    path
    for path in (Path("/usr/bin/python3.9"), *Path.home().glob(".pyenv/versions/3.9.*/bin/python3.9"))
    if path.exists()
]
"""The oldest Python that the agent promises to run on, where the machine has one."""


async def _used(pids: Sequence[int | None], seconds: float) -> float:
    """The most that one of these processes uses within so many seconds."""
    before = [cpu_seconds([pid or 0]) for pid in pids]
    await asyncio.sleep(seconds)
    return max(cpu_seconds([pid or 0]) - used for pid, used in zip(pids, before, strict=True))


async def _runtime(link: AgentConnection) -> Mapping[str, str]:
    """The versions in the runtime: looked at first, and then after each push."""
    async with asyncio.timeout(WAIT_SECONDS):
        while not (found := (await observe(link)).runtime):
            await anext(link.changes())
    return found


async def test_an_idle_agent_and_an_idle_shim_use_no_cpu(bench: Bench) -> None:
    _, ready = await bench.ready()
    shim = ready.shim_pid
    pids = (bench.agent_pid(), shim)
    async with asyncio.timeout(WAIT_SECONDS):
        while await _used(pids, seconds=3) >= 0.05:
            pass  # it has not come to rest, or the machine's other guests make its time long


async def test_agent_and_shim_run_on_the_oldest_python_found_here(bench: Bench) -> None:
    bench.python = PYTHON_39[0] if PYTHON_39 else Path(sys.executable)
    _, ready = await bench.ready()

    for pid in (bench.agent_pid(), ready.shim_pid):
        assert command_of(pid or 0).startswith(f"{bench.python} -I ")


async def test_the_machine_is_described_alike_by_every_agent_on_it(bench: Bench) -> None:
    link = await bench.agent()
    first = await observe(link)
    await bench.kill_agent()
    second = await observe(await bench.agent())

    assert first.agent_id != second.agent_id
    assert (first.host_id, first.boot_id) == (second.host_id, second.boot_id)
    assert len(first.boot_id) == 36
    assert (first.system, first.release) == (os.uname().sysname, os.uname().release)
    assert first.memory_bytes == os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    assert first.cpus == os.cpu_count()
    assert (first.python, first.run_directory) == (str(bench.runtime), str(bench.run_directory))


async def test_the_versions_of_the_runtime_are_pushed_once_they_are_known(bench: Bench) -> None:
    bench.runtime = Path(sys.executable)
    found = await _runtime(await bench.agent())

    assert {
        **{name: version(name) for name in ("mlx", "mlx-lm", "llguidance")},
        "engine": found["engine"],
    } == found
    assert len(found["engine"]) == 12


async def test_a_controller_that_does_not_read_holds_nobody_up(bench: Bench) -> None:
    link, _ = await bench.ready("print('x' * 900_000, flush=True); say('ready'); sleep()")
    with socket.socket(socket.AF_UNIX) as deaf:
        deaf.connect(bench.node().socket)
        deaf.sendall(frames.encode(to_wire(Hello("controller", SPOKEN))))
        deaf.setblocking(False)
        question = frames.encode({**to_wire(ReadLog(RANK, 1_000_000)), "call": 1})
        sent = 0
        try:
            while sent < 100 * len(question) * 100:
                sent += deaf.send(question * 100)
        except BlockingIOError:
            pass

        assert (await observe(link)).ranks[0].phase == Phase.READY
        assert resident_bytes(bench.agent_pid()) < 200_000 * 1024


@pytest.mark.parametrize(
    "garbage",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        b"\xff\xff\xff\xff",
        frames.encode({"type": "observe", "call": 1}),
        frames.encode(to_wire(Hello("controller", (99,)))),
        b"",
    ],
)
async def test_a_stranger_is_shown_out_and_nobody_notices(bench: Bench, garbage: bytes) -> None:
    link = await bench.agent()
    reader, writer = await asyncio.open_unix_connection(bench.node().socket)
    writer.write(garbage)
    writer.write_eof()

    async with asyncio.timeout(WAIT_SECONDS):
        received = await reader.read()
    writer.close()

    assert received == frames.encode(to_wire(Hello("agent", SPOKEN)))
    assert (await observe(link)).ranks == ()


async def test_a_request_of_a_newer_protocol_is_refused_and_the_connection_goes_on(bench: Bench) -> None:
    link = await bench.agent()
    await observe(link)
    reader, writer = await asyncio.open_unix_connection(bench.node().socket)
    for frame in (
        to_wire(Hello("controller", (*SPOKEN, 99))),
        {"type": "from_the_future", "call": 1},
        {**to_wire(Observe()), "call": 2, "and": "more"},
    ):
        writer.write(frames.encode(frame))

    answers: list[str] = []
    async with asyncio.timeout(WAIT_SECONDS):
        while len(answers) < 3:
            kind = str((await frames.read(reader) or {}).get("type"))
            answers += [kind] if kind != "changed" else []  # a push comes at any time
    writer.close()

    assert answers == ["hello", "refused", "report"]


async def test_more_controllers_than_there_is_room_for_are_turned_away(bench: Bench) -> None:
    link = await bench.agent()
    links = [link] + [await bench.controller() for _ in range(31)]

    reader, writer = await asyncio.open_unix_connection(bench.node().socket)
    async with asyncio.timeout(WAIT_SECONDS):
        await reader.read()
    writer.close()

    assert {(await observe(link)).agent_id for link in links} == {(await observe(link)).agent_id}
    with pytest.raises(Refused):
        await ask(link, ReadLog(RANK, 1))
