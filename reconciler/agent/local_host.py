"""The machine that the agent itself runs on."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import getpass
import logging
import os
import socket
import subprocess
import time
import uuid
from pathlib import Path
from typing import Any, BinaryIO, Callable, Dict, Iterable, List, Mapping, Optional, Sequence, Tuple, Union

from reconciler.wire.codec import WireError
from reconciler.wire.launch import JOB_PREFIX, LaunchSpec, RankId
from reconciler.wire.node import (
    AGENT_RECEIVES_FROM_SHIM,
    FetchWeights,
    ListArtifacts,
    Log,
    ModelReport,
    NodeReport,
    ReadArtifact,
    ShimState,
)
from reconciler.wire.paths import shim_socket
from reconciler.wire.repair import Repair, RepairReport
from reconciler.wire.tools import RunTool, ToolSaid
from reconciler.wire.weights import KeptWeights

from .ranks import artifacts, directory, hearing, leftovers, working
from .ranks.directory import Owner, RankDirectory
from .ranks.log import read_log
from .ranks.standby import Program, Standby, StandbyExaminations, program_of_ranks
from .repairs.runner import Repairs
from .system import machine, operating_system, process, usage
from .system.connection import Peer
from .system.files import read_json, tail, write_json
from .system.operating_system import FOLDERS
from .system.tools import Tools
from .system.usage import Measured
from .weights import fetches
from .weights.examination import Software
from .weights.kept import StoredWeights

_FENCE_BYTES_MAX = 4096
_CONNECT_SECONDS = 5.0
_BACKLOG = 8
_WORDS_BYTES = 400
_log = logging.getLogger("agent")


@dataclasses.dataclass(frozen=True)
class Settings:
    """Absolute paths, and the command that runs the agent's file (the name of its role is appended)."""

    node: str
    directory: Path
    models: Path
    run_directory: Path
    python: str
    program: Sequence[str]
    held_by: str = ""
    """``NodeReport.held_by``."""
    tools: Tuple[str, ...] = FOLDERS
    """Folders of the system's tools, in the order of search."""

    def started_as(self, what: str) -> List[str]:
        """Return the command that runs the agent's file as a ``shim`` or a ``spare``, without its own arguments."""
        tools = ["--tools", ":".join(self.tools)] if self.tools != FOLDERS else []
        return [*self.program, what, *tools]


class LocalHost:
    """A ``Host``; the agent's place on it is given by ``settings``."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._ranks = settings.directory / "ranks"
        self._fence = settings.directory / "fence.json"
        self._software: Optional[Software] = None
        self._fetches: Optional[fetches.Fetches] = None
        self._kept = StoredWeights(settings.models)
        self._shims: List[subprocess.Popen[bytes]] = []
        self._standby = Standby(settings.started_as("spare"), settings.directory)
        self._connecting: List[asyncio.Future[None]] = []
        self._tools = Tools(settings.tools, _names(settings))
        self._repairs = Repairs(settings.directory, settings.models, settings.program, settings.tools)

    # --- the machine and its runtime ---

    def identity(self) -> NodeReport:
        found = operating_system.uname()
        return NodeReport(
            sequence=0,
            boot_id=machine.boot_id(),
            agent_id=uuid.uuid4().hex,
            system=found.sysname,
            release=found.release,
            machine=found.machine,
            hostname=found.nodename,
            memory_bytes=machine.memory_bytes(),
            cpus=os.cpu_count() or 1,
            host_id=machine.host_id(),
            python=self._settings.python,
            runtime=None,
            run_directory=str(self._settings.run_directory),
            token=0,
            agent_file=Path(self._settings.program[-1]).name,
            build=machine.build(),
            held_by=self._settings.held_by,
            emulated=operating_system.emulated(),
        )

    def boot_id(self) -> str:
        return machine.boot_id()

    def clock(self) -> float:
        return time.time()

    def begin(self, on_change: Callable[[bool], None]) -> None:
        settings = self._settings
        examinations = StandbyExaminations(self._standby, program_of_ranks(settings.python))
        self._software = Software(settings.python, settings.models, examinations, lambda: on_change(True))
        self._fetches = fetches.Fetches(settings, on_change)
        self._software.ask()

    def end(self) -> None:
        self._tools.close()
        if self._software is not None:
            self._software.close()
        self._standby.end()
        if self._fetches is not None:
            self._fetches.close()

    def runtime(self) -> Optional[Mapping[str, str]]:
        return self._software.runtime if self._software is not None else None

    def model(self, path: str) -> ModelReport:
        assert self._software is not None
        assert self._fetches is not None
        fetch = self._fetches.report(path)
        report = self._software.model(path)
        return report if fetch is None else dataclasses.replace(report, fetch=fetch)

    def fetch(self, request: FetchWeights) -> None:
        assert self._fetches is not None
        self._fetches.start(request)

    def serve_weights(self, path: str) -> None:
        assert self._fetches is not None
        self._fetches.serve_to_peers(path)

    def stored_weights(self, requested: Iterable[str]) -> Tuple[KeptWeights, ...]:
        return self._kept.scan(requested)

    def discard(self, path: str) -> None:
        fetch = self._fetches.report(path) if self._fetches is not None else None
        if fetch is not None and fetch.running:
            raise ValueError("{} is being fetched".format(path))
        self._kept.remove(path)

    def room(self) -> Tuple[Optional[int], int]:
        return fetches.room(self._settings.models)

    async def run_tool(self, call: RunTool) -> ToolSaid:
        return await asyncio.get_event_loop().run_in_executor(None, self._tools.run, call)

    def repair(self, request: Repair) -> None:
        self._repairs.begin(request)

    def confirm_repair(self, id: str) -> bool:
        return self._repairs.confirm(id)

    def repair_report(self) -> Optional[RepairReport]:
        return self._repairs.report()

    def continue_repair(self) -> bool:
        return self._repairs.continue_abandoned()

    # --- the disk ---

    def token(self) -> int:
        if not self._fence.exists():
            return 0
        try:
            content = read_json(self._fence, _FENCE_BYTES_MAX)
        except ValueError as error:
            raise ValueError("{}: {}".format(self._fence, error)) from error
        token = content.get("token") if isinstance(content, dict) else None
        if not isinstance(token, int):
            raise ValueError("{}: expected an object with the number 'token'".format(self._fence))
        return token

    def save_token(self, token: int) -> None:
        write_json(self._fence, {"version": 1, "token": token})

    def ranks(self) -> List[RankId]:
        self._ranks.mkdir(0o700, exist_ok=True)
        found = directory.scan(self._ranks)
        self._remove_places()
        return found

    def _remove_places(self) -> None:
        """Remove what ranks of jobs with a user of their own have left: a rank without a config is a record."""
        working.remove_places(self._ranks, lambda rank: (rank / "config.json").exists())

    def create(self, spec: LaunchSpec) -> None:
        self._shim_socket(spec.id)
        directory.create(self._ranks, spec)

    def remove(self, id: RankId, socket: str) -> None:
        directory.remove(self._ranks, id)
        if id.deployment.startswith(JOB_PREFIX):
            self._remove_places()
        leftovers = [self._shim_socket(id)]
        if Path(socket).parent == self._settings.run_directory:
            leftovers.append(Path(socket))
        for path in leftovers:
            with contextlib.suppress(FileNotFoundError):
                path.unlink()

    def keep_record(self, id: RankId) -> None:
        directory.move_work(self._ranks, id)
        self._directory_of(id).keep_record()
        self._remove_places()

    def pruned(self, id: RankId) -> bool:
        return not self._directory_of(id).file("config.json").exists()

    def redact(self, id: RankId) -> None:
        self._directory_of(id).redact()

    async def artifacts(self, request: Union[ListArtifacts, ReadArtifact]) -> Any:
        spec, at = self.spec(request.id), self._directory_of(request.id).path
        if spec is None:
            return artifacts.unknown(request.id)
        run = asyncio.get_event_loop().run_in_executor
        if isinstance(request, ListArtifacts):
            return await run(None, artifacts.listing, at, spec)
        return await run(None, artifacts.piece, at, spec, request)

    def spec(self, id: RankId) -> Optional[LaunchSpec]:
        try:
            return self._directory_of(id).spec()
        except (OSError, ValueError, WireError) as error:
            _log.error("%s: spec.json cannot be read: %s", self._directory_of(id).path, error)
            return None

    def state(self, id: RankId) -> Optional[ShimState]:
        return self._directory_of(id).state()

    def write_state(self, id: RankId, state: ShimState) -> None:
        self._directory_of(id).write_state(state)

    def process(self, id: RankId) -> Optional[Tuple[int, str]]:
        return self._directory_of(id).process()

    def owner(self, id: RankId) -> str:
        return self._directory_of(id).owner()

    def words(self, id: RankId) -> str:
        words = tail(self._directory_of(id).file("shim.log"), _WORDS_BYTES).strip().splitlines()
        return words[-1].strip() if words else "it printed no reason"

    def read_log(self, id: RankId, bytes_max: int, offset: Optional[int]) -> Log:
        return read_log(self._directory_of(id).path, bytes_max, offset)

    def _directory_of(self, id: RankId) -> RankDirectory:
        return RankDirectory(self._ranks / str(id))

    def _shim_socket(self, id: RankId) -> Path:
        return Path(shim_socket(str(self._settings.run_directory), id))

    # --- processes ---

    def start_shim(self, id: RankId) -> None:
        at, path = self._directory_of(id), self._shim_socket(id)
        with socket.socket(socket.AF_UNIX) as listener:
            with contextlib.suppress(FileNotFoundError):
                path.unlink()
            listener.bind(str(path))
            path.chmod(0o600)
            listener.listen(_BACKLOG)
            with at.file("shim.log").open("ab") as errors:
                shim = self._standby.become(at.path, listener, errors)
                shim = shim or self._start_shim(at.path, listener, errors)
        self._shims.append(shim)

    def _start_shim(self, rank: Path, listener: socket.socket, errors: BinaryIO) -> subprocess.Popen[bytes]:
        place = ("--rank-directory", str(rank), "--listener", str(listener.fileno()))
        return subprocess.Popen(
            [*self._settings.started_as("shim"), *place],
            stdin=subprocess.DEVNULL,
            stdout=errors,
            stderr=errors,
            pass_fds=(listener.fileno(),),
            start_new_session=True,
        )

    def prepare(self, id: RankId) -> None:
        spec = self.spec(id)
        if spec is not None:
            self._standby.prepare(Program(spec.argv, spec.env))

    def end_standby(self, seconds: float) -> None:
        self._standby.end_unused(seconds)

    def reap(self) -> None:
        process.reap()
        self._standby.reap()
        self._shims = [shim for shim in (*self._shims, *self._standby.ended) if shim.poll() is None]
        self._standby.ended.clear()

    def connect(self, id: RankId, on_message: Callable[[Any], None], on_close: Callable[[], None]) -> Peer:
        connection = socket.socket(socket.AF_UNIX)
        connection.settimeout(_CONNECT_SECONDS)
        try:
            connection.connect(str(self._shim_socket(id)))
        except OSError:
            connection.close()
            raise
        peer = Peer(
            "agent",
            AGENT_RECEIVES_FROM_SHIM,
            lambda peer, message, request: on_message(message),
            lambda peer: None,
            lambda peer: on_close(),
        )
        self._connecting = [task for task in self._connecting if not task.done()]
        self._connecting.append(asyncio.ensure_future(_register(peer, connection)))
        return peer

    def birth(self, pid: int) -> Optional[str]:
        return process.birth(pid, machine.boot_id())

    async def leftovers_of(self, id: RankId, ports: Tuple[int, ...]) -> Tuple[str, str]:
        return await asyncio.get_event_loop().run_in_executor(None, self._find_leftovers, id, ports)

    def _find_leftovers(self, id: RankId, ports: Tuple[int, ...]) -> Tuple[str, str]:
        pid, born = self.process(id) or (None, "")
        if pid is not None and born.startswith(self.boot_id()) and self.owner(id) != Owner.OTHER:
            reused = self.birth(pid) not in (None, born)
            return leftovers.find(
                leftovers.Ended(pid, reused, str(self._directory_of(id).file("config.json")), ports)
            )
        return leftovers.find(leftovers.Ended(None, False, "", ports))

    async def measure(self, pids: Iterable[int]) -> Optional[Measured]:
        return await asyncio.get_event_loop().run_in_executor(None, usage.measure, tuple(pids))

    async def states(self, pids: Iterable[int]) -> Dict[int, str]:
        return await asyncio.get_event_loop().run_in_executor(None, process.states, tuple(pids))

    async def ask_rank(self, socket: str) -> None:
        await hearing.ask(socket)

    def signal_process(self, pid: int, number: int) -> None:
        process.signal_process(pid, number)

    def signal_group(self, pid: int, number: int) -> None:
        process.signal_group(pid, number)


def _names(settings: Settings) -> Dict[str, str]:
    """Return the values of placeholders in arguments of tools."""
    return {
        "home": str(Path.home()),
        "user": getpass.getuser(),
        "node": settings.node,
        "models": str(settings.models),
        "python": settings.python,
    }


async def _register(peer: Peer, connection: socket.socket) -> None:
    await asyncio.get_event_loop().create_unix_connection(lambda: peer, sock=connection)
