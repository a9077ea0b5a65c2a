"""What it costs that a rank is on another machine: the gateway through SSH, beside the same gateway on a Unix socket.

The machine is a real SSH server on loopback, so that no time on a wire is in the figures.
"""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path

from tests.bench.asking import ask
from tests.bench.backend import serving
from tests.bench.figures import Figure, alone, paired
from tests.bench.middles import gateway
from tests.gateway.conftest import let_in
from tests.gateway.rank_double import eventually
from tests.ports import free_port
from tests.processes import descendants
from tests.sshd import Sshd, sshd

from .overhead import added, per_chunk


def measure(quick: bool) -> Iterator[Figure]:
    """Both ways in turns: one is idle while the other is measured."""
    return iter(asyncio.run(_measure(quick)))


async def _measure(quick: bool) -> list[Figure]:
    loads, times, requests = (((4, 5),), 2, 5) if quick else (((8, 200), (100, 100)), 4, 100)
    figures = []
    async with AsyncExitStack() as stack:
        home = Path(tempfile.mkdtemp(prefix="r-"))
        stack.callback(shutil.rmtree, home)
        socket = home / "r-000000000000.sock"
        backend, _ = await stack.enter_async_context(serving(socket))
        machine = await stack.enter_async_context(sshd(home / "sshd", free_port()))
        let_in(machine, home)
        places = [home / "near", home / "far"]
        for place in places:
            place.mkdir()
        (home / "keys").rename(places[1] / "keys")
        near = await stack.enter_async_context(gateway(places[0], socket))
        far = await stack.enter_async_context(gateway(places[1], socket, machine=machine.machine))
        await eventually(lambda: backend.connections == 2)
        there = _serving(machine)
        added_ms = [
            1000 * await added(lambda: ask(far.url, 1), lambda: ask(near.url, 1), requests)
            for _ in range(times)
        ]
        figures.append(alone("SSH: added to an idle request", "ms", added_ms, "<= 2 ms"))
        for streams, words in loads:
            ours, direct, theirs = [], [], []
            for _ in range(times):
                ours.append(await per_chunk(backend, far, streams, words))
                direct.append(await per_chunk(backend, near, streams, words))
                theirs.append(await per_chunk(backend, far, streams, words, there))
            figures.append(paired(f"SSH: CPU a chunk, {streams} streams", "us", ours, direct, "<= 2 x"))
            figures.append(alone(f"SSH: sshd and relay, {streams} streams", "us", theirs))
    return figures


def _serving(machine: Sshd) -> list[int]:
    """The processes that serve the gateway's connection there."""
    assert machine.process is not None
    return descendants(machine.process.pid)[1:]
