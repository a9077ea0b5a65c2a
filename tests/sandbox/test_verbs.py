"""What processes of emulated Macs say to the sandbox and are told (``reconciler.sandbox.emulated``)."""

from __future__ import annotations

import asyncio
import json
import os
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from reconciler.sandbox.control import Control
from reconciler.sandbox.verbs import Verbs
from reconciler.sandbox.world import changes, macs
from reconciler.sandbox.world.state import GIB, World

NAMES = ("a", "b")


class Sandbox:
    """The part of it that processes speak with."""

    def __init__(self, control: Path) -> None:
        self.world = changes.addressed(macs.world(NAMES, "mini", macs.MESH, NAMES, 0.0))
        self.verbs = Verbs(lambda: self.world, self.change)
        self.path = control
        self.control = Control(control, self.verbs.asks)

    def change(self, change: Callable[[World], World]) -> None:
        before, self.world = self.world, change(self.world)
        self.verbs.changed(before, self.world)

    @asynccontextmanager
    async def process(self, machine: str) -> AsyncIterator[Process]:
        reader, writer = await asyncio.open_unix_connection(self.path)
        try:
            yield Process(reader, writer, machine)
        finally:
            writer.close()


class Process:
    """One process of a machine."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, machine: str) -> None:
        self._reader, self._writer, self._machine = reader, writer, machine

    async def begin(self) -> dict[str, Any]:
        return await self._request({"ask": "rank", "machine": self._machine, "pid": os.getpid()})

    async def send(self, what: str, **more: Any) -> dict[str, Any]:
        return await self._request({"say": what, **more})

    async def _request(self, message: dict[str, Any]) -> dict[str, Any]:
        self._writer.write(json.dumps(message).encode() + b"\n")
        return await self.receive()

    async def receive(self) -> dict[str, Any]:
        line: dict[str, Any] = json.loads(await asyncio.wait_for(self._reader.readline(), 20))
        return line


@asynccontextmanager
async def sandbox() -> AsyncIterator[Sandbox]:
    with tempfile.TemporaryDirectory(prefix="s-") as directory:
        built = Sandbox(Path(directory) / "control")
        await built.control.start()
        try:
            yield built
        finally:
            await built.control.close()


async def test_a_process_is_told_what_its_machine_is_like_and_what_happens_to_it() -> None:
    async with sandbox() as built:
        built.change(lambda world: changes.with_machine(world, "a", jaccl=False))
        built.change(lambda world: changes.fault(world, "a", alone=True))
        async with built.process("a") as process:
            hello = await process.begin()
            told = {"jaccl": False, "alone": True, "garbage": "", "gpu": "", "working_set": 48 * 2**30}
            assert hello == {"ok": True, **told}
            built.change(lambda world: changes.fault(world, "a", gpu="timeout"))
            assert "kIOGPUCommandBufferCallbackErrorTimeout" in (await process.receive())["text"]
            assert await process.send("felt") == {"tell": "gpu", "text": ""}
            assert await process.receive() == {"ok": True}
            assert built.world.machine("a").faults.gpu == "", "it comes once"


async def test_a_port_that_is_held_is_in_use_for_as_many_as_it_was_asked_for() -> None:
    async with sandbox() as built, built.process("a") as process:
        await process.begin()
        built.change(lambda world: changes.fault(world, "a", ports_held=1))
        assert await process.send("listen", port=21_000) == {"ok": True, "errno": "EADDRINUSE"}
        assert await process.send("listen", port=21_000) == {"ok": True}


async def test_what_a_process_holds_of_a_device_is_free_when_it_is_gone() -> None:
    async with sandbox() as built:
        (device,) = (port.device for port in built.world.machine("a").ports if port.ip)
        async with built.process("a") as first:
            await first.begin()
            opened = await first.send("open", devices=[[], [device]], ring=False)
            assert [bool(info) for info in opened["infos"]] == [False, True]
            assert built.verbs.domains("a") == 1
            async with built.process("a") as second:
                await second.begin()
                refused = await second.send("open", devices=[[], [device]], ring=False)
                assert refused["error"] == "[jaccl] Register memory region failed"
        await gone(built)
        assert built.verbs.domains("a") == 0


async def gone(built: Sandbox) -> None:
    """Until the sandbox knows of no process of the first machine."""
    for _ in range(2000):
        if not built.verbs.pids("a"):
            return
        await asyncio.sleep(0.01)
    raise AssertionError("there still is one")


async def use_rdma(built: Sandbox, orderly: bool) -> None:
    """A process of the first machine uses a device, and ends, in order or not."""
    (device,) = (port.device for port in built.world.machine("a").ports if port.ip)
    async with built.process("a") as process:
        await process.begin()
        await process.send("open", devices=[[], [device]], ring=False)
        if orderly:
            await process.send("close")
    await gone(built)


@pytest.mark.parametrize(("leaky", "orderly", "held"), [(True, False, 1), (True, True, 0), (False, False, 0)])
async def test_a_process_that_gives_nothing_back_leaks_where_kills_do(
    leaky: bool, orderly: bool, held: int
) -> None:
    async with sandbox() as built:
        built.change(lambda world: changes.fault(world, "a", leaked_per_kill=int(leaky), wired_per_kill=GIB))
        await use_rdma(built, orderly)
        machine = built.world.machine("a")
        assert (machine.domains_held, machine.leaked_bytes) == (held, held * GIB)


@pytest.mark.parametrize(("percent", "orderly", "panics"), [(100, False, 1), (100, True, 0), (0, False, 0)])
async def test_a_fragile_kernel_panics_when_a_process_that_uses_rdma_is_killed(
    percent: int, orderly: bool, panics: int
) -> None:
    async with sandbox() as built:
        built.change(lambda world: changes.fault(world, "a", panic_percent=percent, panic_seconds=60.0))
        await use_rdma(built, orderly)
        machine = built.world.machine("a")
        assert (len(machine.rdma_panics), machine.is_up(time.time())) == (panics, not panics)
        assert machine.faults.panic_percent == percent, "it stays fragile"


@pytest.mark.parametrize("used", [True, False])
async def test_a_fragile_kernel_panics_when_a_cable_is_unplugged_that_is_used(used: bool) -> None:
    async with sandbox() as built, built.process("a") as one, built.process("b") as other:
        ends = {name: next(p for p in built.world.machine(name).ports if p.ip) for name in NAMES}
        built.change(lambda world: changes.fault(world, "a", panic_percent=100.0, panic_seconds=60.0))
        for process in (one, other):
            await process.begin()
        await one.send("open", devices=[[], [ends["a"].device]], ring=False)
        opened = await other.send("open", devices=[[ends["b"].device], []], ring=False)
        if used:
            joined = await one.send("connect", infos=[None, opened["infos"][0]], right=1, port=21_779)
            assert joined["ok"], joined
        built.change(lambda world: changes.unplug(world, ("a", ends["a"].receptacle)))
        assert len(built.world.machine("a").rdma_panics) == used
        assert not built.world.machine("b").panics


async def test_who_listens_behind_a_firewall_is_not_reached() -> None:
    async with sandbox() as built, built.process("a") as one, built.process("b") as other:
        await one.begin()
        await other.begin()
        built.change(lambda world: changes.with_machine(world, "b", firewall=True))
        await other.send("listen", port=21_778)
        assert await one.send("way", host="127.0.0.1", port=21_778) == {"ok": True, "errno": "ETIMEDOUT"}


async def test_nobody_is_told_how_to_reach_a_port_where_nobody_listens() -> None:
    async with sandbox() as built, built.process("a") as process:
        await process.begin()
        assert (await process.send("way", host="127.0.0.1", port=21_777))["errno"] == "ECONNREFUSED"
        assert (await process.send("nonsense"))["ok"] is False
