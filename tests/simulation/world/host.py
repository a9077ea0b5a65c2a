"""``agent.host.Host`` on a simulated machine: all that an agent can see of it and do to it."""

from __future__ import annotations

import errno
import signal
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from reconciler.agent.ranks import directory
from reconciler.agent.system.usage import Measured
from reconciler.wire.codec import Refused
from reconciler.wire.launch import LaunchSpec, RankId
from reconciler.wire.node import (
    FetchWeights,
    Gone,
    ListArtifacts,
    Log,
    ModelReport,
    NodeReport,
    ReadArtifact,
    ShimState,
    Terminate,
)
from reconciler.wire.repair import Repair, RepairReport
from reconciler.wire.tools import Ending, RunTool, ToolSaid
from reconciler.wire.weights import KeptWeights
from tests.simulation.schedules.points import AGENT, DIE_AFTER, DIE_BEFORE, ERROR, SIGNAL

from .loop import PROCESS, Killed, Process
from .ranks import Files, Shim

if TYPE_CHECKING:
    from .machines import AgentProcess

T = TypeVar("T")

RUNTIME_SECONDS = 0.3
EXAMINE_SECONDS = 0.4
ASK_SECONDS = 0.01
LEFT_SECONDS = 0.02
"""Of a look at what a rank has left."""


class SimHost:
    """``agent.host.Host`` on a simulated machine."""

    def __init__(self, owner: AgentProcess) -> None:
        self._owner = owner
        self._machine = owner.machine
        self._world = owner.machine.world
        self._on_change: Callable[[bool], None] = lambda urgent: None
        self._runtime: Mapping[str, str] | None = None
        self._examined: dict[str, float] = {}

    def _effect(self, what: str, act: Callable[[], T], kinds: tuple[str, ...] = AGENT) -> T:
        """Something that changes the machine: the only place where that can happen to it."""
        process = PROCESS.get()
        if process is not None and not process.alive:
            raise Killed
        kind = self._world.pass_by(f"{self._machine.name}: {what}", kinds)
        if kind == DIE_BEFORE:
            self._owner.die()
            raise Killed
        if kind == ERROR or (self._machine.disk.full and ERROR in kinds):
            raise OSError(errno.ENOSPC, "No space left on device")
        self._world.oracles.effect_of_agent(self._machine, what)
        done = act()
        if kind == DIE_AFTER:
            self._owner.die()
            raise Killed
        return done

    # --- the machine and its runtime ---

    def identity(self) -> NodeReport:
        machine = self._machine
        return NodeReport(
            sequence=0,
            boot_id=machine.boot_id,
            agent_id=f"agent-{self._owner.number}",
            system=machine.facts.system,
            release="6.1",
            machine="x86_64",
            hostname=machine.name,
            memory_bytes=machine.memory_bytes,
            cpus=2,
            host_id=machine.name,
            python="/usr/bin/python3",
            runtime=None,
            run_directory=f"/run/{machine.name}",
            token=0,
        )

    def boot_id(self) -> str:
        return self._machine.boot_id

    def clock(self) -> float:
        return self._world.wall() + self._machine.skew

    def begin(self, on_change: Callable[[bool], None]) -> None:
        self._on_change = on_change
        self._world.loop.call_later(RUNTIME_SECONDS * self._machine.slow, self._know)

    def _know(self) -> None:
        self._runtime = self._world.runtime
        self._on_change(True)

    def end(self) -> None:
        return

    def runtime(self) -> Mapping[str, str] | None:
        return self._runtime

    def model(self, path: str) -> ModelReport:
        weights = self._world.weights.get(path)
        if weights is None:
            return ModelReport(path, f"/models/{path}", present=False)
        if self._runtime is None:
            return replace(weights, examining=True)
        now = self._world.loop.time()
        if path not in self._examined:
            self._examined[path] = now + EXAMINE_SECONDS * self._machine.slow
            self._world.loop.call_at(self._examined[path], self._on_change, True)
        return weights if self._examined[path] <= now else replace(weights, examining=True)

    def fetch(self, request: FetchWeights) -> None:
        raise ValueError("simulated machines have their weights")

    def serve_weights(self, path: str) -> None:
        raise ValueError("simulated machines keep their weights")

    def stored_weights(self, asked: Iterable[str]) -> tuple[KeptWeights, ...]:
        return ()

    def discard(self, path: str) -> None:
        raise ValueError("simulated machines keep their weights")

    def room(self) -> tuple[int | None, int]:
        return None, 0

    def repair(self, request: Repair) -> None:
        self._effect("begin a repair", partial(self._machine.repairs.begin, request))

    def confirm_repair(self, id: str) -> bool:
        return self._effect("confirm a repair", partial(self._machine.repairs.confirm, id))

    def repair_report(self) -> RepairReport | None:
        return self._machine.repairs.report()

    def continue_repair(self) -> bool:
        return self._machine.repairs.tend()

    # --- what is on disk ---

    def token(self) -> int:
        return self._machine.disk.token

    def save_token(self, token: int) -> None:
        self._effect(f"keep token {token}", partial(setattr, self._machine.disk, "token", token))

    def ranks(self) -> list[RankId]:
        return sorted(self._machine.disk.ranks)

    def create(self, spec: LaunchSpec) -> None:
        directory.check_id(spec.id)
        self._effect(
            f"make the directory of {spec.id}",
            partial(self._machine.disk.ranks.__setitem__, spec.id, Files(spec)),
        )

    def remove(self, id: RankId, socket: str) -> None:
        self._world.oracles.forgotten(self._machine, id)
        self._effect(f"remove the directory of {id}", partial(self._machine.disk.ranks.pop, id, None))

    def keep_record(self, id: RankId) -> None:
        """Leave nothing but the record of a rank of a job."""
        if id in self._machine.disk.ranks:
            self._effect(f"prune the directory of {id}", partial(self._machine.disk.pruned.add, id))

    def pruned(self, id: RankId) -> bool:
        return id in self._machine.disk.pruned

    def redact(self, id: RankId) -> None:
        """No secret is on a simulated disk."""

    async def artifacts(self, request: ListArtifacts | ReadArtifact) -> Any:
        return Refused("NotFound", "no simulated program leaves files")

    def spec(self, id: RankId) -> LaunchSpec | None:
        return self._machine.disk.ranks[id].spec

    def state(self, id: RankId) -> ShimState | None:
        files = self._machine.disk.ranks.get(id)
        return files.state if files else None

    def write_state(self, id: RankId, state: ShimState) -> None:
        self._effect(
            f"write the state of {id}", partial(setattr, self._machine.disk.ranks[id], "state", state)
        )

    def process(self, id: RankId) -> tuple[int, str] | None:
        return self._machine.disk.ranks[id].process

    def owner(self, id: RankId) -> str:
        return directory.Owner.THIS

    def words(self, id: RankId) -> str:
        return "it printed no reason"

    def read_log(self, id: RankId, bytes_max: int, offset: int | None) -> Log:
        return Log("", 0)

    # --- processes ---

    def start_shim(self, id: RankId) -> None:
        files = self._machine.disk.ranks[id]
        self._effect(f"start the shim of {id}", partial(Shim, self._machine, files))

    def prepare(self, id: RankId) -> None:
        return

    def end_standby(self, seconds: float) -> None:
        return

    def reap(self) -> None:
        return

    def connect(
        self, id: RankId, on_message: Callable[[Any], None], on_close: Callable[[], None]
    ) -> ShimLine:
        shim = self._shim(id)
        if shim is None:
            raise ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused")
        return ShimLine(self._owner.process, shim, on_message, on_close)

    def _shim(self, id: RankId) -> Shim | None:
        found = (p for p in self._machine.processes.values() if isinstance(p, Shim) and p.id == id)
        return next(found, None)

    async def ask_rank(self, socket: str) -> None:
        rank = self._world.sockets.get(socket)
        if rank is None or not rank.process.alive:
            raise ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused")
        await self._world.sleep(ASK_SECONDS)
        if rank.stuck:
            await self._world.loop.create_future()  # it takes the connection, and reads nothing

    def birth(self, pid: int) -> str | None:
        process = self._machine.processes.get(pid)
        return process.birth if process is not None else None

    async def leftovers_of(self, id: RankId, ports: tuple[int, ...]) -> tuple[str, str]:
        """At the earliest a moment after the end was seen, as on a machine of this world's pace."""
        await self._world.sleep(LEFT_SECONDS * self._machine.slow)
        process = self.process(id) if id in self._machine.disk.ranks else None
        if process is not None and self.birth(process[0]) == process[1]:
            return Gone.NO, f"process {process[0]}"
        return Gone.YES, ""

    async def run_tool(self, call: RunTool) -> ToolSaid:
        return ToolSaid(Ending.ABSENT)

    async def measure(self, pids: Iterable[int]) -> Measured | None:
        return None

    async def states(self, pids: Iterable[int]) -> dict[int, str]:
        there = self._machine.processes
        return {pid: "T" if there[pid].stopped else "S" for pid in pids if pid in there}

    def signal_process(self, pid: int, number: int) -> None:
        self._signal(pid, number)

    def signal_group(self, pid: int, number: int) -> None:
        self._signal(pid, number)

    def _signal(self, pid: int, number: int) -> None:
        process = self._machine.processes.get(pid)
        if process is not None:
            name = signal.Signals(number).name
            self._effect(f"{name} to {process}", partial(process.signal, number), SIGNAL)


class ShimLine:
    """The agent's side of its connection with a shim."""

    congested = False
    greeted = True

    def __init__(
        self, owner: Process, shim: Shim, on_message: Callable[[Any], None], on_close: Callable[[], None]
    ) -> None:
        self._owner = owner
        self._shim = shim
        self._on_message = on_message
        self._on_close = on_close
        self._open = True
        self._coming: deque[ShimState] = deque()
        """In the order in which it was sent, whatever the loop does with what falls due together."""
        shim.lines.append(self)
        self.notify(shim.state)

    def notify(self, state: ShimState) -> None:
        """The shim says how it stands."""
        loop = self._shim.machine.world.loop
        if self._owner.alive:
            self._coming.append(state)
            loop.call_soon(self._receive, context=self._owner.context)

    def _receive(self) -> None:
        state = self._coming.popleft()
        if self._open:
            self._on_message(state)

    def closed(self) -> None:
        """The shim is gone."""
        loop = self._shim.machine.world.loop
        if self._owner.alive:
            loop.call_soon(self._end, context=self._owner.context)

    def _end(self) -> None:
        if self._open:
            self._open = False
            self._on_close()

    def send(self, message: Any) -> None:
        shim = self._shim
        if self._open and shim.process.alive and isinstance(message, Terminate):
            shim.machine.world.loop.call_soon(
                shim.terminate, message.grace_seconds, context=shim.process.context
            )

    def reply(self, request: int, message: Any) -> None:
        raise AssertionError("a shim asks nothing")

    def close(self) -> None:
        self._open = False

    def abort(self) -> None:
        self._open = False
