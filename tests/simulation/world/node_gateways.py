"""The gateways of simulated nodes: what ``remote.nodes.gateway`` finds on a machine, and what it does there."""

from __future__ import annotations

import errno
import json
import signal
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from reconciler.errors import Silent, Unreachable
from reconciler.execution import gateways
from reconciler.gateway.routing.routes import RoutesFile, parse_routes
from reconciler.remote.bootstrap.profile import Profile
from reconciler.remote.commands import Completed
from reconciler.remote.nodes import gateway as remote_gateway
from reconciler.remote.nodes.local import LocalNode
from reconciler.remote.runtime.agent_file import Bundle
from reconciler.remote.runtime.gateway_file import gateway_file
from reconciler.wire.generation import Routes
from tests.simulation.schedules.points import (
    CRASH_AFTER,
    CRASH_BEFORE,
    ERROR,
    LOST,
    START,
    UNANSWERED,
    WRITE,
)

from .loop import Killed, Process

if TYPE_CHECKING:
    from .machines import Machine
    from .world import World

COMMAND_SECONDS = 0.05
"""A command over SSH takes this long, besides the way there and back."""
IMPORT_SECONDS = 0.4
"""Of a gateway's process, until it takes its lock."""
LISTEN_SECONDS = 0.1
FOLLOW_SECONDS = 0.25
"""So soon a gateway uses routes that were put there."""
ANSWERS_SECONDS = 0.3
"""A gateway that is asked to end gives its last answers for so long."""
WRITE_AGAIN_SECONDS = 1.0
"""So often a gateway tries to write what a full disk did not take."""
PUT_SECONDS = 30.0
KEY_FILE, REMEMBERED_FILE = "gateway-key", "fronts.json"
KEY = b"the private key for ranks on other machines"
ROOT = PurePosixPath("/home/me/.reconciler")
PYTHON = "/usr/bin/python3"


# --- the program -------------------------------------------------------------------------------------


def program_of(version: int) -> Bundle:
    """The gateway's program in a version of the product."""
    return Bundle(f"gateway-{version}.pyz", f"the gateway of version {version}".encode())


PROGRAM: ContextVar[Bundle] = ContextVar("program")
"""The gateway's program in the version that a controller has."""


def _program() -> Bundle:
    """Return the program of the controller that asks; outside of simulated ones, the product's own."""
    return PROGRAM.get(None) or gateway_file()


for each in (remote_gateway, gateways):
    vars(each)["gateway_file"] = _program


# --- the controller's own files ----------------------------------------------------------------------


class HomeFile:
    """A file in the controller's home, without a disk: as much of a ``Path`` as is asked of it."""

    def __init__(self, world: World, process: Process, name: str) -> None:
        self._world = world
        self._process = process
        self.name = name

    def __str__(self) -> str:
        return self.name

    def with_name(self, name: str) -> HomeFile:
        return HomeFile(self._world, self._process, name)

    def read_bytes(self) -> bytes:
        try:
            return self._world.home[self.name]
        except KeyError:
            raise FileNotFoundError(errno.ENOENT, "No such file or directory", self.name) from None

    def read_text(self, encoding: str) -> str:
        return self.read_bytes().decode(encoding)

    def write_text(self, text: str, encoding: str) -> None:
        if self._world.disk_full:
            raise OSError(errno.ENOSPC, "No space left on device")
        self._world.home[self.name] = text.encode(encoding)

    def replace(self, target: HomeFile) -> None:
        """The effect of a write: until now nobody reads what was written."""
        if not self._process.alive:
            raise Killed
        kind = self._world.pass_by(f"write {target.name}", WRITE)
        if kind == CRASH_BEFORE:
            self._world.kill_controller(self._process)
        if kind == ERROR:
            raise OSError(errno.ENOSPC, "No space left on device")
        self._world.home[target.name] = self._world.home.pop(self.name)
        if kind == CRASH_AFTER:
            self._world.kill_controller(self._process)


def gateways_of(
    world: World, process: Process, find: Callable[[Any], remote_gateway.NodeGateway]
) -> gateways.Gateways:
    """The gateways of nodes, as a controller remembers them in its home."""
    remembered: Any = HomeFile(world, process, REMEMBERED_FILE)
    key: Any = HomeFile(world, process, KEY_FILE)
    world.home.setdefault(KEY_FILE, KEY)
    return gateways.Gateways(find, remembered, key)


# --- a machine -----------------------------------------------------------------------------------------


class GatewayHome:
    """``~/.reconciler/front`` of a machine, with the processes that it is the home of. Files outlive every boot."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.files: dict[str, bytes] = {}
        """Routes and keys, by their paths in it."""
        self.programs: set[str] = set()
        self.lock_pid: int | None = None
        """The process that the lock names: it may have ended."""
        self.said: dict[str, Any] | None = None
        """``gateway.json``."""
        self.last_words = ""
        self.processes: list[FrontProcess] = []
        self.port_taken = False
        """Whether somebody else listens at the address of the next gateway."""
        self.held = False
        """Whether a debugger holds its gateways: SIGCONT continues none."""
        self.stubborn = False
        """Whether gateways give answers that never end, so that SIGTERM alone ends none."""

    @property
    def running(self) -> FrontProcess | None:
        """The process that a look finds: the one that the lock names, or else any other."""
        named = (each for each in self.processes if each.pid == self.lock_pid)
        return next(named, self.processes[0] if self.processes else None)

    @property
    def serving(self) -> FrontProcess | None:
        """The gateway that answers clients; None if none does."""
        return next((each for each in self.processes if each.listens and not each.stopped), None)

    @property
    def shown(self) -> bool:
        """Whether a look shows that it serves: there was room for its words."""
        serving = self.serving
        return serving is not None and self.said is not None and self.said["pid"] == serving.pid

    def put(self, path: PurePosixPath, content: bytes) -> None:
        """A file is there from now on."""
        if path.parent.name == "agents":
            self.programs.add(path.name)
            return
        name = str(path.relative_to(ROOT / remote_gateway.FOLDER))
        self.files[name] = content
        for each in self.processes:
            each.later(FOLLOW_SECONDS, each.follow)

    def look(self) -> str:
        """Return what a look prints."""
        found = self.running
        state = "T" if found is not None and found.stopped else "S"
        process = f"{found.pid} {state} {found.command}" if found is not None else ""
        sums = "".join(
            f"{sha256(content).hexdigest()}  {path}\n" for path, content in sorted(self.files.items())
        )
        said = json.dumps(self.said) if self.said is not None else ""
        return f"{process}\n{sums}\n{said}\n{self.last_words}\n"

    def start(self, program: str) -> str:
        """Start a process, unless a look finds one, and return what is printed."""
        if self.running is not None:
            return ""
        if program not in self.programs:
            return "missing\n"
        self.last_words, self.said, self.programs = "", None, {program}
        self.processes.append(FrontProcess(self, program))
        return ""

    def signal(self, names: Sequence[str]) -> None:
        """Send signals to the process that a look finds."""
        for name in names:
            found = self.running
            if found is not None:
                found.signal(getattr(signal, f"SIG{name}"))

    def remove(self, paths: Sequence[str]) -> None:
        """Remove files, and folders with all that is in them."""
        gone = [name for name in self.files for path in paths if name == path or name.startswith(f"{path}/")]
        for name in gone:
            self.files.pop(name, None)

    def power_off(self) -> None:
        """All processes end at once."""
        for each in list(self.processes):
            each.end("", told=False)


class FrontProcess:
    """A gateway's process on a node, from its start to its end."""

    def __init__(self, home: GatewayHome, program: str) -> None:
        machine = home.machine
        self.home = home
        self.program = program
        self.pid = next(machine.pids)
        self.process = Process(f"gateway of {machine.name} pid {self.pid}")
        self.stopped = self.listens = self.locked = False
        self.routes = _Taken()
        machine.world.note(f"{self.process.name} starts {program}")
        self.later(IMPORT_SECONDS, self._lock)

    def __str__(self) -> str:
        return f"the {self.process.name}"

    @property
    def command(self) -> str:
        return f"{PYTHON} -I {ROOT}/agents/{self.program} {ROOT / remote_gateway.FOLDER}"

    def later(self, seconds: float, act: Callable[..., object], *args: Any) -> None:
        """Do something in its own time."""
        machine = self.home.machine
        machine.world.loop.call_later(seconds * machine.slow, act, *args, context=self.process.context)

    def _lock(self) -> None:
        """Take the lock, and write down who has it as soon as there is room."""
        others = (each for each in self.home.processes if each is not self and each.locked)
        if next(others, None) is not None:
            self.end("another gateway has this home")
            return
        self.locked = True
        self._write_lock()
        self.follow()

    def _write_lock(self) -> None:
        if self.home.machine.disk.full:
            self.later(WRITE_AGAIN_SECONDS, self._write_lock)
        else:
            self.home.lock_pid = self.pid

    def follow(self) -> None:
        """Use the routes that lie there; until there are any, wait for them."""
        if not self.locked or remote_gateway.ROUTES not in self.home.files:
            return
        self.routes.read(self.home.files[remote_gateway.ROUTES])
        if not self.listens:
            self.later(LISTEN_SECONDS, self._listen)
        self._say()

    def _listen(self) -> None:
        if self.listens:
            return
        if self.home.port_taken:
            problem = f"{self.routes.current.listen} is in use"
            if not self.home.machine.disk.full:
                self.home.said = {"version": 1, "pid": self.pid, "endpoint": None, "problem": problem}
            self.end(f"gateway: {problem}")
            return
        self.listens = True
        self.home.machine.world.note(f"{self} listens")
        self.home.machine.world.oracles.gateways.listens(self)
        self._say()

    def _say(self) -> None:
        """Write ``gateway.json``, once there is room for it."""
        if not self.listens:
            return
        if self.home.machine.disk.full:
            self.later(WRITE_AGAIN_SECONDS, self._say)
            return
        routes = self.routes.current
        self.home.said = {
            "version": 1,
            "pid": self.pid,
            "endpoint": f"http://{routes.listen}/v1",
            "listen": routes.listen,
            "sequence": routes.sequence,
            "problem": "",
        }

    def freeze(self) -> None:
        """SIGSTOP from somebody."""
        self.home.machine.world.note(f"{self} is stopped")
        self.stopped = self.process.frozen = True

    def signal(self, number: int) -> None:
        """A signal of the controller's."""
        world = self.home.machine.world
        world.note(f"{signal.Signals(number).name} to {self}")
        if number == signal.SIGKILL:
            self.end("")
        elif number == signal.SIGCONT and self.stopped and not self.home.held:
            self.stopped = False
            world.loop.thaw(self.process)
        elif number == signal.SIGTERM and not self.home.stubborn:
            self.later(ANSWERS_SECONDS, self.end, "")

    def end(self, last_words: str, told: bool = True) -> None:
        """It is gone."""
        if self not in self.home.processes:
            return
        self.home.processes.remove(self)
        self.process.alive = False
        self.home.last_words = last_words or self.home.last_words
        if told:
            self.home.machine.world.note(f"{self} ends: {last_words}")


class _Taken(RoutesFile):
    """The routes that a gateway uses, from the bytes of its file."""

    def __init__(self) -> None:
        super().__init__(Path(remote_gateway.ROUTES))
        self._bytes = b""

    def read(self, content: bytes) -> None:
        """Take these routes, unless a replaced controller wrote them."""
        if content != self._bytes:
            self._bytes = content
            self.take(parse_routes(content))


def routes_in(home: GatewayHome) -> Routes | None:
    """The routes that lie there."""
    content = home.files.get(remote_gateway.ROUTES)
    return parse_routes(content) if content is not None else None


# --- the way to it -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class FrontMachine(LocalNode):
    """A machine over SSH, as far as its gateway is concerned: ``remote_gateway.Remote``. Its agent is reached as any other's."""

    machine: Machine
    process: Process
    """The controller that reaches it."""

    async def profile(self) -> Profile:
        return Profile(ROOT.parent, "Linux", "x86_64", "me", 1000, self.name, python=PYTHON)

    async def put(self, path: PurePosixPath, content: bytes, mode: int) -> None:
        home = self.machine.gateway
        if self.machine.disk.full:
            await self._travel(PUT_SECONDS)
            raise Unreachable(f"{path} on {self.name} cannot be written: No space left on device")
        await self._act(f"put {path.name}", lambda: home.put(path, content), PUT_SECONDS)

    async def run(self, argv: Sequence[str], *, stdin: bytes = b"", timeout: float) -> Completed:  # noqa: ASYNC109 - as a machine has it
        home = self.machine.gateway
        script, words = argv[2], argv[5:]
        match script:
            case remote_gateway._LOOK:
                await self._travel(timeout)
                printed = home.look()
                await self._travel(timeout)
                return Completed(0, printed, "")
            case remote_gateway._START:
                program = PurePosixPath(words[0]).name
                return await self._act("start", lambda: home.start(program), timeout)
            case remote_gateway._SIGNAL:
                return await self._act(f"signal {' '.join(words)}", lambda: home.signal(words), timeout)
            case remote_gateway._REMOVE:
                return await self._act(f"remove {' '.join(words)}", lambda: home.remove(words), timeout)
            case _:
                raise AssertionError(argv)

    async def _act(self, what: str, act: Callable[[], str | None], timeout: float) -> Completed:  # noqa: ASYNC109
        """Change something there, with whatever befalls it."""
        world = self.machine.world
        kind = world.pass_by(f"gateway on {self.name}: {what}", START)
        world.oracles.gateways.asked(self.process, self.machine, what)
        if kind == CRASH_BEFORE:
            world.kill_controller(self.process)
        await self._travel(timeout)
        if kind == ERROR:
            raise Unreachable(f"{self.name}: {what}: No space left on device")
        printed = ""
        if kind != LOST:
            world.oracles.gateways.acts(self.process, self.machine, what)
            printed = act() or ""
        if kind == CRASH_AFTER:
            world.kill_controller(self.process)
        if kind in (LOST, UNANSWERED):
            await world.sleep(timeout)
            raise Silent(f"{what} on {self.name}: it did not end within {timeout:g} s")
        await self._travel(timeout)
        return Completed(0, printed, "")

    async def _travel(self, timeout: float) -> None:  # noqa: ASYNC109
        """Let a message go there or come back."""
        machine = self.machine
        if not self.process.alive:
            raise Killed
        await machine.world.sleep(machine.world.latency(machine) + COMMAND_SECONDS * machine.slow)
        if not machine.reachable:
            await machine.world.sleep(timeout)
            raise Silent(f"{self.name} gives no answer within {timeout:g} s")


def over_ssh(machine: Machine, process: Process) -> FrontMachine:
    """A machine as a controller reaches it."""
    nowhere = Path("/nonexistent")
    return FrontMachine(
        machine.name, nowhere, nowhere, nowhere, nowhere, nowhere, nowhere, machine=machine, process=process
    )
