"""Shims and ranks of the simulated world: what runs on a machine for a group, from its start to its end."""

from __future__ import annotations

import signal
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from reconciler.planning.recovery.rollback import ATTEMPTS_MAX
from reconciler.wire.launch import Exit, ExitCode, LaunchSpec, Phase, Progress, RankId
from reconciler.wire.node import ShimState

from .loop import Process

if TYPE_CHECKING:
    from .gateway import Serving
    from .host import ShimLine
    from .machines import Machine

START_SECONDS = 0.5
"""Of a rank's imports."""
WARM_SECONDS = 0.3
END_SECONDS = 0.2
PEER_LOST_SECONDS = 0.3


@dataclass
class Files:
    """What is on disk for one rank."""

    spec: LaunchSpec
    state: ShimState | None = None
    process: tuple[int, str] | None = None


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
        self.machine.world.oracles.service.look()

    def resume(self) -> None:
        if self.stopped:
            self.stopped = False
            self.machine.world.loop.thaw(self.process)
            self.machine.world.oracles.service.look()


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
        self.rank = _kind(self.files.spec)(self.machine, self)
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
            line.notify(state)

    def receive(self, progress: Progress) -> None:
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
        self.hung = self.deaf = self.verbs = False
        self.answered = False
        """Whether it has ever answered a request; only rank 0 does."""
        self.loaded_at = 0.0
        self._serving: Serving | None = None
        machine.processes[self.pid] = self
        machine.world.note(f"{self} starts on {machine.name}")
        machine.world.oracles.started(self)
        self.later(START_SECONDS, self._rendezvous)

    @property
    def node(self) -> str:
        return self.machine.name

    @property
    def stuck(self) -> bool:
        """Whether it serves nobody, whatever it says."""
        return self.hung or self.deaf

    def vanish(self) -> None:
        self.machine.world.oracles.ended(self)
        super().vanish()
        if self._serving is not None:
            self._serving.gone()

    def serving(self) -> Serving:
        """What it does for clients."""
        from .gateway import Serving

        if self._serving is None:
            self._serving = Serving(self)
        return self._serving

    def report(self, phase: str, **more: Any) -> None:
        self.phase = phase
        self.verbs = self.verbs or phase == Phase.VERBS
        self.shim.receive(Progress(phase, self.steps, verbs=self.verbs, **more))

    def _rendezvous(self) -> None:
        if self.hung:
            return
        world = self.machine.world
        self.report(Phase.RENDEZVOUS)
        if self.machine.taken:
            self.machine.taken -= 1
            self.end(ExitCode.PORT_IN_USE, None, f"a port of {self.node} is in use by another")
            return
        leading = [r for r in self.machine.alive() if r is not self and r.id.rank == 0 and r.config.size > 1]
        mine = self.config.control
        if self.id.rank == 0 and any(
            r.config.control == mine and r.phase == Phase.RENDEZVOUS for r in leading
        ):
            self.end(ExitCode.PORT_IN_USE, None, f"{mine} is in use")
            return
        hindrance = self.hindrance()
        if hindrance:
            if self.config.backend == "jaccl":
                self.report(Phase.VERBS)
            code = ExitCode.VERBS if self.config.backend == "jaccl" else ExitCode.RENDEZVOUS
            self.later(1.0, self.end, code, None, hindrance)
            return
        if self.id.rank == 0 and self.config.socket:
            world.sockets[self.config.socket] = self
        self.later(self.config.rendezvous_seconds, self._give_up)
        world.meet(self)

    def hindrance(self) -> str:
        """Why it does not reach the others; empty where it does."""
        facts = self.machine.facts
        jaccl = self.config.backend == "jaccl"
        cabled = self.config.size > 1 and not self.config.addresses[0].startswith("127.")
        if (jaccl and facts.rdma_enabled is False) or (
            cabled and not all(port.active for port in facts.ports)
        ):
            return "nothing comes over the cable"
        if jaccl and any(port.mapped_gid is False for port in facts.ports):
            return "No IPv4-mapped GID found"
        mine = self.config.addresses[self.id.rank].rpartition(":")[0]
        if cabled and not jaccl and mine not in {port.address for port in facts.ports}:
            return f"Couldn't bind socket: {mine} is no address of {self.machine.name}"
        return ""

    def _give_up(self) -> None:
        if self.phase == Phase.RENDEZVOUS and not self.hung:
            self.end(ExitCode.RENDEZVOUS, None, "the other ranks did not come")

    def load(self) -> None:
        """Everybody is there."""
        if self.config.batch_max == self.machine.world.refused_batch:
            self.end(ExitCode.CONFIG, None, f"a batch of {self.config.batch_max} is more than it can do")
            return
        if self.config.backend == "jaccl":
            self.report(Phase.VERBS)
            if self.machine.garbage:
                self.end(ExitCode.WRONG_RESULT, None, "the sum of arrays of 65536 bytes is wrong")
                return
        total = self.spec.memory_bytes
        self.report(Phase.LOADING, total_bytes=total)
        self.loaded_at = self.machine.load_seconds * self.machine.slow
        self._loading(total, 0)

    def _loading(self, total: int, step: int) -> None:
        if self.hung or self.phase != Phase.LOADING:
            return
        steps = max(1, int(self.machine.load_seconds // 5) + 1)
        if step:
            self.report(Phase.LOADING, total_bytes=total, loaded_bytes=total * step // steps)
        if step < steps:
            self.later(self.machine.load_seconds / steps, self._loading, total, step + 1)
        else:
            self.report(Phase.WARM)
            self.later(WARM_SECONDS, self._ready)

    def _ready(self) -> None:
        if not self.hung and self.phase == Phase.WARM:
            self.report(Phase.READY)

    def hang(self) -> None:
        """It stands still while a request waits, and hears nothing any more."""
        self.machine.world.note(f"{self} on {self.node} hangs")
        self.hung = True
        if self.phase != Phase.READY:  # one that is not up in time is enough to take a change back
            self.machine.world.crashes[self.id.deployment] += ATTEMPTS_MAX
        for each in self.machine.world.group_of(self):
            each.hung = True
        self.machine.world.oracles.service.look()
        first = next((r for r in [self, *self.machine.world.group_of(self)] if r.id.rank == 0), self)
        first.shim.receive(Progress(first.phase, first.steps, demand=1, verbs=first.verbs))

    def deafen(self) -> None:
        """It takes no requests any more, and says that all is well."""
        self.machine.world.note(f"{self} on {self.node} reads nothing")
        self.deaf = True
        self.machine.world.oracles.service.look()

    def terminate(self) -> None:
        if self.hung or self.phase == Phase.DRAINING:
            return
        self.report(Phase.DRAINING)
        self.later(END_SECONDS, self.end, ExitCode.OK, None, "")

    def signal(self, number: int) -> None:
        if number == signal.SIGKILL:
            self.end(None, number, "")
        elif number == signal.SIGCONT:
            self.resume()

    def end(self, code: int | None, number: int | None, detail: str, program: bool = False) -> None:
        """It is gone; the others of its group notice, and its shim writes down how it ended."""
        if not self.process.alive:
            return
        world = self.machine.world
        world.crashes[self.id.deployment] += number is not None
        world.note(f"{self} on {self.node} ends: {code} {number} {detail}")
        self.vanish()
        world.left(self)
        shim = self.shim
        ended = Exit(code, number, world.wall() + self.machine.skew, detail, program=program)
        if shim.process.alive:
            world.loop.call_soon(shim.ended, ended, context=shim.process.context)
        for other in world.group_of(self):
            if self.takes_along(other, code):
                other.later(PEER_LOST_SECONDS, other.end, ExitCode.PEER_LOST, None, "a rank is gone")

    def takes_along(self, other: Rank, code: int | None) -> bool:
        """Whether another rank of its group ends with it."""
        return not other.hung and other.phase not in (Phase.STARTING, Phase.RENDEZVOUS)


def _kind(spec: LaunchSpec) -> type[Rank]:
    """What runs for a deployment, or for a job."""
    from .programs import ProgramRank

    return Rank if spec.config.job is None else ProgramRank
