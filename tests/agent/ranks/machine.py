"""A machine of which every process is known, and the ranks of an agent on it."""

from __future__ import annotations

import asyncio
import dataclasses
import signal
from collections.abc import Callable, Iterable
from typing import Any

from reconciler.agent.ranks.directory import Owner
from reconciler.agent.ranks.rank import Rank
from reconciler.agent.ranks.ranks import Ranks
from reconciler.agent.system.usage import Measured, Usage
from reconciler.wire.launch import LaunchSpec, Phase, Progress, RankId
from reconciler.wire.node import Gone, Load, RankReport, ShimState
from tests.agent.bench import launch, soon

ID = RankId("llama", 0, 1, 0)
PID, SHIM = 70, 71
BOOT = "boot-2"


def spec(id: RankId = ID, control: str = "10.0.0.1:4000", spare: bool = False) -> LaunchSpec:
    addresses = ("10.0.0.1:5000", "10.0.0.2:5001")
    return launch(id, "/run/r.sock", size=2, addresses=addresses, control=control, spare=spare)


@dataclasses.dataclass
class Running:
    """A process. What the kernel holds does not end when it is killed."""

    born: str
    stopped: bool = False
    held: bool = False
    killed: bool = False


class Line:
    """The connection to a shim."""

    congested, greeted = False, True

    def __init__(self) -> None:
        self.sent: list[Any] = []
        self.open = True

    def send(self, message: Any) -> None:
        self.sent.append(message)

    def abort(self) -> None:
        self.open = False


class Machine:
    """What is on its disk of each rank, its processes, and the shims that answer."""

    def __init__(self) -> None:
        self.specs: dict[RankId, LaunchSpec | None] = {}
        self.written: dict[RankId, ShimState] = {}
        self.born: dict[RankId, tuple[int, str]] = {}
        self.owners: dict[RankId, str] = {}
        self.running: dict[int, Running] = {}
        self.shims: set[RankId] = set()
        self.lines: dict[RankId, Line] = {}
        self.hear: Callable[[Any], None] = lambda message: None
        self.lose: Callable[[], None] = lambda: None
        self.left: list[tuple[str, str]] = []
        self.looked_for: tuple[int, ...] = ()
        self.disk_full = False
        self.cannot_start: OSError | None = None
        self.spare_of: RankId | None = None
        self.looks = 0
        self.measured: list[list[int]] = []
        self.measurable = True
        self.deaf = False
        """Whether rank 0 takes no requests."""

    def with_rank(
        self, state: ShimState | None = None, shim: bool = True, born: str = f"{BOOT} 5"
    ) -> Machine:
        """A rank with its process and its shim."""
        self.specs[ID] = spec()
        self.born[ID] = (PID, born)
        self.running = {PID: Running(f"{BOOT} 5"), SHIM: Running(f"{BOOT} 4")}
        self.written[ID] = state or ShimState(PID, SHIM, 3.0, Progress(Phase.READY))
        if shim:
            self.shims.add(ID)
        return self

    # --- as the agent sees it ---

    def boot_id(self) -> str:
        return BOOT

    def clock(self) -> float:
        return 1000.0

    def ranks(self) -> list[RankId]:
        return sorted(self.specs)

    def pruned(self, id: RankId) -> bool:
        return False

    def spec(self, id: RankId) -> LaunchSpec | None:
        return self.specs[id]

    def state(self, id: RankId) -> ShimState | None:
        return self.written.get(id)

    def write_state(self, id: RankId, state: ShimState) -> None:
        if self.disk_full:
            raise OSError("no space left on device")
        self.written[id] = state

    def process(self, id: RankId) -> tuple[int, str] | None:
        return self.born.get(id)

    def owner(self, id: RankId) -> str:
        return self.owners.get(id, Owner.THIS)

    def words(self, id: RankId) -> str:
        return "its last line"

    def create(self, spec: LaunchSpec) -> None:
        self.specs[spec.id] = spec

    def start_shim(self, id: RankId) -> None:
        if self.cannot_start is not None:
            raise self.cannot_start
        self.shims.add(id)

    def keep_record(self, id: RankId) -> None:
        raise AssertionError("no rank here is a job's")

    def redact(self, id: RankId) -> None:
        raise AssertionError("no rank here is a job's")

    async def artifacts(self, request: Any) -> Any:
        raise AssertionError("no rank here is a job's")

    def remove(self, id: RankId, socket: str) -> None:
        del self.specs[id]

    def connect(self, id: RankId, on_message: Callable[[Any], None], on_close: Callable[[], None]) -> Line:
        if id not in self.shims:
            raise ConnectionRefusedError("connection refused")
        self.hear, self.lose = on_message, on_close
        line = self.lines[id] = Line()
        return line

    def birth(self, pid: int) -> str | None:
        return self.running[pid].born if pid in self.running else None

    def signal_process(self, pid: int, number: int) -> None:
        assert pid, "as a number of a process this stands for many"
        process = self.running.get(pid)
        if process is None:
            return
        if number == signal.SIGCONT:
            process.stopped = False
        elif number == signal.SIGKILL:
            process.killed = True
            if not process.held:
                del self.running[pid]

    signal_group = signal_process

    async def ask_rank(self, socket: str) -> None:
        if self.deaf:
            await asyncio.Event().wait()

    async def leftovers_of(self, id: RankId, ports: tuple[int, ...]) -> tuple[str, str]:
        self.looked_for = ports
        return self.left.pop(0) if self.left else (Gone.YES, "")

    async def states(self, pids: Iterable[int]) -> dict[int, str]:
        assert pids, "nobody is asked of nothing"
        self.looks += 1
        return {pid: "T" if self.running[pid].stopped else "S" for pid in pids}

    async def measure(self, pids: Iterable[int]) -> Measured | None:
        self.measured.append(sorted(pids))
        if not self.measurable:
            return None
        return Measured(Load(1.0, 5, "", 0.5), {pid: Usage(2.0, 4096) for pid in pids if pid})

    def prepare(self, id: RankId) -> None:
        self.spare_of = id

    def end_standby(self, seconds: float) -> None:
        self.spare_of = None


class Watching:
    """The ranks of an agent on a machine, and what controllers are told: whether each change is urgent."""

    def __init__(self, machine: Machine) -> None:
        self.told: list[bool] = []
        self.machine = machine
        host: Any = machine
        self.ranks = Ranks(host, self.told.append, look_seconds=0.001, standby_seconds=0.0)

    def adopt(self) -> Watching:
        self.ranks.adopt()
        if ID in self.machine.lines:
            self.machine.hear(self.machine.written[ID])
        self.told.clear()
        return self

    @property
    def rank(self) -> Rank:
        found = self.ranks.get(ID)
        assert found is not None
        return found

    @property
    def report(self) -> RankReport:
        (found,) = self.ranks.reports()
        return found

    async def until(self, condition: Callable[[RankReport], bool]) -> RankReport:
        await soon(lambda: condition(self.report))
        return self.report


def watched(**state: Any) -> tuple[Machine, Watching]:
    """A machine with a rank, as ``with_rank`` makes it, whose agent has adopted that."""
    machine = Machine().with_rank(**state)
    return machine, Watching(machine).adopt()
