"""The sandbox's answers to ranks on emulated Macs (``emulated``): contexts of RDMA, and the network between them.

A process that has introduced itself has a context for its life: its open devices, its queue pairs, its relays. Kernel
objects are counted by contexts, so a dead process holds none. Only the state of its machine has others: those taken
without an owner (``exhaust-pd``), or left by a killed rank (``leaky``). A kernel may also panic then (``fragile``).
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import random
import signal
import time
import uuid
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from .control import Ask, Channel, Question
from .relays import Relay, is_listening
from .tools.system import report_name
from .world import preconditions
from .world.changes import fault, leak_killed, panic_over_rdma
from .world.preconditions import BROKEN, GPU, Destination
from .world.state import End, World

DEAD_AFTER_SECONDS = 20.0
"""The silence after which TCP with keep-alive gives up a connection."""
TICK_SECONDS = 1.0
UNREACHED_SECONDS = 1.0
"""The time-out of a connection to nowhere; macOS takes longer, 75 s."""

Change = Callable[[Callable[[World], World]], None]


@dataclass(eq=False, slots=True)
class Context:
    """One process."""

    number: int
    machine: str
    pid: int
    channel: Channel
    devices: Counter[str] = field(default_factory=Counter)
    ends: list[list[End]] = field(default_factory=list)
    """The ports of its queue pairs, by peer."""
    pairs: list[tuple[End, End]] = field(default_factory=list)
    """Its connected queue pairs: the port here, and the one at the other end of the cable."""
    broken: set[tuple[End, End]] = field(default_factory=set)
    """Queue pairs whose cable has been unplugged since."""
    ports: set[int] = field(default_factory=set)
    """Ports on which it listens."""


@dataclass(eq=False, slots=True)
class Line:
    """A relay and its role in the emulated world."""

    relay: Relay
    destination: Destination
    near: Context
    far: Context | None = None
    """With RDMA only: the process at the other end."""
    kept_alive: bool = False
    """True if a long-idle connection is closed."""


class Verbs:
    """All processes on all machines. ``asks`` belongs into the control socket, ``changed`` into the sandbox's watch."""

    def __init__(self, world: Callable[[], World], change: Change) -> None:
        self._world = world
        self._change = change
        self._contexts: dict[int, Context] = {}
        self._numbers = itertools.count(1)
        self._lines: set[Line] = set()
        self.asks: dict[str, Ask] = {"rank": self._rank}

    def domains(self, machine: str) -> int:
        """Return the protection domains that living processes of a machine hold, on all its devices."""
        return sum(sum(c.devices.values()) for c in self._contexts.values() if c.machine == machine)

    def pids(self, machine: str) -> tuple[int, ...]:
        return tuple(sorted(context.pid for context in self._contexts.values() if context.machine == machine))

    async def run(self) -> None:
        while True:
            await asyncio.sleep(TICK_SECONDS)
            self._refresh()

    def changed(self, before: World, after: World) -> None:
        """Apply a change of the world to the processes."""
        shaken = set()
        for context in self._contexts.values():
            old, new = before.machine(context.machine).faults, after.machine(context.machine).faults
            if new.gpu != old.gpu:
                context.channel.send({"tell": "gpu", "text": GPU.get(new.gpu, "")})
            if new.decayed and not old.decayed and context.pairs:
                context.channel.send({"tell": "failed", "text": BROKEN})
            if new.hung != old.hung:
                context.channel.send({"tell": "hang", "on": new.hung})
            if new.mute != old.mute:
                context.channel.send({"tell": "mute", "how": new.mute})
            if new.garbage != old.garbage:
                context.channel.send({"tell": "garbage", "how": new.garbage})
            if before.machine(context.machine).lan != after.machine(context.machine).lan:
                self._reset(context)
            broken = {pair for pair in context.pairs if after.peer_of(pair[0]) != pair[1]} - context.broken
            context.broken |= broken
            shaken |= {context.machine} if broken else set()
        self._refresh()
        for machine in shaken:
            self._shake(machine)

    def _reset(self, context: Context) -> None:
        """End a process's connections over the common network, because its machine no longer has that address."""
        for line in self._lines:
            to = line.destination
            if to.cable is None and context.machine in (to.here, to.there):
                line.relay.reset()

    def _refresh(self) -> None:
        """Cut connections whose path no longer works, and restore those that work again."""
        world, now, ticks = self._world(), time.time(), time.monotonic()
        for line in self._lines:
            if preconditions.passes(world, now, line.destination, rdma=line.far is not None):
                line.relay.mend()
                continue
            line.relay.cut(ticks)
            assert line.relay.cut_at is not None
            if line.kept_alive and ticks - line.relay.cut_at >= DEAD_AFTER_SECONDS:
                line.relay.reset()

    # --- one process -------------------------------------------------------------------------------

    async def _rank(self, question: Question, channel: Channel) -> None:
        number = next(self._numbers)
        context = Context(number, str(question["machine"]), int(question["pid"]), channel)
        machine = self._world().machine(context.machine)
        self._contexts[number] = context
        try:
            channel.send(
                {
                    "ok": True,
                    "jaccl": machine.jaccl,
                    "alone": machine.faults.alone,
                    "working_set": machine.working_set_bytes,
                    "gpu": GPU.get(machine.faults.gpu, ""),
                    "garbage": machine.faults.garbage,
                }
            )
            if machine.faults.hung:
                channel.send({"tell": "hang", "on": True})
            if machine.faults.mute:
                channel.send({"tell": "mute", "how": machine.faults.mute})
            while (message := await channel.receive()) is not None:
                channel.send({"ok": True, **await self._answered(context, message)})
        finally:
            del self._contexts[number]
            if context.devices:
                self._leak(context)
                self._shake(context.machine)
            await self._free()

    def _leak(self, context: Context) -> None:
        """If kills leak, keep the resources of devices that a process did not release itself."""
        if self._world().machine(context.machine).faults.leaked_per_kill:
            self._change(lambda world: leak_killed(world, context.machine))

    def _shake(self, name: str) -> None:
        """Panic the kernel of a fragile machine, as often as it is meant to."""
        machine, now = self._world().machine(name), time.time()
        if machine.is_up(now) and random.uniform(0, 100) < machine.faults.panic_percent:
            report, seconds = report_name("panic", now), machine.faults.panic_seconds
            boot_id = str(uuid.uuid4()).upper()
            self._change(lambda world: panic_over_rdma(world, name, now, boot_id, report, seconds))

    async def _free(self) -> None:
        """Clean up after an ended process. Over TCP, its peers notice. Over RDMA, nobody does, so a connection stays
        until both ends are gone."""
        for line in list(self._lines):
            if not any(each and each.number in self._contexts for each in (line.near, line.far)):
                self._lines.discard(line)
                await line.relay.close()

    async def _answered(self, context: Context, message: dict[str, Any]) -> dict[str, Any]:
        match message.get("say"):
            case "listen":
                return self._listen(context, int(message["port"]), bool(message.get("chosen")))
            case "way":
                return await self._destination(context, message)
            case "open":
                return await self._open(context, message["devices"])
            case "connect":
                return await self._connect(context, message)
            case "close":
                context.devices.clear()
                return {}
            case "felt":
                if self._world().machine(context.machine).faults.gpu == "timeout":
                    self._change(lambda world: fault(world, context.machine, gpu=""))
                return {}
            case unknown:
                return {"ok": False, "error": f"nobody answers {unknown!r}"}

    def _listen(self, context: Context, port: int, chosen: bool) -> dict[str, Any]:
        held = self._world().machine(context.machine).faults.ports_held
        if held and not chosen:
            self._change(lambda world: fault(world, context.machine, ports_held=held - 1))
            return {"errno": "EADDRINUSE"}
        context.ports.add(port)
        return {}

    def _leads(self, context: Context, host: str, port: int) -> Destination | str:
        listener = next((each.machine for each in self._contexts.values() if port in each.ports), "")
        return preconditions.destination(self._world(), context.machine, host, listener)

    async def _destination(self, context: Context, message: dict[str, Any]) -> dict[str, Any]:
        port = int(message["port"])
        destination = self._leads(context, str(message["host"]), port)
        if isinstance(destination, str) or not preconditions.passes(self._world(), time.time(), destination):
            error = destination if isinstance(destination, str) else "ETIMEDOUT"
            if error == "ETIMEDOUT":
                await asyncio.sleep(UNREACHED_SECONDS)
            return {"errno": error}
        if not await is_listening(port):
            return {"errno": "ECONNREFUSED"}
        kept_alive = bool(message.get("kept_alive"))
        return {"port": await self._add(Line(Relay(port, True), destination, context, kept_alive=kept_alive))}

    async def _add(self, line: Line) -> int:
        self._lines.add(line)
        self._refresh()
        return await line.relay.start()

    # --- RDMA --------------------------------------------------------------------------------------

    async def _open(self, context: Context, devices: list[list[str]]) -> dict[str, Any]:
        while self._world().machine(context.machine).faults.verbs_wedged:
            await asyncio.sleep(TICK_SECONDS)
            os.kill(context.pid, 0)  # a process that is gone waits for nothing
        world = self._world()
        machine = world.machine(context.machine)
        names = [name for row in devices for name in row]
        held = Counter[str]()
        for other in self._contexts.values():
            if other.machine == context.machine:
                held.update(other.devices)
        error = preconditions.opening(world, time.time(), context.machine, names, held)
        if error:
            return {"error": error}
        context.devices.update(names)
        ports = {port.device: port.receptacle for port in machine.ports}
        context.ends = [[(machine.name, ports[name]) for name in row] for row in devices]
        return {
            "infos": [{"context": context.number, "ends": ends} if ends else None for ends in context.ends]
        }

    async def _connect(self, context: Context, message: dict[str, Any]) -> dict[str, Any]:
        world = self._world()
        for mine, info in zip(context.ends, message["infos"], strict=True):
            theirs = _ends(info)
            for at, end in enumerate(mine):
                other = theirs[at] if at < len(theirs) else None
                error = preconditions.joining(world, end, other)
                if error:
                    return {"error": error}
                assert other is not None
                context.pairs.append((end, other))
        right = int(message["right"])
        far = self._contexts.get(int(message["infos"][right]["context"]))
        if far is None:
            return {"error": preconditions.RTR.format(preconditions.NOT_REACHED)}
        here, there = context.ends[right][0], _ends(message["infos"][right])[0]
        ranks = (context, far)
        relay = Relay(int(message["port"]), announces_end=False, sent=lambda side: self._used(ranks[side]))
        return {"port": await self._add(Line(relay, Destination(here[0], there[0], (here, there)), *ranks))}

    def _used(self, user: Context) -> bool:
        """Use queue pairs: unplugged ones kill the processes at both ends."""
        ends = {end for pair in user.broken for end in pair}
        for each in self._contexts.values():
            if ends.intersection(pair[0] for pair in each.broken):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(each.pid, signal.SIGSEGV)
        return not ends


def _ends(info: dict[str, Any] | None) -> list[End]:
    """Return the ports of a peer's queue pairs."""
    return [(str(name), int(number)) for name, number in info["ends"]] if info else []
