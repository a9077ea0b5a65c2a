"""The sandbox: one process with the state of all emulated machines, their SSH servers and the control socket."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import shutil
import time
import uuid
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from reconciler.errors import Invalid

from . import commands, places, processes
from .acts.act import Moment, Result
from .control import Channel, Control, Question
from .controllers_mac import ControllersMac
from .daemons import Daemons
from .held import Holder
from .places import USER, Place, put_idleness
from .sshd import Sshd
from .tools import table
from .tools.call import Live, ToolCall, ToolOutput
from .verbs import Verbs
from .world import changes
from .world.state import Kept, Machine, World

log = logging.getLogger(__name__)

CHANGES_AWAITED_SECONDS = 1.0
"""The interval at which a hanging tool checks whether it still hangs, in addition to every change."""
HELD_LOOK_SECONDS = 0.5
"""The interval of looks for new ranks on a machine whose kernel holds them at their exit."""
Watch = Callable[[World, World], None]
"""Called with the world before and after each change."""


@dataclass(frozen=True, slots=True)
class Ground:
    """The folder of a sandbox: ``$RECONCILER_HOME/sandbox``."""

    folder: Path

    @property
    def control(self) -> Path:
        return self.folder / "control"

    @property
    def key(self) -> Path:
        """Return the path of the key that may log in on every machine."""
        return self.folder / "key"

    @property
    def cluster(self) -> Path:
        return self.folder / "cluster"

    @property
    def controller(self) -> Path:
        """Return the folder for the ``PYTHONPATH`` of a controller that should run on an emulated Mac as well."""
        return self.folder / "controller"

    @property
    def log(self) -> Path:
        return self.folder / "log"

    def place(self, name: str) -> Place:
        return Place(name, self.folder / "machines" / name)

    def places(self) -> list[Place]:
        return [Place(each.name, each) for each in sorted(self.folder.glob("machines/*")) if each.is_dir()]


class Sandbox:
    """Runs from ``start`` until ``stop``. Modules that emulate more of a machine add questions to ``control.asks``, and
    watch."""

    def __init__(self, ground: Ground, world: World, models: Path | None = None) -> None:
        self.ground = ground
        self.world = world
        self.places = {machine.name: ground.place(machine.name) for machine in world.machines}
        self.control = Control(
            ground.control,
            {"world": self._send_world, "do": self._do, "tool": self._tool, "down": self._down},
        )
        self.over = asyncio.Event()
        self._models = models
        self._servers = {
            name: Sshd(place, lambda name=name: self.world.machine(name))  # type: ignore[misc]
            for name, place in self.places.items()
        }
        self.verbs = Verbs(lambda: self.world, lambda change: self.change(change(self.world)))
        self.control.asks.update(self.verbs.asks)
        self._watches: list[Watch] = [self.verbs.changed]
        self._controllers_mac = ControllersMac(ground.controller, self.port)
        self._daemons = {name: Daemons(place) for name, place in self.places.items()}
        self._holders: dict[str, Holder] = {}
        self._changed = asyncio.Condition()
        self._tasks: set[asyncio.Task[None]] = set()

    # --- life ---

    async def start(self) -> None:
        """Start. Raises ``OSError``, and ``ValueError`` if paths would be too long."""
        key = places.key(self.ground.key)
        for place in self.places.values():
            place.check()
            place.create(key, self._models)
        for name, server in self._servers.items():
            await server.start(self.places[name].port())
            self.places[name].write_settings(self.ground.control, server.port)
        self._controllers_mac.put(self.world)
        await self.control.start()
        self._spawn(self.verbs.run())

    async def stop(self) -> None:
        """End every process of every machine, and stop listening."""
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*(server.stop() for server in self._servers.values()))
        for place in self.places.values():
            self._release(place.name)
            await self._daemons[place.name].stop()
            left = await processes.kill_all(place.home)
            if left:
                log.error("%d processes of %s cannot be killed", left, place.name)
            shutil.rmtree(place.root / "tmp", ignore_errors=True)

    def port(self, name: str) -> int:
        return self._servers[name].port

    # --- changes ---

    def watch(self, call: Watch) -> None:
        """Register a callback for changes, with the world before and after. It must not wait."""
        self._watches.append(call)

    def change(self, world: World) -> None:
        before, self.world = self.world, world
        for machine in world.machines:
            self._feel(before.machine(machine.name), machine)
        self._controllers_mac.put(world)
        if world.controller_private and not before.controller_private:
            for server in self._servers.values():
                server.abort()
        for call in tuple(self._watches):
            call(before, world)
        self._spawn(self._notify())

    def _feel(self, before: Machine, after: Machine) -> None:
        server = self._servers[after.name]
        server.gate(not after.faults.partitioned)
        if not after.faults.unkillable_seconds:
            self._release(after.name)
        if before.faults.idle_seconds != after.faults.idle_seconds:
            put_idleness(self.places[after.name].packages, after.faults.idle_seconds)
        if after.lan != before.lan:
            self._spawn(server.move())
        self._daemons[after.name].follow(after.services if after.is_up(time.time()) else ())
        for was, port in zip(before.ports, after.ports, strict=True):
            if port.kept is not None and port.undone and port != was:
                self._spawn(self._restore(after.name, port.receptacle, port.kept))
        if after.boot_id != before.boot_id or after.away_until != before.away_until:
            self._spawn(self._restart(after))

    async def _restart(self, machine: Machine) -> None:
        """End everything at once, and start SSH again with the machine, if it is still in this boot."""
        server, place = self._servers[machine.name], self.places[machine.name]
        await server.stop()
        await processes.kill_all(place.home)
        while not machine.is_up(time.time()):
            if machine.away_until == changes.AT_THE_LOCK:
                await server.start(server.port, lambda: self._unlock(machine.name))
                return
            await asyncio.sleep(max(0.01, min(1.0, machine.away_until - time.time())))
        now = self.world.machine(machine.name)
        if (now.boot_id, now.away_until) == (machine.boot_id, machine.away_until):
            await server.start(server.port)
            self._daemons[machine.name].follow(now.services)
            await self._notify()

    async def _restore(self, name: str, receptacle: int, kept: Kept) -> None:
        """Restore the settings of a port, if something still keeps these."""
        await asyncio.sleep(kept.seconds)
        port = self.world.port((name, receptacle))
        if port.kept == kept and port.undone:
            self.change(changes.restore(self.world, name, receptacle))

    async def _hold(self, name: str) -> None:
        """Hold every rank of a machine at its exit, including later ones, as long as its fault lasts. Raises
        ``Invalid`` if that is impossible."""
        holder = self._holders.get(name)
        if holder is not None:
            return
        holder = Holder()
        try:
            await asyncio.to_thread(_hold_ranks, holder, self.places[name].home)
        except Invalid:
            holder.release()
            raise
        self._holders[name] = holder
        self._spawn(self._keep_holding(name, holder))

    async def _keep_holding(self, name: str, holder: Holder) -> None:
        while self._holders.get(name) is holder:
            await asyncio.sleep(HELD_LOOK_SECONDS)
            try:
                await asyncio.to_thread(_hold_ranks, holder, self.places[name].home)
            except (Invalid, TimeoutError) as error:
                log.error("%s: %s", name, error)

    def _release(self, name: str) -> None:
        holder = self._holders.pop(name, None)
        if holder is not None:
            holder.release()

    def _unlock(self, name: str) -> None:
        """Unlock a machine whose disk got its password over SSH."""
        self.change(changes.unlock(self.world, name, time.time()))

    async def _notify(self) -> None:
        async with self._changed:
            self._changed.notify_all()

    def _spawn(self, work: Any) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # --- questions on the control socket ---

    async def _send_world(self, question: Question, channel: Channel) -> None:
        channel.send({"ok": True, "world": world_as_json(self.world, self.port, time.time())})

    async def _do(self, question: Question, channel: Channel) -> None:
        came = self._happen(question)
        held = [machine.name for machine in came.world.machines if machine.faults.unkillable_seconds]
        for name in held:
            await self._hold(name)
        if held:  # changes made meanwhile stay
            came = self._happen(question)
        self.change(came.world)
        if came.kills:
            killed = processes.kill_ranks(self.places[came.kills].home)
            channel.send({"ok": True, "said": f"{came.text}: {len(killed)} of them"})
            return
        channel.send({"ok": True, "said": came.text})

    def _happen(self, question: Question) -> Result:
        words = [str(word) for word in question["words"]]
        moment = Moment(time.time(), str(uuid.uuid4()).upper())
        undo = bool(question.get("undo"))
        return commands.happen(self.world, str(question["command"]), words, moment, undo)

    async def _tool(self, question: Question, channel: Channel) -> None:
        output = self._answer(question)
        gone = asyncio.ensure_future(channel.receive())
        try:
            while output.hangs and not gone.done():
                async with self._changed:
                    with contextlib.suppress(TimeoutError):
                        await asyncio.wait_for(self._changed.wait(), CHANGES_AWAITED_SECONDS)
                output = self._answer(question)
        finally:
            gone.cancel()
        if output.hangs:
            return
        channel.send_tool(output.code, output.stdout, output.stderr, output.become, output.as_root)
        await channel.sent()
        if output.world is not None:
            self.change(output.world)
        if output.reboots:
            boot_id = str(uuid.uuid4()).upper()
            self.change(changes.reboot(self.world, str(question["machine"]), time.time(), boot_id))

    def _answer(self, question: Question) -> ToolOutput:
        name, argv = str(question["machine"]), tuple(str(word) for word in question["argv"])
        place = self.places[self.world.machine(name).name]
        root, live = bool(question.get("root")), self._live(place, argv[0] if argv else "")
        return table.answer(ToolCall(self.world, name, argv, root, time.time(), str(place.home), USER, live))

    def _live(self, place: Place, tool: str) -> Live:
        """Return the live facts that this tool needs, because listing all processes takes a while."""
        live = Live(domains=self.verbs.domains(place.name), services=self._daemons[place.name].pids)
        if tool in ("pgrep", "netstat"):
            found = processes.of(place.home)
            live = replace(live, processes=found, ports=processes.ports(found) if tool == "netstat" else ())
        if tool == "df":
            usage = shutil.disk_usage(place.home)
            live = replace(live, disk_kib=(usage.total // 1024, usage.free // 1024))
        return live

    async def _down(self, question: Question, channel: Channel) -> None:
        await self.stop()
        channel.send({"ok": True})
        await channel.sent()
        self.over.set()


def world_as_json(world: World, port: Callable[[str], int], now: float) -> dict[str, Any]:
    """Return the world as plain JSON, with derived facts for each port."""
    body = asdict(world)
    for machine, shown in zip(world.machines, body["machines"], strict=True):
        shown["ssh_port"] = port(machine.name)
        shown["up"] = machine.is_up(now)
        shown["away_until"] = None if machine.away_until == changes.AT_THE_LOCK else machine.away_until
        for each, shown_port in zip(machine.ports, shown["ports"], strict=True):
            end = (machine.name, each.receptacle)
            shown_port["device"] = each.device
            shown_port["bridged"], shown_port["address"] = each.bridged, each.address
            shown_port["active"] = world.is_active(end, now)
            shown_port["rdma_up"] = world.is_verbs_up(end, now)
    return body


def _hold_ranks(holder: Holder, home: Path) -> None:
    for process in processes.of(home):
        if processes.RANK.search(process.command):
            holder.hold(process.pid)


async def run(sandbox: Sandbox, ready: Callable[[], None]) -> None:
    """Run until a request to end, or until cancelled. Raises as ``start``."""
    try:
        await sandbox.start()
        ready()
        await sandbox.over.wait()
    finally:
        await sandbox.stop()
        await sandbox.control.close()


async def sweep(ground: Ground) -> int:
    """End the processes that a dead sandbox has left running. Return their number."""
    found = sum(len(processes.of(place.home)) for place in ground.places())
    for place in ground.places():
        await processes.kill_all(place.home)
    with contextlib.suppress(FileNotFoundError):
        ground.control.unlink()
    return found
