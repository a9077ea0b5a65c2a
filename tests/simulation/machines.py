"""Machines that are no more than a state: processes, disks, shims and ranks, and the ``Host`` that agents see."""

from __future__ import annotations

import errno
import itertools
import signal
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from reconciler.agent import directory
from reconciler.agent.server import Agent
from reconciler.state import MachineFacts
from reconciler.wire.launch import Exit, ExitCode, LaunchSpec, Phase, Progress, RankId
from reconciler.wire.node import Gone, ModelReport, NodeReport, ShimState, Terminate

from .loop import PROCESS, Killed, Process
from .points import AGENT, DIE_AFTER, DIE_BEFORE, ERROR, SIGNAL

if TYPE_CHECKING:
    from .net import Line
    from .world import World

T = TypeVar("T")

START_SECONDS = 0.5
"""Of a rank's imports."""
LOAD_SECONDS = 2.0
WARM_SECONDS = 0.3
END_SECONDS = 0.2
PEER_LOST_SECONDS = 0.3
RUNTIME_SECONDS = 0.3
EXAMINE_SECONDS = 0.4
LEFT_SECONDS = 0.02
"""Of a look at what a rank has left."""


@dataclass
class Files:
    """What is on disk for one rank."""

    spec: LaunchSpec
    state: ShimState | None = None
    process: tuple[int, str] | None = None


@dataclass
class Disk:
    """What one agent keeps; it outlives every process and every boot."""

    token: int = 0
    ranks: dict[RankId, Files] = field(default_factory=dict)
    full: bool = False


class Machine:
    """One computer with the place of one agent on it."""

    def __init__(self, world: World, name: str, memory_bytes: int) -> None:
        self.world = world
        self.name = name
        self.memory_bytes = memory_bytes
        self.boots = 1
        self.up = True
        self.cut_off = False
        """Whether nobody reaches it over the network."""
        self.slow = 1.0
        self.skew = 0.0
        """What its clock is wrong by."""
        self.disk = Disk()
        self.pids = itertools.count(1000)
        self.processes: dict[int, Rank | Shim] = {}
        self.agent: AgentProcess | None = None
        self.sound = self.facts = MachineFacts(system="Linux")
        """What probes tell when nothing is wrong, as after a boot; and now."""
        self.load_seconds = LOAD_SECONDS
        self.withheld_at: float | None = None
        """Since when it is not fit for new ranks."""

    @property
    def boot_id(self) -> str:
        return f"{self.name}-boot-{self.boots}"

    @property
    def reachable(self) -> bool:
        return self.up and not self.cut_off

    @property
    def agent_alive(self) -> bool:
        """Whether somebody could tell what is here."""
        return self.agent is not None and self.agent.process.alive

    def alive(self) -> list[Rank]:
        """The rank processes that live here."""
        return [each for each in self.processes.values() if isinstance(each, Rank)]

    def told_facts(self) -> MachineFacts:
        """What probes tell now."""
        return replace(self.facts, boot_id=self.boot_id)

    def start_agent(self, token: int = 0) -> bool:
        """Have an agent; one that is there stays, and none is begun for a controller that was replaced."""
        if self.agent is not None and self.agent.process.alive:
            return True
        if self.disk.token > token > 0:
            return False
        self.agent = AgentProcess(self)
        return True

    def power_off(self) -> None:
        """Everything that runs ends at once; the disk stays."""
        self.world.note(f"{self.name} loses its power")
        self.up = False
        if self.agent is not None:
            self.agent.die()
        for each in list(self.processes.values()):
            each.vanish()
        self.processes.clear()

    def power_on(self) -> None:
        """Another boot."""
        self.boots += 1
        self.up = True
        self.facts = self.sound
        self.withheld_at = None
        self.world.note(f"{self.name} is up again")


class AgentProcess:
    """The product's agent, running on a simulated machine."""

    def __init__(self, machine: Machine) -> None:
        world = machine.world
        self.machine = machine
        self.number = next(world.numbers)
        self.process = Process(f"agent of {machine.name} #{self.number}")
        self.lines: list[Line] = []
        self.host = SimHost(self)
        self.agent: Agent | None = None
        world.note(f"{self.process.name} starts")
        world.loop.spawn(self.process, self._run(), "agent")

    async def _run(self) -> None:
        self.agent = Agent(self.machine.world.loop, self.host)
        looking = self.agent.take_up()
        self.agent.ranks.look_seconds = self.machine.world.pace.look_seconds
        self.agent.inquire()
        await self.agent.ending.wait()
        looking.cancel()
        self.die()

    def die(self) -> None:
        """The end, however it comes: its connections close behind it."""
        if not self.process.alive:
            return
        self.process.alive = False
        self.machine.world.note(f"{self.process.name} ends")
        for line in list(self.lines):
            line.agent_gone()
        self.lines.clear()


class SimHost:
    """``agent.host.Host`` on a simulated machine."""

    def __init__(self, owner: AgentProcess) -> None:
        self._owner = owner
        self._machine = owner.machine
        self._world = owner.machine.world
        self._on_change: Callable[[], None] = lambda: None
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

    def begin(self, on_change: Callable[[], None]) -> None:
        self._on_change = on_change
        self._world.loop.call_later(RUNTIME_SECONDS * self._machine.slow, self._know)

    def _know(self) -> None:
        self._runtime = self._world.runtime
        self._on_change()

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
            self._world.loop.call_at(self._examined[path], self._on_change)
        return weights if self._examined[path] <= now else replace(weights, examining=True)

    # --- what is on disk ---

    def token(self) -> int:
        return self._machine.disk.token

    def keep_token(self, token: int) -> None:
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

    def words(self, id: RankId) -> str:
        return "it left no word"

    def read_log(self, id: RankId, bytes_max: int, offset: int | None) -> tuple[str, int]:
        return "", 0

    # --- processes ---

    def start_shim(self, id: RankId) -> None:
        files = self._machine.disk.ranks[id]
        self._effect(f"start the shim of {id}", partial(Shim, self._machine, files))

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

    def birth(self, pid: int) -> str | None:
        process = self._machine.processes.get(pid)
        return process.birth if process is not None else None

    async def left(self, id: RankId, ports: tuple[int, ...]) -> tuple[str, str]:
        """At the earliest a moment after the end was seen, as on a machine of this world's pace."""
        await self._world.sleep(LEFT_SECONDS * self._machine.slow)
        process = self.process(id) if id in self._machine.disk.ranks else None
        if process is not None and self.birth(process[0]) == process[1]:
            return Gone.NO, f"process {process[0]}"
        return Gone.YES, ""

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

    def __init__(
        self, owner: Process, shim: Shim, on_message: Callable[[Any], None], on_close: Callable[[], None]
    ) -> None:
        self._owner = owner
        self._shim = shim
        self._on_message = on_message
        self._on_close = on_close
        self._open = True
        shim.lines.append(self)
        self.tell(shim.state)

    def tell(self, state: ShimState) -> None:
        """The shim says how it stands."""
        loop = self._shim.machine.world.loop
        if self._owner.alive:
            loop.call_soon(self._hear, state, context=self._owner.context)

    def _hear(self, state: ShimState) -> None:
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


class _Living:
    """What shims and ranks share."""

    def __init__(self, machine: Machine, id: RankId, kind: str) -> None:
        self.machine = machine
        self.id = id
        self.process = Process(f"{kind} {id}")
        self.pid = next(machine.pids)
        self.birth = f"{machine.boot_id} {self.pid}"
        self.stopped = False

    def __str__(self) -> str:
        return f"the {self.process.name}"

    def later(self, seconds: float, act: Callable[..., object], *args: Any) -> None:
        """Do something in its own time."""
        delay = seconds * self.machine.slow
        self.machine.world.loop.call_later(delay, act, *args, context=self.process.context)

    def vanish(self) -> None:
        """It is gone, and nobody is told."""
        self.process.alive = False
        self.machine.processes.pop(self.pid, None)

    def freeze(self) -> None:
        """SIGSTOP from somebody."""
        self.stopped = self.process.frozen = True

    def resume(self) -> None:
        if self.stopped:
            self.stopped = False
            self.machine.world.loop.thaw(self.process)


class Shim(_Living):
    """The parent of one rank: as the product's own, it writes what it knows and ends with its rank."""

    def __init__(self, machine: Machine, files: Files) -> None:
        super().__init__(machine, files.spec.id, "shim")
        self.files = files
        self.lines: list[ShimLine] = []
        self.state = ShimState(None, self.pid, self._clock(), Progress(Phase.STARTING))
        self._kill_at: float | None = None
        machine.processes[self.pid] = self
        self.machine.world.loop.call_soon(self._start, context=self.process.context)
        self.rank: Rank | None = None

    def _clock(self) -> float:
        return self.machine.world.wall() + self.machine.skew

    def _start(self) -> None:
        if not self._write(self.state):
            self.vanish()
            self._close()
            return
        self.rank = Rank(self.machine, self)
        self.files.process = (self.rank.pid, self.rank.birth)
        self.change(replace(self.state, pid=self.rank.pid))

    def _write(self, state: ShimState) -> bool:
        if self.machine.disk.full or self.id not in self.machine.disk.ranks:
            return False
        self.files.state = state
        return True

    def change(self, state: ShimState) -> None:
        """On disk first, then to the agents."""
        self.state = state
        self._write(state)
        for line in self.lines:
            line.tell(state)

    def hear(self, progress: Progress) -> None:
        """A line on the progress pipe."""
        if self.process.alive:
            self.change(replace(self.state, progress=progress))

    def terminate(self, grace_seconds: float) -> None:
        """SIGTERM now, SIGKILL when the grace is over; asked again it only ever comes sooner."""
        if self.rank is None or self.state.exit is not None:
            return
        world = self.machine.world
        due = world.loop.time() + max(0.0, grace_seconds)
        if self._kill_at is None:
            world.note(f"SIGTERM to {self.rank} on {self.machine.name}")
            world.oracles.terminated(self.rank)
            self.rank.resume()
            self.rank.terminate()
        elif due >= self._kill_at:
            return
        self._kill_at = due
        world.loop.call_at(due, self._kill, due, context=self.process.context)

    def _kill(self, due: float) -> None:
        if self._kill_at == due and self.rank is not None and self.rank.process.alive:
            self.rank.end(None, signal.SIGKILL, "it was asked to end and had not")

    def ended(self, ended: Exit) -> None:
        """The rank is gone."""
        if not self.process.alive:
            return
        last = replace(self.state.progress, phase=Phase.EXITED, demand=0)
        self.change(replace(self.state, exit=ended, progress=last))
        self.vanish()
        self._close()

    def signal(self, number: int) -> None:
        if number == signal.SIGCONT:
            self.resume()
        elif number == signal.SIGKILL:
            self.die()

    def die(self) -> None:
        """It is killed: its rank notices, and ends without anybody to say how."""
        self.vanish()
        self._close()
        if self.rank is not None and self.rank.process.alive and not self.rank.hung:
            self.rank.later(0.5, self.rank.end, ExitCode.ORPHANED, None, "the shim is gone")

    def _close(self) -> None:
        for line in self.lines:
            line.closed()
        self.lines.clear()


class Rank(_Living):
    """A rank on its way up, serving, and to its end."""

    def __init__(self, machine: Machine, shim: Shim) -> None:
        super().__init__(machine, shim.id, "rank")
        self.shim = shim
        self.config = shim.files.spec.config
        self.spec = shim.files.spec
        self.phase = Phase.STARTING
        self.steps = 0
        self.hung = False
        self.loaded_at = 0.0
        machine.processes[self.pid] = self
        machine.world.note(f"{self} starts on {machine.name}")
        machine.world.oracles.started(self)
        self.later(START_SECONDS, self._rendezvous)

    @property
    def node(self) -> str:
        return self.machine.name

    def tell(self, phase: str, **more: Any) -> None:
        self.phase = phase
        self.shim.hear(Progress(phase, self.steps, **more))

    def _rendezvous(self) -> None:
        if self.hung:
            return
        world = self.machine.world
        self.tell(Phase.RENDEZVOUS)
        others = [r for r in self.machine.alive() if r is not self and r.config.addresses]
        mine = self.config.addresses[self.id.rank]
        if any(r.config.addresses[r.id.rank] == mine and r.phase != Phase.STARTING for r in others):
            self.end(ExitCode.PORT_IN_USE, None, f"{mine} is in use")
            return
        if not self._joined():
            code = ExitCode.VERBS if self.config.backend == "jaccl" else ExitCode.RENDEZVOUS
            self.later(1.0, self.end, code, None, "nothing comes over the cable")
            return
        if self.id.rank == 0:
            world.sockets[self.config.socket] = self
        self.later(self.config.rendezvous_seconds, self._give_up)
        world.meet(self)

    def _joined(self) -> bool:
        """Whether what it is to reach the others over is there."""
        facts = self.machine.facts
        if self.config.backend == "jaccl" and facts.rdma_enabled is False:
            return False
        cabled = self.config.size > 1 and not self.config.addresses[0].startswith("127.")
        return not cabled or all(port.active for port in facts.ports)

    def _give_up(self) -> None:
        if self.phase == Phase.RENDEZVOUS and not self.hung:
            self.end(ExitCode.RENDEZVOUS, None, "the other ranks did not come")

    def load(self) -> None:
        """Everybody is there."""
        total = self.spec.memory_bytes
        self.tell(Phase.LOADING, total_bytes=total)
        self.loaded_at = self.machine.load_seconds * self.machine.slow
        self._loading(total, 0)

    def _loading(self, total: int, step: int) -> None:
        if self.hung or self.phase != Phase.LOADING:
            return
        steps = max(1, int(self.machine.load_seconds // 5) + 1)
        if step:
            self.tell(Phase.LOADING, total_bytes=total, loaded_bytes=total * step // steps)
        if step < steps:
            self.later(self.machine.load_seconds / steps, self._loading, total, step + 1)
        else:
            self.tell(Phase.WARM)
            self.later(WARM_SECONDS, self._ready)

    def _ready(self) -> None:
        if not self.hung and self.phase == Phase.WARM:
            self.tell(Phase.READY)

    def hang(self) -> None:
        """It stands still while a request waits, and hears nothing any more."""
        self.machine.world.note(f"{self} on {self.node} hangs")
        self.hung = True
        for each in self.machine.world.group_of(self):
            each.hung = True
        first = next((r for r in [self, *self.machine.world.group_of(self)] if r.id.rank == 0), self)
        first.shim.hear(Progress(first.phase, first.steps, demand=1))

    def terminate(self) -> None:
        if self.hung or self.phase == Phase.DRAINING:
            return
        self.tell(Phase.DRAINING)
        self.later(END_SECONDS, self.end, ExitCode.OK, None, "")

    def signal(self, number: int) -> None:
        if number == signal.SIGKILL:
            self.end(None, number, "")
        elif number == signal.SIGCONT:
            self.resume()

    def end(self, code: int | None, number: int | None, detail: str) -> None:
        """It is gone; the others of its group notice, and its shim writes down how it ended."""
        if not self.process.alive:
            return
        world = self.machine.world
        world.note(f"{self} on {self.node} ends: {code} {number} {detail}")
        self.vanish()
        world.left(self)
        shim = self.shim
        ended = Exit(code, number, world.wall() + self.machine.skew, detail)
        if shim.process.alive:
            world.loop.call_soon(shim.ended, ended, context=shim.process.context)
        for other in world.group_of(self):
            if not other.hung and other.phase not in (Phase.STARTING, Phase.RENDEZVOUS):
                other.later(PEER_LOST_SECONDS, other.end, ExitCode.PEER_LOST, None, "a rank is gone")
