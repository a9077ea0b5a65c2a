"""One world: machines, a controller and its successors, and whoever commits manifests; from a seed, a scenario
and a plan of faults follows everything that happens in it.
"""

from __future__ import annotations

import asyncio
import atexit
import hashlib
import itertools
import math
import os
import random
import re
import shutil
import signal
import sqlite3
import tempfile
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import ClassVar
from weakref import WeakSet

from reconciler.controller.reconcile import remember
from reconciler.errors import ReconcilerError
from reconciler.planning.recovery.rollback import ATTEMPTS_MAX
from reconciler.planning.rollout import specs
from reconciler.resources import Manifest, ModelDeployment
from reconciler.state import DeploymentName, Memory, ReplicaId, WorkloadId
from reconciler.state.formed_spec import FormedSpec
from reconciler.store import Store
from reconciler.wire.generation import Routes
from reconciler.wire.launch import Phase
from reconciler.wire.node import ModelReport
from tests.simulation.oracles.oracles import Oracles
from tests.simulation.oracles.pruning import replica_of
from tests.simulation.schedules.points import Points
from tests.worlds import TINY

from .clients import Clients
from .control import Controller, SimConnection, StoreFile
from .loop import Killed, Process, VirtualLoop
from .machines import Machine
from .net import LATENCY, SimLink
from .node_gateways import program_of
from .pace import BUSY, Pace
from .programs import Program
from .ranks import Rank
from .stored import Stored

RESTART_SECONDS = 0.5
"""After the end of a controller its supervisor starts the next one."""
HOOK_SECONDS = 0.01
POLL_SECONDS = 5.0
"""A commit that no hook told of is found so late."""
PASSES_SECONDS = (0.01, 0.05, 0.2, 0.5)
"""For so long a controller waits for what comes together, and as long a pass may take in a large cluster: what happens
meanwhile is seen by the next one."""
BEGINNING = 1_700_000_000.0
"""Seconds since the Unix epoch when a world begins."""


@cache
def place() -> Path:
    """A file that stands for the store's: its contents are in memory. The process that has made it removes it at its end."""
    folder = tempfile.mkdtemp(prefix="simulation-")
    owner = os.getpid()
    atexit.register(lambda: shutil.rmtree(folder) if os.getpid() == owner else None)
    path = Path(folder) / "store.db"
    path.touch()
    return path


_OWN_FOLDER = re.compile(r"world-\d+(-\d+)*")
"""The name of a folder of a world, which another one of the same schedule does not have."""


class World:
    """Everything there is. ``told`` keeps what happens as text, for reading; the hash is kept in any case."""

    _numbers: ClassVar[itertools.count[int]] = itertools.count(1)

    def __init__(
        self, names: Sequence[str], points: Points, seed: int = 0, memory_bytes: int = 64 * 2**30
    ) -> None:
        self.name = f"world-{os.getpid()}-{next(self._numbers)}"
        self.loop = VirtualLoop(seed)  # type: ignore[abstract]
        self.loop.slips = self._slip
        self.points = points
        self.seed = seed
        self.random = random.Random(seed * 7919 + 1)
        self.pace = BUSY
        self.coalesce_seconds = self.random.choice(PASSES_SECONDS) if seed else PASSES_SECONDS[0]
        self.numbers = itertools.count(1)
        self.notes: list[str] = []
        self._hash = hashlib.blake2b(digest_size=16)
        self._folder = str(place().parent)
        self.oracles = Oracles(self)
        self.machines = {name: Machine(self, name, memory_bytes) for name in names}
        self.weights: dict[str, ModelReport] = {
            "tiny": ModelReport("tiny", "/models/tiny", True, 6_500_000, TINY)
        }
        self.runtime: Mapping[str, str] = {"mlx": "0.32.4", "mlx-lm": "0.32.2", "llguidance": "1.9.1"}
        self.sockets: dict[str, Rank] = {}
        self.links: list[SimLink] = []
        self.spoken: set[str] = set()
        self.commits: list[tuple[Manifest, ...]] = []
        self.dress: Callable[[tuple[Manifest, ...]], tuple[Manifest, ...]] = tuple
        """What every commit is made into: the same, or one with gateways on nodes."""
        self.program = program_of(1)
        """The program of gateways, in the version of the product that is installed."""
        self.home: dict[str, bytes] = {}
        """Files of controllers, by their names."""
        self.kept: str | None = None
        self.routes: Routes | None = None
        self.disk_full = False
        self.skew = 0.0
        self.jumps = 0
        self.slept = 0.0
        self.jitter = 0.0 if seed == 0 else 0.02
        self.lost_pushes = 0.0
        self.repeated_pushes = 0.0
        self.late_commands = False
        """Whether what a dead controller has sent arrives all the same."""
        self.controllers = itertools.count(1)
        self.controller: Controller | None = None
        self.supervised = True
        self.judged = True
        self.strays: set[Rank] = set()
        """Ranks that lived on machines that were lost: rule 5 is about those."""
        self.stopping = False
        self.crashes: Counter[str] = Counter()
        """How many ranks of each deployment a signal has ended."""
        self.programs: Mapping[str, Program] = {}
        """What the programs of jobs do."""
        self.waiting: tuple[str, ...] = ()
        """Jobs for which there are no nodes in the end."""
        self.refused_batch = 0
        """Ranks with this batch end instead of loading."""
        self.unservable: set[WorkloadId] = set()
        """What cannot be served as things are."""
        self.store_lost = False
        self.persons: set[tuple[str, str]] = set()
        """Subject and class of what only a person can mend, as it turned out."""
        self.asked_before: Counter[tuple[str, str]] = Counter()
        """What a person was told before the last fault, by subject and class."""
        self.failing_gateways: Counter[str] = Counter()
        """How often something befell the gateway of each node for which a person may be asked, by subject."""
        self.ending: dict[str, str] = {}
        """What it came to."""
        self.clients: Clients | None = None
        self.disturbed: list[float] = []
        """When there were faults that no client brought about: one that comes together with a poison hides it."""
        self.changed_at = -math.inf
        self.faulted_at = -math.inf
        """When a fault befell a point last."""
        self._stores = itertools.count(1)
        self._keeper: sqlite3.Connection | None = None
        self.connections = WeakSet[sqlite3.Connection]()
        """Of controllers, of which those that were killed have closed none."""
        self.backup: sqlite3.Connection | None = None
        """A copy of the store that somebody has made."""
        self._store: type[Store] = Store
        self.new_store()

    # --- what is told --------------------------------------------------------------------------

    def note(self, text: str) -> None:
        """Something has happened: told in the same words wherever this process keeps its files."""
        plain = _OWN_FOLDER.sub("world", text.replace(self._folder, ""))
        line = f"{self.loop.now:.4f} {self.loop.steps} {plain}"
        self._hash.update(line.encode())
        self.notes.append(line)

    @property
    def trace_hash(self) -> str:
        """Of everything that has happened."""
        return self._hash.hexdigest()

    def poisoned(self, rank: Rank, prompt: str) -> None:
        """A rank has read a prompt that it cannot bear."""
        self.note(f"{prompt} aborts {rank}")
        self.oracles.excuse(replica_of(rank.id))
        self.oracles.service.fault("poison")
        if self.clients is not None:
            self.clients.poisoned(rank, prompt)
        rank.end(None, signal.SIGABRT, "Abort trap: 6")

    def serve_clients(self, good: int, poisons: int, seconds: float, seed: int = 0) -> Clients:
        """Have clients use the endpoint for a while, all over one gateway."""
        self.clients = self.clients or Clients(self, seed)
        self.clients.use(good, poisons, self.loop.time() + seconds)
        return self.clients

    def pass_by(self, label: str, kinds: tuple[str, ...]) -> str | None:
        """An effect is about to be had: what befalls it."""
        if self._hurrying:
            return None
        self.note(label)
        kind = self.points.pass_by(label, kinds)
        if kind is not None:
            self.note(f"FAULT {kind}")
            self.faulted_at = self.loop.now
            self.disturbed.append(self.loop.now)
            self.oracles.service.fault(kind)
        return kind

    _hurrying = False

    # --- time and wires ------------------------------------------------------------------------

    def wall(self) -> float:
        """Seconds since the Unix epoch, as the controller's machine believes."""
        return BEGINNING + self.loop.now + self.skew

    def jump(self, seconds: float) -> None:
        """Somebody sets that clock. By an hour: then what was asked a moment ago was asked long ago."""
        self.skew += seconds
        self.jumps += abs(seconds) >= 3600.0

    def awake(self) -> float:
        """A clock of the controller's machine that stands still while it sleeps."""
        return self.loop.now - self.slept

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    def latency(self, machine: Machine) -> float:
        """Of one message to or from a machine."""
        extra = self.random.random() * self.jitter if self.jitter else 0.0
        return (LATENCY + extra) * machine.slow

    def copies(self) -> int:
        """How often a push arrives."""
        if not self.lost_pushes and not self.repeated_pushes:
            return 1
        drawn = self.random.random()
        return 0 if drawn < self.lost_pushes else 2 if drawn > 1 - self.repeated_pushes else 1

    # --- the store -----------------------------------------------------------------------------

    def new_store(self) -> None:
        """The store is gone: the next controller begins with an empty one."""
        if self._keeper is not None:
            self.store_lost = True
            self.changed("the store is lost")
            self._keeper.close()
        self.store_name = name = f"{self.name}-{next(self._stores)}"
        connection = type("WorldConnection", (SimConnection,), {"world": self, "database": name})
        self._store = type("WorldStore", (Store,), {"connection": connection})
        self._keeper = sqlite3.connect(f"file:{name}?mode=memory&cache=shared", uri=True)
        self.stored = Stored(self._keeper)

    def lose_tables(self, names: Collection[str]) -> None:
        """Some tables of the store are empty."""
        self.store_lost = True
        self.changed(f"the tables {', '.join(names)} are lost")
        self.stored.lose(names)

    def back_up(self) -> None:
        """Somebody copies the store."""
        self.backup = self.stored.copy()

    def restore_backup(self) -> None:
        """Somebody puts the copy in the store's place."""
        if self.backup is not None:
            self.new_store()
            self.stored.restore(self.backup)

    def open_store(self) -> Store:
        """The store as a controller opens it."""
        opened = self._store(place())
        opened._db.identities = (StoreFile(self.store_name, 0, 0, self),)
        return opened

    # --- controllers ---------------------------------------------------------------------------

    def start_controller(self) -> Controller:
        """Have a controller run."""
        self.controller = Controller(self, next(self.controllers))
        return self.controller

    def kill_controller(self, process: Process | None) -> None:
        """A controller's process ends here and now, in the middle of what it does. Raises ``Killed``."""
        assert process is not None
        self.end_controller(process)
        raise Killed

    def end_controller(self, process: Process) -> None:
        """A controller's process is gone; its supervisor starts another."""
        if not process.alive:
            return
        self.note(f"{process.name} is killed")
        process.alive = False
        for link in list(self.links):
            if link._process is process:
                self.links.remove(link)
                link.cut()
        if self.controller is not None and self.controller.process is process:
            self._supervise()

    def controller_ended(self, controller: Controller) -> None:
        """It has ended by itself."""
        self.end_controller(controller.process)

    def _supervise(self) -> None:
        self.controller = None
        if self.supervised:
            self.loop.call_later(RESTART_SECONDS, self._restart, context=Process("supervisor").context)

    def _restart(self) -> None:
        if self.controller is None and self.supervised:
            self.start_controller()

    def freeze_controller(self, seconds: float, replaced: bool = False) -> None:
        """The controller stands still for a while: its machine sleeps, or, as a zombie, another takes its place."""
        if self.controller is None or self.controller.process.frozen:
            return
        process = self.controller.process
        self.note(f"{process.name} is frozen")
        process.frozen = True
        self.loop.call_later(seconds, self._thaw, process, 0.0 if replaced else seconds)
        if replaced:
            self._supervise()

    def _thaw(self, process: Process, slept: float) -> None:
        self.slept += slept
        if process.alive:
            self.note(f"{process.name} goes on")
            self.loop.thaw(process)

    def set_pace(self, controller: Controller) -> None:
        """How often a controller looks by itself."""
        parts, loop = controller.parts, controller.loop
        if loop is not None and parts is not None:
            loop.resync_seconds = self.pace.resync_seconds
            loop.home_poll_seconds = self.pace.home_poll_seconds
            loop.coalesce_seconds = self.coalesce_seconds
            parts.collector.resync_seconds = self.pace.resync_seconds
            parts.collector.probes_seconds = self.pace.probes_seconds
            parts.gateways.keep_seconds = self.pace.keep_seconds

    def change_pace(self, pace: Pace) -> None:
        """For everybody, from now on."""
        self.pace = pace
        if self.controller is not None:
            self.set_pace(self.controller)
        for machine in self.machines.values():
            if machine.agent is not None and machine.agent.agent is not None:
                machine.agent.agent.ranks.look_seconds = pace.look_seconds

    def _slip(self, until: float) -> None:
        """Time is about to pass in which nothing happens: a controller has looked at its clocks all the while."""
        controller = self.controller
        if controller is None or controller.parts is None or controller.process.frozen:
            return
        gaps = controller.parts.clock_gaps
        gaps.check()
        passed = until - self.loop.now
        if gaps._before is not None:
            wall, awake, elapsed = gaps._before
            gaps._before = (wall + passed, awake + passed, elapsed + passed)

    # --- what is wanted ------------------------------------------------------------------------

    def commit(self, manifests: Iterable[Manifest], hook_runs: bool = True) -> None:
        """A person pushes."""
        before = self.wanted()
        self.commits.append(self.dress(tuple(manifests)))
        if len(self.commits) > 1:
            self.changed(f"commit r{len(self.commits)}")
        self.oracles.committed(before, self.wanted())
        self.oracles.service.look()
        self.loop.call_later(HOOK_SECONDS if hook_runs else POLL_SECONDS, self._announce)

    def _announce(self) -> None:
        if self.controller is not None:
            self.controller.look_at_source()

    def wanted(self) -> tuple[Manifest, ...]:
        """The manifests of the newest commit."""
        return () if self.stopping else self.commits[-1] if self.commits else ()

    def servable(self) -> tuple[Manifest, ...]:
        """The manifests of the newest commit that no rank refuses: what does not come up is taken back."""
        if self.stopping:
            return ()
        found = next((each for each in reversed(self.commits) if not self._refused(each)), ())
        for name in self.taken_back():
            served = self.stored.rollbacks()[name].spec_served
            assert served is not None
            found = _as_before(found, name, served)
        return found

    def taken_back(self) -> set[DeploymentName]:
        """The deployments whose change was taken back because ranks crashed, as often as that takes."""
        return {name for name in self.stored.rollbacks() if self.crashes[name] >= ATTEMPTS_MAX}

    def _refused(self, manifests: tuple[Manifest, ...]) -> bool:
        return any(
            isinstance(each, ModelDeployment) and each.spec.serving.max_batch == self.refused_batch
            for each in manifests
        )

    def expected(self, manifests: tuple[Manifest, ...]) -> set[ReplicaId]:
        """The replicas that should be served in the end."""
        return {
            ReplicaId(DeploymentName(m.metadata.name), index)
            for m in manifests
            if isinstance(m, ModelDeployment)
            for index in range(m.spec.replicas)
        } - self.unservable

    # --- machines ------------------------------------------------------------------------------

    def cut_off(self, name: str) -> None:
        """Nobody reaches a machine any more; what runs there goes on."""
        machine = self.machines[name]
        self.note(f"{name} is cut off")
        self.oracles.excuse_on(machine)
        machine.cut_off = True
        self.oracles.service.look()
        self.strays |= set(machine.alive())
        for link in self.links:
            if link.machine is machine:
                link.silent()

    def reconnect(self, name: str) -> None:
        """A machine is reached again."""
        self.note(f"{name} is reached again")
        self.oracles.excuse_on(self.machines[name])
        self.machines[name].cut_off = False
        self.machines[name].show()
        self.oracles.service.look()

    def changed(self, text: str) -> None:
        """A fact or a wish is another: what was not to be tried again unchanged may be."""
        self.note(text)
        self.changed_at = self.loop.now
        self.disturbed.append(self.loop.now)
        for machine in self.machines.values():
            machine.panicked = set()

    # --- ranks among themselves ----------------------------------------------------------------

    def ranks(self) -> list[Rank]:
        """All rank processes that live."""
        return [rank for machine in self.machines.values() for rank in machine.alive()]

    def group_of(self, rank: Rank) -> list[Rank]:
        """The other living ranks of its group."""
        id = rank.id
        mine = (id.deployment, id.replica, id.epoch)
        return [
            r for r in self.ranks() if r is not rank and (r.id.deployment, r.id.replica, r.id.epoch) == mine
        ]

    def complete(self, rank: Rank) -> bool:
        """Whether the group of a rank is whole, and all of it is up."""
        group = [rank, *self.group_of(rank)]
        return len(group) == rank.config.size and all(
            r.phase == Phase.READY
            and not r.stuck
            and not r.stopped
            and r.shim.process.alive
            and r.machine.reachable
            for r in group
        )

    def meet(self, rank: Rank) -> None:
        """A rank looks for the others of its group: who are all there go on."""
        group = [rank, *self.group_of(rank)]
        if len(group) == rank.config.size and all(each.phase == Phase.RENDEZVOUS for each in group):
            if len({each.config.secret for each in group}) > 1:
                return
            for each in group:
                self.loop.call_soon(each.load, context=each.process.context)

    def left(self, rank: Rank) -> None:
        """A rank is gone."""
        if self.sockets.get(rank.config.socket) is rank:
            del self.sockets[rank.config.socket]

    def rank(self, deployment: str, replica: int, number: int) -> Rank | None:
        """A living rank of a replica, of its newest epoch."""
        found = [
            r
            for r in self.ranks()
            if (r.id.deployment, r.id.replica, r.id.rank) == (deployment, replica, number)
        ]
        return max(found, key=lambda r: r.id.epoch, default=None)

    # --- looking at it -------------------------------------------------------------------------

    def memory(self) -> Memory | None:
        """What the controller remembers; None without a controller that has begun."""
        if self.controller is None or self.controller.parts is None:
            return None
        try:
            return remember(self.controller.parts)
        except ReconcilerError:
            return None

    def routed(self) -> dict[WorkloadId, int]:
        """The epoch to which each replica is routed."""
        found: dict[WorkloadId, int] = {}
        for route in self.routes.routes if self.routes else ():
            for backend in route.backends:
                found[ReplicaId(DeploymentName(route.model), backend.replica)] = backend.epoch
        return found

    def run(self, seconds: float) -> None:
        """Let time pass."""
        self.loop.run(self.loop.now + seconds)

    def close(self) -> None:
        """The end of this world."""
        self._hurrying = True
        self.points.open = False
        self.loop.close()
        for connection in (*self.connections, self._keeper, self.backup):
            if connection is not None:
                connection.close()


def _as_before(manifests: tuple[Manifest, ...], name: str, spec: FormedSpec) -> tuple[Manifest, ...]:
    """The same, with a deployment and its Model as a stored spec has them."""
    (now,) = (m for m in manifests if isinstance(m, ModelDeployment) and m.metadata.name == name)
    deployment, model = specs.applied(now, spec)
    others = (
        m for m in manifests if m is not now and (m.kind, m.metadata.name) != ("Model", model.metadata.name)
    )
    return (*others, model, deployment)
