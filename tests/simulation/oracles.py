"""What must hold at every moment, and what must be so in the end. A violation is a sentence with its time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from typing import TYPE_CHECKING

from reconciler.planning.group import fingerprint
from reconciler.resources import Manifest, Model, ModelDeployment, Node
from reconciler.state import DeploymentName, ReplicaId
from reconciler.store.incidents import IncidentFilter
from reconciler.wire.generation import Routes
from reconciler.wire.launch import Phase, RankId

if TYPE_CHECKING:
    from .loop import Process
    from .machines import Machine
    from .ranks import Rank
    from .world import World

UP = ("NodesBack", "TransportBack")
"""Why a group that is well may be formed anew."""
UP_PER_HOUR_MAX = 2
REASONS_KEPT_SECONDS = 60.0
"""For so long after a wish or a group was not as it should be, its consequences may still arrive."""
WITHHELD_SECONDS = 15.0
"""So soon it is known that a machine is not fit for a rank: probes are made every ten seconds."""
MESSAGES_PER_SECOND_MAX = 400


class Oracles:
    """Told of every effect as it happens."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.violations: list[str] = []
        self.stops: Counter[ReplicaId] = Counter()
        """How often a rank of each replica was asked to end."""
        self.formed: Counter[ReplicaId] = Counter()
        """How many epochs of each replica had a rank."""
        self._epochs: set[tuple[ReplicaId, int]] = set()
        self._heard: dict[str, int] = {}
        self._hearing: dict[str, int] = {}
        self._unwell: dict[ReplicaId, float] = {}
        self._asked: Counter[int] = Counter()
        self._revisions_since = 0.0
        self._holder: Process | None = None
        """Of the store: the controller that took it over last."""

    def violated(self, text: str) -> None:
        """Something happened that must not."""
        if self._world.points.open or self._world.judged:
            self.violations.append(f"{self._world.loop.now:.3f}: {text}")
            self._world.note(f"VIOLATION {text}")

    # --- rule 4: one epoch at a time, and memory -----------------------------------------------

    def started(self, rank: Rank) -> None:
        """A rank process has begun to live."""
        world, replica = self._world, replica_of(rank.id)
        if (replica, rank.id.epoch) not in self._epochs:
            self._epochs.add((replica, rank.id.epoch))
            self.formed[replica] += 1
            self._unwell[replica] = world.loop.now
        for other in world.ranks():
            if other is rank or replica_of(other.id) != replica:
                continue
            if world.store_lost and not (other.machine.agent_alive and other.machine.reachable):
                continue  # nobody is left who could tell of it, and its node may be lost by now
            if other.id == rank.id:
                self.violated(f"{rank} was started twice")
            elif other.id.epoch != rank.id.epoch and other.machine.reachable and other not in world.strays:
                self.violated(f"{rank} was started on {rank.node} while {other} lives on {other.node}")
        machine = rank.machine
        if machine.withheld_at is not None and world.loop.now - machine.withheld_at > WITHHELD_SECONDS:
            self.violated(f"{rank} was started on {rank.node}, which is not fit for it")
        charged = sum(each.spec.memory_bytes for each in machine.alive())
        if charged > machine.memory_bytes - reserve(world.wanted(), machine.name):
            self.violated(f"{machine.name} is charged {charged} of {machine.memory_bytes} bytes")

    # --- routes --------------------------------------------------------------------------------

    def routed(self, routes: Routes, by: Process) -> None:
        """The gateway has new routes."""
        if by is not self._holder:
            self.violated(f"{by.name} has written routes, and {self._holder} had taken over")
        seen: set[ReplicaId] = set()
        for route in routes.routes:
            for backend in route.backends:
                replica = ReplicaId(DeploymentName(route.model), backend.replica)
                if replica in seen:
                    self.violated(f"two epochs of {replica} are routed to")
                seen.add(replica)
                self._check_route(replica, backend.epoch)

    def _check_route(self, replica: ReplicaId, epoch: int) -> None:
        for rank in self._world.ranks():
            mixed = replica_of(rank.id) == replica and rank.id.epoch != epoch
            if mixed and rank.machine.reachable and rank not in self._world.strays:
                self.violated(f"{replica} is routed to epoch {epoch} while {rank} lives on {rank.node}")

    # --- who may act ---------------------------------------------------------------------------

    def asked(self) -> None:
        """A controller has asked an agent for a change."""
        second = int(self._world.loop.now)
        self._asked[second] += 1
        if self._asked[second] == MESSAGES_PER_SECOND_MAX:
            self.violated(f"{MESSAGES_PER_SECOND_MAX} requests within a second")

    def heard(self, machine: Machine, token: int) -> None:
        """An agent is about to act on a request with this token."""
        self._hearing[machine.name] = token

    def answered(self, machine: Machine) -> None:
        """It is done with the request."""
        token = self._hearing.pop(machine.name, 0)
        self._heard[machine.name] = max(token, self._heard.get(machine.name, 0))

    def effect_of_agent(self, machine: Machine, what: str) -> None:
        """An agent changes something on its machine."""
        token = self._hearing.get(machine.name)
        if token is not None and token < self._heard.get(machine.name, 0):
            self.violated(f"{machine.name}: {what}, for a controller that was deposed")

    def stored(self, by: Process | None, label: str) -> None:
        """A controller has written to the store: whoever took it over last may."""
        if label == "_take_over":
            self._holder = by
        elif by is not self._holder:
            self.violated(f"{by} has written to the store ({label}), and {self._holder} had taken over")

    # --- stops ---------------------------------------------------------------------------------

    def terminated(self, rank: Rank) -> None:
        """A rank is asked to end: its group was not well, or nobody wants it as it is."""
        replica = replica_of(rank.id)
        self.stops[replica] += 1
        if self.well(rank) and not self._excused(replica) and not self._better(rank):
            self.violated(f"{rank} on {rank.node} was asked to end, and its group was well")

    def _better(self, rank: Rank) -> bool:
        """Whether it has nothing to do and makes room for a larger group, or one on a faster transport; seldom."""
        attempts = self._world.attempts().get(replica_of(rank.id), ())
        ups = [attempt for attempt in attempts if attempt.cause in UP]
        hour = [up for up in ups if attempts[-1].at - up.at < 3600.0]
        owes = any(r.shim.state.progress.demand for r in (rank, *self._world.group_of(rank)))
        return bool(ups) and ups[-1].epoch > rank.id.epoch and len(hour) <= UP_PER_HOUR_MAX and not owes

    def forgotten(self, machine: Machine, id: RankId) -> None:
        """What is left of a rank is removed."""
        if any(rank.id == id for rank in machine.alive()):
            self.violated(f"the files of {id} on {machine.name} are removed while it lives")

    def well(self, rank: Rank) -> bool:
        """Whether the group of a rank is whole, up, and what is wanted now."""
        world = self._world
        group = [rank, *world.group_of(rank)]
        whole = len(group) == rank.config.size and all(
            r.phase == Phase.READY
            and not r.hung
            and not r.stopped
            and r.shim.process.alive
            and r.machine.reachable
            for r in group
        )
        return whole and suits(world.wanted(), rank, [r.node for r in group])

    def excuse(self, replica: ReplicaId, seconds: float = 0.0) -> None:
        """Something was done to a replica for which its group may have to go."""
        self._unwell[replica] = self._world.loop.now + seconds

    def excuse_all(self, seconds: float = 0.0) -> None:
        """The same for all of them."""
        self._revisions_since = self._world.loop.now + seconds

    def _excused(self, replica: ReplicaId) -> bool:
        since = max(self._unwell.get(replica, 0.0), self._revisions_since)
        return self._world.loop.now - since < REASONS_KEPT_SECONDS

    def persons(self, expected: Collection[tuple[str, str]]) -> None:
        """In the end: what only a person can mend was told once, by subject and class; nothing was told twice."""
        controller = self._world.controller
        assert controller is not None
        assert controller.parts is not None
        incidents = controller.parts.store.incidents.find(IncidentFilter(limit=1000))
        told = Counter((each.subject, fault.value) for each in incidents for fault in each.asked)
        for subject, fault in sorted({*expected, *told}):
            count = told[subject, fault]
            if count > 1 or (count == 0 and (subject, fault) in expected):
                self.violated(f"a person was told {count} times of {fault} of {subject}")

    # --- in the end ----------------------------------------------------------------------------

    def missing(self) -> str:
        """What is not as it should be in the end; empty once everything is."""
        world = self._world
        if world.controller is None or world.controller.parts is None:
            return "there is no controller"
        parts = world.controller.parts
        plan, in_flight = parts.last.plan, parts.executor.in_flight
        if plan.steps or in_flight:
            return f"steps are taken: {[str(s) for s in plan.steps]} {sorted(in_flight)}"
        if plan.waiting:
            return f"something is waited for: {plan.waiting[0].text}"
        misplaced = self._misplaced(world.expected(world.wanted()))
        if misplaced:
            return misplaced
        memory = world.memory()
        if memory is None or memory.unwritable or parts.publisher._disk_told:
            return "something could not be written"
        return f"{sorted(map(str, memory.leaving))} are still leaving" if memory.leaving else ""

    def _misplaced(self, expected: set[ReplicaId]) -> str:
        world = self._world
        routed = world.routed()
        if set(routed) != expected:
            return f"routed are {sorted(map(str, routed))}, expected {sorted(map(str, expected))}"
        for rank in world.ranks():
            if routed.get(replica_of(rank.id)) != rank.id.epoch:
                return f"{rank} lives on {rank.node}, and is not served"
            if not self.well(rank):
                return f"the group of {rank} on {rank.node} is not well ({rank.phase})"
        for replica in sorted(expected):
            if not any(replica_of(rank.id) == replica for rank in world.ranks()):
                return f"{replica} has no rank"
        wanted = {m.metadata.name for m in world.wanted() if isinstance(m, Node)}
        agents = {m.name for m in world.machines.values() if m.agent and m.agent.process.alive}
        able = {name for name in wanted if world.machines[name].reachable}
        if agents & set(world.machines) - {n for n in agents if not world.machines[n].reachable} != able:
            return f"agents run on {sorted(agents)}, expected {sorted(able)}"
        return ""


def replica_of(id: RankId) -> ReplicaId:
    """The replica that a rank belongs to."""
    return ReplicaId(DeploymentName(id.deployment), id.replica)


def reserve(manifests: tuple[Manifest, ...], node: str) -> int:
    """Memory that is to be left alone on a node."""
    found = (m.spec.memory.reserve for m in manifests if isinstance(m, Node) and m.metadata.name == node)
    return next(found, 0)


def suits(manifests: tuple[Manifest, ...], rank: Rank, nodes: list[str]) -> bool:
    """Whether a group on these nodes is what these manifests ask for."""
    deployments = {m.metadata.name: m for m in manifests if isinstance(m, ModelDeployment)}
    models = {m.metadata.name: m for m in manifests if isinstance(m, Model)}
    known = {m.metadata.name: m for m in manifests if isinstance(m, Node)}
    deployment = deployments.get(rank.id.deployment)
    if deployment is None or deployment.spec.model not in models:
        return False
    spec = deployment.spec
    return (
        rank.id.replica < spec.replicas
        and rank.spec.group == fingerprint(deployment, models[spec.model])
        and spec.parallelism.nodes.min <= len(nodes) <= spec.parallelism.nodes.max
        and all(n in known and not known[n].spec.drain for n in nodes)
    )
