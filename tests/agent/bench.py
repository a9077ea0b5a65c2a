"""A node to try an agent on: real processes, real sockets, a directory of its own, all gone at the end."""

from __future__ import annotations

import asyncio
import fcntl
import functools
import os
import shutil
import signal
import socket
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from reconciler.agent.local_host import LocalHost, Settings
from reconciler.agent.ranks.directory import RankDirectory
from reconciler.agent.server import Agent
from reconciler.agent.system.machine import boot_id
from reconciler.agent.system.process import birth, signal_group, signal_process
from reconciler.errors import Unreachable
from reconciler.remote.agent_connection import AgentConnection
from reconciler.remote.nodes.local import LocalNode
from reconciler.remote.runtime.agent_file import write_bundle
from reconciler.wire.launch import Exit, LaunchSpec, Phase, RankConfig, RankId
from reconciler.wire.node import Done, NodeReport, Observe, RankReport, StartRank
from reconciler.wire.paths import rank_socket
from tests import processes

WAIT_SECONDS = 60.0
"""Generous: the machine that runs the tests may be busy with other things."""
SOON_SECONDS = 15.0
QUICK_STANDBY_SECONDS = 0.5

_PRELUDE = """
import json, os, signal, sys, time
def say(phase, **more):
    line = json.dumps({"phase": phase, **more}) + chr(10)
    os.write(int(os.environ["RECONCILER_PROGRESS_FD"]), line.encode())
def sleep():
    sys.stdin.read()
    sys.exit(71)
"""

RANK = RankId("llama", 0, 1, 0)
NO_RUNTIME = Path("/usr/bin/true")
"""Says nothing of itself, at once. Programs of ranks bring their own interpreter."""


def program(body: str) -> tuple[str, ...]:
    """A rank that runs ``body``: ``say`` reports progress, ``sleep`` waits until the shim is gone."""
    return (sys.executable, "-I", "-S", "-c", _PRELUDE + body)


def launch(
    id: RankId,
    socket: str,
    argv: Sequence[str] = ("python",),
    env: Mapping[str, str] | None = None,
    group: str = "llama-0",
    spare: bool = False,
    **given: Any,
) -> LaunchSpec:
    """What to start; the parts that the agent passes on unread are filled with anything. ``given``: others of the config."""
    config = RankConfig(
        **{
            "id": id,
            "socket": socket,
            "size": 1,
            "model_path": "tiny",
            "addresses": (),
            "control": "",
            **given,
        },
        strategy="tensor",
        backend="ring",
        secret="s3cret",
        context=128,
        batch_max=1,
        rendezvous_seconds=1.0,
    )
    return LaunchSpec(id=id, argv=tuple(argv), env=env or {}, config=config, group=group, spare=spare)


class QuickAgent:
    """An agent in the test's own process, whose periods are short."""

    def __init__(self, settings: Settings) -> None:
        self._host = LocalHost(settings)
        loop = asyncio.get_running_loop()
        self._agent = Agent(loop, self._host, look_seconds=0.05, standby_seconds=QUICK_STANDBY_SECONDS)
        self._run: asyncio.Task[None] | None = None

    async def serve(self, listener: socket.socket) -> None:
        """Return once it takes connections."""
        ready = asyncio.Event()
        self._run = asyncio.get_running_loop().create_task(self._agent.run(listener, (), ready.set))
        await ready.wait()

    async def end(self, home: Path) -> None:
        """End it, and ask for the exits of the processes that it has started: as long as it runs, it starts more."""
        assert self._run is not None
        self._agent.ending.set()
        await self._run
        started = _children(home)
        await until(lambda: all(map(processes.gone, started)))
        self._host.reap()


def _children(home: Path) -> list[int]:
    """The processes that this one has started for a home. Of one that is about to end the command is not shown."""
    mine = [process for process in processes.listed() if process.parent == os.getpid()]
    return [each.pid for each in mine if str(home) in each.command or not each.command]


@dataclass
class Bench:
    """One node. ``controller`` connects to its agent."""

    home: Path
    python: Path = Path(sys.executable)
    runtime: Path = Path(sys.executable)
    links: list[AgentConnection] = field(default_factory=list)
    quick: QuickAgent | None = None

    @classmethod
    def make(cls) -> Bench:
        """A bench in a directory short enough for sockets."""
        return cls(Path(tempfile.mkdtemp(prefix="r-")))

    @property
    def directory(self) -> Path:
        return self.home / "node"

    @property
    def models(self) -> Path:
        return self.home / "models"

    @property
    def run_directory(self) -> Path:
        return self.home / "run"

    @functools.cached_property
    def bundle(self) -> Path:
        return write_bundle(self.home / "agents")

    def node(self) -> LocalNode:
        """The way to this bench's node."""
        return LocalNode(
            name="bench",
            directory=self.directory,
            models=self.models,
            run_directory=self.run_directory,
            runtime_python=self.runtime,
            agent_python=self.python,
            bundle=self.bundle,
            start_seconds=WAIT_SECONDS,
        )

    async def agent(self) -> AgentConnection:
        """An agent is running, and this is a connection to it."""
        await self.node().start_agent()
        return await self.controller()

    async def quick_agent(self) -> AgentConnection:
        """Run an agent in the test's own process, with periods that are short, and connect to it."""
        for needed in (self.directory, self.run_directory):
            needed.mkdir(0o700, parents=True, exist_ok=True)
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(self.node().socket)
        listener.listen()
        settings = Settings(
            node="bench",
            directory=self.directory,
            models=self.models,
            run_directory=self.run_directory,
            python=str(self.runtime),
            program=(sys.executable, "-I", "-S", str(self.bundle)),
        )
        self.quick = QuickAgent(settings)
        await self.quick.serve(listener)
        return await self.controller()

    async def controller(self) -> AgentConnection:
        """One more connection to the running agent."""
        link = await self.node().dial()
        self.links.append(link)
        return link

    def agent_pid(self) -> int:
        return int((self.directory / "agent.lock").read_text())

    async def kill_agent(self) -> None:
        """SIGKILL, and wait until it is over: its connections end a moment before its socket does."""
        pid = self.agent_pid()
        os.kill(pid, signal.SIGKILL)
        await self.agent_gone()
        await gone(pid)
        await self.agent_let_go()

    async def agent_let_go(self) -> None:
        """Wait for the lock of one that was killed: a child that it was about to start has its lock, and listens to its
        socket, until that runs a program of its own."""
        with (self.directory / "agent.lock").open() as lock:
            await until(lambda: _lockable(lock.fileno()))

    async def agent_gone(self) -> None:
        async with asyncio.timeout(WAIT_SECONDS):
            for link in self.links:
                await link.closed.wait()

    def rank_directory(self, id: RankId = RANK) -> Path:
        return self.directory / "ranks" / str(id)

    def spec(self, argv: Sequence[str], id: RankId = RANK, **env: str) -> LaunchSpec:
        socket = rank_socket(str(self.run_directory), id)
        return launch(id, socket, argv, env, group="wish", model_path="/models/tiny")

    async def start(self, link: AgentConnection, body: str, id: RankId = RANK) -> Done:
        """Ask the agent for a rank that runs ``body``."""
        answer = await ask(link, StartRank(1, self.spec(program(body), id)))
        assert isinstance(answer, Done)
        return answer

    async def running(self, body: str, quick: bool = False) -> AgentConnection:
        """An agent with a rank that runs ``body``."""
        link = await (self.quick_agent() if quick else self.agent())
        await self.start(link, body)
        return link

    async def ready(
        self, body: str = "say('ready'); sleep()", quick: bool = False
    ) -> tuple[AgentConnection, RankReport]:
        """The same, and the report of the rank once it is ready."""
        link = await self.running(body, quick)
        return link, await in_phase(link, Phase.READY)

    async def close(self) -> None:
        """End every process that was started here, and remove the directory."""
        for link in self.links:
            await link.close()
        own = [int(path.read_text() or 0) for path in self.home.glob("*/agent.lock")]
        ranks = [RankDirectory(path) for path in self.directory.glob("ranks/*")]
        own += [state.shim_pid for state in (rank.state() for rank in ranks) if state is not None]
        for pid in own:
            if pid and str(self.home) in processes.command_of(pid):
                signal_process(pid, signal.SIGKILL)
        for rank in ranks:
            process = rank.process()
            if process is not None and birth(process[0], boot_id()) == process[1]:
                signal_group(process[0], signal.SIGKILL)
        if self.quick is not None:
            await self.quick.end(self.home)
        shutil.rmtree(self.home, ignore_errors=True)


async def ask(link: AgentConnection, message: Any) -> Any:
    """A request with a bound that only a broken agent exceeds."""
    return await link.request(message, timeout=WAIT_SECONDS)


async def observe(link: AgentConnection, *models: str) -> NodeReport:
    report = await ask(link, Observe(models))
    assert isinstance(report, NodeReport)
    return report


async def rank(link: AgentConnection, id: RankId = RANK) -> RankReport:
    """What the agent says of one rank now."""
    (found,) = [report for report in (await observe(link)).ranks if report.id == id]
    return found


async def pushed(
    link: AgentConnection,
    until: Callable[[RankReport], bool],
    id: RankId = RANK,
    seconds: float = WAIT_SECONDS,
) -> RankReport:
    """The rank once ``until`` holds: looked at first, and then only after each push of the agent."""
    found = None
    try:
        async with asyncio.timeout(seconds):
            found = await rank(link, id)
            if until(found):
                return found
            async for _ in link.changes():
                found = await rank(link, id)
                if until(found):
                    return found
    except TimeoutError:
        raise AssertionError(f"nothing more is pushed after {found}") from None
    raise Unreachable("the agent went away")


async def ended(link: AgentConnection, id: RankId = RANK, seconds: float = WAIT_SECONDS) -> RankReport:
    """The rank once it has exited, learnt from a push."""
    return await pushed(link, lambda report: report.exit is not None, id, seconds)


async def exit_of(link: AgentConnection) -> Exit:
    """The end of the rank."""
    report = await ended(link)
    assert report.exit is not None
    return report.exit


async def in_phase(link: AgentConnection, phase: str, id: RankId = RANK) -> RankReport:
    """The rank once it has reached a phase, learnt from a push."""
    return await pushed(link, lambda report: report.phase == phase, id)


def alive(pid: int | None) -> bool:
    """Whether a process runs; one that only waits to be reaped does not."""
    return pid is not None and birth(pid, boot_id()) is not None


def _lockable(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


async def gone(pid: int | None) -> None:
    """Wait until a process that nobody reports on is gone."""
    await until(lambda: not alive(pid))


async def until(condition: Callable[[], object], seconds: float = WAIT_SECONDS, look: float = 0.02) -> None:
    """Wait for what nobody tells."""
    async with asyncio.timeout(seconds):
        while True:
            if condition():
                return
            await asyncio.sleep(look)


async def soon(condition: Callable[[], object]) -> None:
    """Wait for what this process and its children do among themselves: that takes no machine long."""
    await until(condition, SOON_SECONDS, 0.001)
