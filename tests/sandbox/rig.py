"""Emulated Macs without SSH: the part of the sandbox that ranks speak with, and real ranks on their Pythons."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import shutil
import site
import tempfile
import threading
import time
import venv
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from reconciler.sandbox.control import Control
from reconciler.sandbox.places import put_shim
from reconciler.sandbox.verbs import Verbs
from reconciler.sandbox.world.changes import addressed
from reconciler.sandbox.world.state import World
from reconciler.wire.launch import Phase, RankConfig
from tests.runner.ranks import Group, Rank, configs

ROOT = Path(__file__).parents[2]


class Rig:
    """The world of a sandbox, its control socket, and a Python for each machine."""

    def __init__(self, world: World, directory: Path) -> None:
        self.world = world
        self.directory = directory
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()
        self.verbs = Verbs(lambda: self.world, self._change)
        self._control = Control(directory / "control", self.verbs.asks)
        self.on_loop(self._control.start())
        self._watch = asyncio.run_coroutine_threadsafe(self.verbs.run(), self._loop)
        for machine in world.machines:
            self._build(machine.name)

    def on_loop(self, work: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(30)

    def _build(self, name: str) -> None:
        root = self.directory / name
        venv.create(root, symlinks=True)
        (packages,) = (root / "lib").glob("python3*/site-packages")
        host = [ROOT, *map(Path, site.getsitepackages())]
        lines = [str(path) for path in host] + [
            line for each in host[1:] for file in each.glob("*.pth") for line in file.read_text().split()
        ]
        (packages / "host.pth").write_text("\n".join(line for line in lines if line.startswith("/")) + "\n")
        put_shim(packages, name, self.directory / "control")

    def python(self, name: str) -> str:
        return str(self.directory / name / "bin" / "python3")

    def _change(self, change: Callable[[World], World]) -> None:
        before, self.world = self.world, change(self.world)
        self.verbs.changed(before, self.world)

    def change(self, change: Callable[[World], World]) -> None:
        """Something happens to the machines or their cables."""

        async def do() -> None:
            self._change(change)

        self.on_loop(do())

    def wait_free(self, seconds: float = 30.0) -> None:
        """Until no device of any machine is held by a process: the end of one is heard of a moment after it."""
        deadline = time.monotonic() + seconds
        while held := [m.name for m in self.world.machines if self.verbs.domains(m.name)]:
            assert time.monotonic() < deadline, f"devices of {held} are still held"
            time.sleep(0.01)

    def close(self) -> None:
        self._watch.cancel()
        self.on_loop(self._control.close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(30)
        self._loop.close()

    # --- groups ----------------------------------------------------------------------------------

    def matrix(self, members: list[str], ring: bool = False) -> tuple[tuple[str, ...], ...]:
        """The devices as the cables have them."""
        pairs = {(a, b) for a in range(len(members)) for b in range(len(members)) if a != b}
        if ring:
            size = len(members)
            pairs = {(a, b) for a, b in pairs if (a - b) % size in (1, size - 1)}
        return tuple(
            tuple(self.device(members[a], members[b]) if (a, b) in pairs else "" for b in range(len(members)))
            for a in range(len(members))
        )

    def device(self, here: str, there: str) -> str:
        for port in self.world.machine(here).ports:
            peer = self.world.peer_of((here, port.receptacle))
            if peer and peer[0] == there:
                return port.device
        return ""

    def ip(self, here: str, there: str) -> str:
        """Of the port at which one machine is joined to another."""
        port = self.world.machine(here).port_of(self.device(here, there))
        return port.ip if port else ""

    def _joined(self, config: RankConfig, members: list[str]) -> RankConfig:
        """It finds rank 0 over the cable to it, where there is one, else over the network."""
        port = config.control.rpartition(":")[2]
        hosts = [self.ip(members[0], name) or "127.0.0.1" for name in members[1:]]
        if not hosts:
            return config
        control = [f"{host}:{port}" for host in hosts]
        rank = config.id.rank
        return dataclasses.replace(
            config, control=control[max(0, rank - 1)], also_control=() if rank else tuple(control[1:])
        )

    @contextlib.contextmanager
    def running(self, model: Path, members: list[str], ring: bool = False, **changes: Any) -> Iterator[Group]:
        """A started group over JACCL, not waited for; ends every process it started."""
        directory = Path(tempfile.mkdtemp(prefix="r-"))
        changes = {
            "backend": "jaccl",
            "prefer_ring": ring,
            "devices": self.matrix(members, ring),
            "rendezvous_seconds": 60.0,
            "verbs_seconds": 60.0,
            **changes,
        }
        ranks: list[Rank] = []
        try:
            for config, name in zip(configs(model, directory, len(members), **changes), members, strict=True):
                ranks.append(Rank(self._joined(config, members), directory, python=self.python(name)))
            yield Group(ranks, ranks[0].config.socket)
        finally:
            for rank in ranks:
                rank.end()
            self.wait_free()
            shutil.rmtree(directory)


@contextlib.contextmanager
def rig(world: World) -> Iterator[Rig]:
    """With a network that is ready."""
    directory = Path(tempfile.mkdtemp(prefix="s-"))
    try:
        built = Rig(addressed(world), directory)
        try:
            yield built
        finally:
            built.close()
    finally:
        shutil.rmtree(directory)


def ends(group: Group, seconds: float = 60.0) -> list[int]:
    """How all ranks ended; a signal is negative."""
    return [rank.exit_code(seconds) for rank in group.ranks]


def still(group: Group, seconds: float) -> bool:
    """Whether all ranks still live after so long."""
    time.sleep(seconds)
    return all(rank.process.poll() is None for rank in group.ranks)


PHASES = [Phase.STARTING, Phase.RENDEZVOUS, Phase.VERBS, Phase.LOADING, Phase.WARM, Phase.READY]
