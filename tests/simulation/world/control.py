"""A controller as a process of the simulated world: the product's own, on a store in memory."""

from __future__ import annotations

import errno
import sqlite3
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from reconciler.bootstrap.controller import compose
from reconciler.controller.clock_gaps import Clocks
from reconciler.controller.loop import Loop
from reconciler.controller.parts import Parts, Surroundings
from reconciler.controller.routes_file import RoutesFile
from reconciler.errors import ReconcilerError, Refused, Silent, Unreachable
from reconciler.execution import artifacts
from reconciler.execution.handlers import jobs
from reconciler.remote.agent_connection import AgentConnection
from reconciler.remote.machines import Stream
from reconciler.remote.nodes.local import LocalNode
from reconciler.remote.rpc import HELLO_SECONDS
from reconciler.resources import LOCAL, Access, Manifest
from reconciler.source.git.pushes import Push
from reconciler.source.pushed import Pushed
from reconciler.source.sources import Revision, Source
from reconciler.source.yaml.documents import Document
from reconciler.state import Ends, GatewayAnswer, GatewayObservation, MachineFacts, NodeName, Step
from reconciler.state.identity import ObjectKey
from reconciler.state.job_steps import FetchArtifacts
from reconciler.state.jobs import Artifacts, Fetched
from reconciler.state.operations import Operations
from reconciler.store.connection import Connection, Signature
from reconciler.wire.file_identity import FileIdentity
from reconciler.wire.generation import Routes
from reconciler.wire.node import NodeReport
from tests.machines import LocalMachines, nowhere
from tests.simulation.schedules.points import (
    ASK,
    CRASH_AFTER,
    CRASH_BEFORE,
    ERROR,
    LOST,
    START,
    UNANSWERED,
    WRITE,
)

from .loop import PROCESS, Killed, Process
from .machines import Machine
from .net import SILENCE_SECONDS, SimLink
from .node_gateways import PROGRAM, gateways_of, over_ssh
from .stored import empty

if TYPE_CHECKING:
    from .ranks import Rank
    from .world import World

DIAL_SECONDS = 0.01
DIAL_SECONDS_MAX = 5.0
START_AGENT_SECONDS = 0.2
START_AGENT_SECONDS_MAX = 10.0
ASK_SECONDS = 0.1
COMPLETION_SECONDS_MAX = 120.0
"""So long the controller waits for one."""
PROBE_SECONDS = 1.0
ENDS_OVER_SSH = Ends(here="127.0.0.1", there="127.0.0.1", port=22)
"""Machines over SSH are on loopback, as emulated Macs are."""


class SimConnection(Connection):
    """The store's connection: in memory, and every transaction that writes is a point."""

    world: ClassVar[World]
    database: ClassVar[str]

    def __init__(self, path: Path, **options: Any) -> None:
        super().__init__(f"file:{self.database}?mode=memory&cache=shared", uri=True, **options)
        self.world.connections.add(self)
        self._owner = PROCESS.get()
        self._kind: str | None = None
        self._label = ""

    def execute(self, sql: str, parameters: Any = ()) -> sqlite3.Cursor:
        if self._owner is not None and not self._owner.alive and not self.in_transaction:
            raise Killed
        if self.in_transaction or sql.startswith(("SELECT", "PRAGMA", "ATTACH", "DETACH", "COMMIT")):
            return super().execute(sql, parameters)
        self._kind = self._begin()
        if sql.startswith("BEGIN"):
            return super().execute(sql, parameters)
        done = super().execute(sql, parameters)
        self._committed()
        return done

    def executescript(self, sql_script: str, /) -> sqlite3.Cursor:
        """Become a copy of a store that was migrated already, at the first script that migrates this one."""
        if not self.execute("PRAGMA user_version").fetchone()[0]:
            empty().backup(self)
        return self.cursor()

    def _signature(self) -> Signature:
        """The store is in memory: nobody else writes to the file that stands for it."""
        return (None, None)

    def _begin(self) -> str | None:
        """A transaction that writes is about to be made."""
        world = self.world
        label = self._label = _method()
        kind = world.pass_by(f"store: {label}", WRITE)
        if kind == CRASH_BEFORE:
            world.kill_controller(self._owner)
        if kind == ERROR or world.disk_full:
            error = sqlite3.OperationalError("database or disk is full")
            error.sqlite_errorcode = sqlite3.SQLITE_FULL
            raise self._noted(error) from error
        return kind

    def _committed(self) -> None:
        self.world.oracles.stored(self._owner, self._label)
        if self._kind == CRASH_AFTER:
            self._kind = None
            self.world.kill_controller(self._owner)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> Literal[False]:
        wrote = self.in_transaction and kind is None
        super().__exit__(kind, error, trace)
        if wrote:
            self._committed()
        return False


@dataclass(frozen=True)
class StoreFile(FileIdentity):
    """The store's file as a controller has opened it; ``path`` is its name among those that were lost."""

    world: World

    @property
    def replaced(self) -> bool:
        return self.world.store_name != self.path


def _method() -> str:
    """The method of the store that makes the transaction."""
    frame: FrameType | None = sys._getframe(3)
    while frame is not None:
        code = frame.f_code
        if not code.co_filename.endswith(("connection.py", "contextlib.py")):
            return code.co_name
        frame = frame.f_back
    return ""


class SimRoutes(RoutesFile):
    """The routes as the gateway would read them."""

    def __init__(self, world: World, process: Process) -> None:
        super().__init__(Path("routes.json"))
        self._world = world
        self._process = process
        self._mine: Routes | None = None

    @property
    def altered(self) -> bool:
        return self._world.routes is not self._mine

    def read(self) -> Routes | None:
        self._mine = self._world.routes
        return self._mine

    def replace(self, routes: Routes) -> None:
        if not self._process.alive:
            raise Killed
        world = self._world
        kind = world.pass_by("routes", WRITE)
        if kind == CRASH_BEFORE:
            world.kill_controller(self._process)
        if kind == ERROR or world.disk_full:
            raise OSError(errno.ENOSPC, "No space left on device")
        world.routes = self._mine = routes
        world.note(f"routes {[(r.model, b.replica, b.epoch) for r in routes.routes for b in r.backends]}")
        world.oracles.routed(routes, self._process)
        if world.clients is not None:
            world.clients.gateway.look()
        if kind == CRASH_AFTER:
            world.kill_controller(self._process)


class SimSource(Source):
    """Commits in memory."""

    def __init__(self, world: World) -> None:
        self._world = world

    async def read(self) -> Revision:
        world = self._world
        manifests = world.commits[-1]
        documents = tuple(_document(m) for m in manifests)
        return Revision(f"r{len(world.commits)}", documents)

    async def operations(self) -> Operations:
        return Operations()

    async def record_in_force(
        self, revision: str, operations: str, kept: Mapping[ObjectKey, Manifest | None], folder: str
    ) -> None:
        self._world.kept = revision

    async def last_in_force(self) -> Revision | None:
        return None if self._world.kept is None else await self.at(self._world.kept)

    async def last_operations(self) -> Operations:
        return Operations()

    async def at(self, revision: str) -> Revision:
        manifests = self._world.commits[int(revision[1:]) - 1]
        return Revision(revision, tuple(_document(m) for m in manifests))

    async def words_allowed(self, since: str, revision: str) -> frozenset[str]:
        names = (manifest.metadata.name for each in self._world.commits for manifest in each)
        return frozenset((*names, "run/*"))

    async def judge(self, repository: str, quarantine: str, push: Push) -> Pushed:
        raise AssertionError("nobody pushes to the world")

    async def tidy(self) -> Sequence[str]:
        return ()

    def changes(self) -> AsyncIterator[None]:
        raise AssertionError("the world announces its commits")

    def describe(self) -> str:
        return "branch main"


def _document(manifest: Manifest) -> Document:
    return Document("cluster.yaml", 0, 1, manifest, "")


async def _fetch(step: FetchArtifacts, source: artifacts.Source, *rest: Any) -> Artifacts:
    """Fetch from simulated machines, which have no files; from others as ever."""
    machines = source.tools.machines if isinstance(source, jobs._Agents) else None
    if isinstance(machines, SimMachines):
        return await machines.fetch(step)
    return await _fetch_really(step, source, *rest)


_fetch_really, artifacts.fetch = artifacts.fetch, _fetch  # type: ignore[assignment]


class SimMachines(LocalMachines):
    """The machines of the world, as one controller reaches them."""

    def __init__(self, world: World, process: Process) -> None:
        super().__init__(self._made)
        self.world = world
        self.process = process
        self._reached: Mapping[NodeName, Access] = {}

    def reach(self, accesses: Mapping[NodeName, Access]) -> None:
        """Every agent is reached in one way, and the gateways of machines over SSH as they are."""
        self._reached = dict(accesses)
        super().reach(accesses)

    def _made(self, name: NodeName) -> LocalNode:
        machine = self.world.machines.get(name)
        if machine is None or self._reached.get(name, LOCAL).ssh is None:
            return nowhere(name)
        return over_ssh(machine, self.process)

    async def stream(self, name: NodeName, socket: str) -> Stream:
        raise Unreachable(f"there is no way to {socket} of {name}")

    async def dial(self, name: NodeName) -> AgentConnection:
        machine = self._sim_machine(name)
        if not machine.reachable:
            await self.world.sleep(DIAL_SECONDS_MAX)
            raise Silent(f"{name} does not answer within {DIAL_SECONDS_MAX:g} s")
        await self.world.sleep(DIAL_SECONDS * machine.slow)
        agent = machine.agent
        if not machine.reachable or agent is None or not agent.process.alive or agent.agent is None:
            raise Unreachable(f"the agent of {name} does not answer")
        if agent.hung:
            await self.world.sleep(HELLO_SECONDS)
            raise Silent(f"no greeting within {HELLO_SECONDS:g} s")
        link = SimLink(self.world, self.process, agent)
        if self._reached.get(name, LOCAL).ssh is not None:
            link.ends = ENDS_OVER_SSH
        self.world.loop.call_soon(agent.agent.on_connected, link.line, context=agent.process.context)
        return link

    def _sim_machine(self, name: NodeName) -> Machine:
        if not self.process.alive:
            raise Killed
        machine = self.world.machines.get(name)
        if machine is None:
            raise Unreachable(f"there is no machine {name}")
        return machine

    async def answers(self, name: NodeName) -> bool:
        await self.world.sleep(DIAL_SECONDS)
        return self._sim_machine(name).reachable

    async def probe(self, link: AgentConnection, report: NodeReport, anew: bool) -> MachineFacts:
        assert isinstance(link, SimLink)
        await self.world.sleep(PROBE_SECONDS * link.machine.slow + link.machine.probes_late)
        if not link.machine.reachable:
            await self.world.sleep(SILENCE_SECONDS)
            raise Silent("the probes got no answer")
        return link.machine.probed_facts()

    async def start_agent(self, name: NodeName, token: int) -> None:
        machine = self._sim_machine(name)
        world = self.world
        kind = world.pass_by(f"start the agent of {name}", START)
        if kind == CRASH_BEFORE:
            world.kill_controller(self.process)
        machine.start_failed = machine.start_failed or kind in (ERROR, LOST)
        if kind == ERROR:
            raise Unreachable(f"the agent of {name} did not start: no space left on device")
        await world.sleep(START_AGENT_SECONDS * machine.slow)
        if kind == LOST or not machine.reachable:
            await world.sleep(START_AGENT_SECONDS_MAX)
            raise Silent(f"the agent of {name} did not start: not serving after 10 s")
        if not machine.start_agent(token):
            raise Refused("Fenced", f"token {token} is older than {machine.disk.token}")
        if kind == CRASH_AFTER:
            world.kill_controller(self.process)
        if kind == UNANSWERED:
            await world.sleep(START_AGENT_SECONDS_MAX)
            raise Unreachable(f"the agent of {name} did not start: not serving after 10 s")
        await world.sleep(START_AGENT_SECONDS * machine.slow)

    async def fetch(self, step: FetchArtifacts) -> Artifacts:
        """Fetch the artifacts of a run. A node that does not answer has none."""
        kind = self.world.pass_by(f"fetch the artifacts of {step.id}", ASK)
        await self.world.sleep(ASK_SECONDS)
        if kind == ERROR:
            raise Unreachable("lost the connection while artifacts were fetched")
        away = any(not self._sim_machine(name).agent_alive for name in step.nodes)
        if away and step.patient:
            raise Unreachable("a node does not answer")
        partly = kind == LOST or away
        return Artifacts(
            Fetched.PARTLY if partly else Fetched.DONE, text="some are missing" if partly else ""
        )

    async def request_completion(self, name: NodeName, socket: str) -> float:
        world = self.world
        kind = world.pass_by("ask for a completion", ASK)
        await world.sleep(ASK_SECONDS)
        rank = world.sockets.get(socket)
        if rank is None or not rank.process.alive:
            raise Unreachable("lost the connection to rank 0")
        if kind == ERROR:
            world.oracles.broke_off(rank)
            raise Unreachable("lost the connection to rank 0")
        until = world.loop.now + COMPLETION_SECONDS_MAX
        while kind == LOST or not self._together(rank):
            await world.sleep(1.0)
            if not rank.process.alive:
                raise Unreachable("lost the connection to rank 0")
            if world.loop.now >= until:
                world.oracles.broke_off(rank)
                raise Silent("no completion within 120 s")
        rank.answered = True
        world.oracles.service.look()
        return ASK_SECONDS

    def _together(self, rank: Rank) -> bool:
        """Whether all ranks of its group go on: no step of a model ends without one of them."""
        group = [rank, *self.world.group_of(rank)]
        there = (each.machine.reachable and not each.stuck and not each.stopped for each in group)
        return len(group) == rank.config.size and all(there)


class Controller:
    """One life of a controller."""

    def __init__(self, world: World, number: int) -> None:
        self.world = world
        self.number = number
        self.process = Process(f"controller #{number}")
        self.process.context.run(PROGRAM.set, world.program)
        self.loop: Loop | None = None
        self.parts: Parts | None = None
        world.note(f"{self.process.name} starts")
        world.oracles.begun(self.process)
        world.loop.spawn(self.process, self._run(), "controller")

    async def _run(self) -> None:
        world = self.world
        try:
            store = world.open_store()
            if store.is_new:
                for machine in world.machines.values():
                    if machine.agent is not None:
                        store.keep_agent(NodeName(machine.name))
            self.loop, self.parts = compose(self._surroundings(), store)
            self.parts.lease.identity = store.identities
            world.set_pace(self)
            launch, parts = self.parts.executor.launch, self.parts

            def judged(steps: tuple[Step, ...]) -> None:
                world.oracles.planned(parts.last)
                launch(steps)

            self.parts.executor.launch = judged  # type: ignore[method-assign]
            await self.loop.run()
        except ReconcilerError as error:
            world.note(f"{self.process.name} ends: {error}")
        world.controller_ended(self)

    def _surroundings(self) -> Surroundings:
        world, machines = self.world, SimMachines(self.world, self.process)
        return Surroundings(
            source=SimSource(world),
            routes=SimRoutes(world, self.process),
            machines=machines,
            gateways=gateways_of(world, self.process, machines.gateway),
            gateway=self._gateway,
            entropy=lambda: "entropy",
            clocks=Clocks(world.wall, world.awake, world.loop.time),
        )

    def _gateway(self) -> GatewayObservation:
        routes, clients = self.world.routes, self.world.clients
        pool = clients.gateway.pool if clients is not None else None
        quarantined = pool.quarantined_prompts() if pool is not None else ()
        token = routes.token if routes else 0
        return GatewayObservation(
            1, "http://127.0.0.1:8400/v1", token=token, quarantined=quarantined, door=GatewayAnswer(True)
        )

    def look_at_source(self) -> None:
        """The hook says that there is a commit."""
        if self.loop is not None:
            self.world.loop.call_soon(self.loop.look_at_source, context=self.process.context)
