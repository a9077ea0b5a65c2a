"""What must hold at every moment, and what must be so in the end. A violation is a sentence with its time."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING, Any

from reconciler.planning.context.lost_nodes import LOST_AFTER_SECONDS
from reconciler.planning.context.workload import hash_of
from reconciler.planning.diagnosis.detectors import PANICS_MAX
from reconciler.planning.recovery.diagnose import PROOFS_MAX
from reconciler.resources import Manifest, Model, ModelDeployment, Node
from reconciler.state import DeploymentName, MachineFacts, ObjectKey, ReplicaId, RunId, WorkloadId
from reconciler.status import Snapshots
from reconciler.wire.generation import Routes
from reconciler.wire.launch import RankId
from reconciler.wire.node import NodeReport

from .availability import Availability
from .jobs import Jobs
from .node_gateways import NodeGateways
from .patience import Patience
from .pruning import REASONS_KEPT_SECONDS, Pruning, key_of, replica_of
from .service import Service
from .told import Told

if TYPE_CHECKING:
    from tests.simulation.world.loop import Process
    from tests.simulation.world.machines import Machine
    from tests.simulation.world.ranks import Rank
    from tests.simulation.world.world import World

    from .reached import Reached

UP = ("NodesBack", "TransportBack")
"""Why a group that is well may be formed anew."""
UP_PER_HOUR_MAX = 2
WITHHELD_SECONDS = 15.0
"""So soon it is known that a machine is not fit for a rank, or is otherwise: probes are made every ten seconds."""
NEWS_SECONDS = 15.5
"""So soon it is known that a rank has ended, or that its machine is silent, which is given up after 15 s."""
MESSAGES_PER_SECOND_MAX = 400


class Oracles:
    """Told of every effect as it happens."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.violations: list[str] = []
        self.stops: Counter[WorkloadId] = Counter()
        """How often a rank of each replica was asked to end."""
        self.formed: Counter[WorkloadId] = Counter()
        """How many epochs of each replica had a rank."""
        self._written: dict[tuple[WorkloadId, int], float] = {}
        """When each epoch was written."""
        self._newest: dict[WorkloadId, int] = {}
        """The epoch of each replica that the store gave last."""
        self._epochs: set[tuple[WorkloadId, int]] = set()
        self._newest_token: dict[str, int] = {}
        self._token_in_hand: dict[str, int] = {}
        self._unwell: dict[WorkloadId, float] = {}
        self._requests: Counter[int] = Counter()
        self._revisions_since = 0.0
        self._begun: dict[Process, float] = {}
        self._reported: dict[Process, set[tuple[str, RankId]]] = {}
        """The ranks that each controller has heard of."""
        self._drawn: dict[tuple[WorkloadId, int], tuple[Process, float]] = {}
        """Who wrote each epoch since the store was lost, and when."""
        self.pruning = Pruning(world, self.violated)
        self.availability = Availability(world, self.violated)
        self.service = Service(world, self.violated)
        self.patience = Patience(world, self.violated)
        self.told = Told(world, self.violated)
        self.jobs = Jobs(world, self.violated)
        self.gateways = NodeGateways(world, self.violated)
        self.reached: Reached | None = None
        self._gone: dict[tuple[WorkloadId, int], float] = {}
        """When the first rank of an epoch ended."""
        self._broken: Counter[tuple[WorkloadId, int]] = Counter()
        """How many first completions of each epoch did not come."""
        self._routed: dict[WorkloadId, int] = {}
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
        self.availability.started(rank)
        self.jobs.started(rank)
        if (replica, rank.id.epoch) not in self._epochs:
            self._epochs.add((replica, rank.id.epoch))
            self.formed[replica] += 1
            self._unwell[replica] = world.loop.now
        if not any(other is not rank and replica_of(other.id) == replica for other in world.ranks()):
            self._gone.pop(
                (replica, rank.id.epoch), None
            )  # a store of before knew the group, and not its end
        for other in world.ranks():
            if other is rank or replica_of(other.id) != replica:
                continue
            if self._unknowable(rank, other):
                continue
            if other.machine.given_up:
                world.strays.add(other)
            if other.id == rank.id:
                self.violated(f"{rank} was started twice")
            elif other.id.epoch != rank.id.epoch and other.machine.reachable and other not in world.strays:
                self.violated(f"{rank} was started on {rank.node} while {other} lives on {other.node}")
        machine = rank.machine
        if machine.withheld_at is not None and world.loop.now - machine.withheld_at > WITHHELD_SECONDS:
            self.violated(f"{rank} was started on {rank.node}, which is not fit for it")
        if machine.panics - machine.harmed >= PANICS_MAX and replica in machine.panicked:
            self.violated(
                f"{rank} was started on {rank.node}, which it has brought down {machine.panics} times"
            )
        charged = sum(each.spec.memory_bytes for each in machine.alive())
        if charged > machine.memory_bytes - reserve(world.wanted(), machine.name):
            self.violated(f"{machine.name} is charged {charged} of {machine.memory_bytes} bytes")

    def _unknowable(self, rank: Rank, other: Rank) -> bool:
        """Whether whoever drew the epoch of a rank could not know of another: the store was lost, and the node has
        told it nothing of that for so long that it counts as lost."""
        by, at = self._drawn.get((replica_of(rank.id), rank.id.epoch), (None, 0.0))
        if by is None or (other.node, other.id) in self._reported[by]:
            return False
        return at - self._begun[by] >= LOST_AFTER_SECONDS

    def drawn(self, epoch: tuple[WorkloadId, int], by: Process) -> None:
        """Since the store was lost, a controller has written an epoch."""
        self._drawn[epoch] = (by, self._world.loop.now)

    def formed_as_things_are(self, rank: Rank) -> bool:
        """Whether the facts and wishes that the group of a rank was formed under are those of now: where one is
        another, what has failed may be tried again."""
        written = self._written.get((replica_of(rank.id), rank.id.epoch), -math.inf)
        return written - self._world.changed_at > WITHHELD_SECONDS

    def ended(self, rank: Rank) -> None:
        """A rank process lives no more."""
        self._gone.setdefault((replica_of(rank.id), rank.id.epoch), self._world.loop.now)
        self.jobs.ended(rank)
        self.service.look()

    def planned(self, last: Snapshots) -> None:
        """A pass has decided."""
        self.patience.planned(last.plan)
        self.told.planned(last)
        self.jobs.planned(last)
        self.gateways.planned(last)
        if self.reached is not None:
            self.reached.passed(last)

    def begun(self, process: Process) -> None:
        """A controller starts."""
        self._begun[process] = self._world.loop.now
        self._reported[process] = set()

    def reported(self, process: Process, machine: Machine, report: NodeReport) -> None:
        """A controller hears what is on a machine."""
        self._reported[process].update((machine.name, rank.id) for rank in report.ranks)

    def told_of(self, process: Process) -> Collection[tuple[str, RankId]]:
        """The ranks that a controller has heard of, with their nodes."""
        return self._reported.get(process, frozenset())

    # --- routes --------------------------------------------------------------------------------

    def routed(self, routes: Routes, by: Process) -> None:
        """The gateway has new routes."""
        if by is not self._holder:
            self.violated(f"{by.name} has written routes, and {self._holder} had taken over")
        seen: set[WorkloadId] = set()
        before, self._routed = self._routed, {}
        for route in routes.routes:
            for backend in route.backends:
                replica = ReplicaId(DeploymentName(route.model), backend.replica)
                if replica in seen:
                    self.violated(f"two epochs of {replica} are routed to")
                seen.add(replica)
                self._routed[replica] = backend.epoch
                gone = self._gone.get((replica, backend.epoch), self._world.loop.now)
                if before.get(replica) != backend.epoch and self._world.loop.now - gone > NEWS_SECONDS:
                    self.violated(
                        f"{replica} is routed to epoch {backend.epoch}, of which a rank is long gone"
                    )
                self._check_route(replica, backend.epoch)
        self.service.look()

    def _check_route(self, replica: WorkloadId, epoch: int) -> None:
        for rank in self._world.ranks():
            mixed = replica_of(rank.id) == replica and rank.id.epoch != epoch
            if mixed and rank.machine.reachable and rank not in self._world.strays:
                self.violated(f"{replica} is routed to epoch {epoch} while {rank} lives on {rank.node}")

    # --- who may act ---------------------------------------------------------------------------

    def requested(self, by: Process, machine: Machine, message: Any) -> None:
        """A controller has asked an agent for a change."""
        self.patience.requested(by, machine, message)
        second = int(self._world.loop.now)
        self._requests[second] += 1
        if self._requests[second] == MESSAGES_PER_SECOND_MAX:
            self.violated(f"{MESSAGES_PER_SECOND_MAX} requests within a second")

    def request_received(self, machine: Machine, token: int) -> None:
        """An agent is about to act on a request with this token."""
        self._token_in_hand[machine.name] = token

    def answered(self, machine: Machine) -> None:
        """It is done with the request."""
        token = self._token_in_hand.pop(machine.name, 0)
        self._newest_token[machine.name] = max(token, self._newest_token.get(machine.name, 0))

    def effect_of_agent(self, machine: Machine, what: str) -> None:
        """An agent changes something on its machine."""
        token = self._token_in_hand.get(machine.name)
        if token is not None and token < self._newest_token.get(machine.name, 0):
            self.violated(f"{machine.name}: {what}, for a controller that was deposed")

    def repaired(self, machine: Machine, argv: tuple[str, ...]) -> None:
        """A setting of a machine is changed: only what its Node allows."""
        found = (m for m in self._world.wanted() if isinstance(m, Node) and m.metadata.name == machine.name)
        if not any(allows(node, argv) for node in found):
            self.violated(f"{machine.name}: {' '.join(argv)}, which its Node does not allow")
        users = [rank for rank in machine.alive() if rank.config.backend == "jaccl" and argv[0] == "ifconfig"]
        if users:
            self.violated(f"{machine.name}: {' '.join(argv)}, while {users[0]} uses the cable")

    def undone(self, machine: Machine, before: MachineFacts) -> None:
        """A repair was not confirmed, or failed: the settings are those from before it."""
        if _settings(machine.facts) != _settings(before):
            self.violated(f"{machine.name}: a repair that was undone has left {machine.facts.ports}")

    def stored(self, by: Process | None, label: str) -> None:
        """A controller has written to the store: whoever took it over last may."""
        if label == "_take_over":
            self._holder = by
        elif by is not self._holder:
            self.violated(f"{by} has written to the store ({label}), and {self._holder} had taken over")
        if label in ("_take_over", "allocate", "adopt", "create_run"):
            before, self._newest = self._newest, self._world.stored.epochs()
            for epoch in self._newest.items() - before.items() if label in ("allocate", "create_run") else ():
                self._given(epoch, by)
        self.pruning.stored(label)
        self.jobs.stored(label)

    def _given(self, epoch: tuple[WorkloadId, int], by: Process | None) -> None:
        """An epoch is written: what was known of a group that had the same before the store was lost is not of it."""
        self._written[epoch] = self._world.loop.now
        self.availability.replaced(epoch[0])
        self._gone.pop(epoch, None)
        if self._world.store_lost and by is not None:
            self.drawn(epoch, by)

    # --- stops ---------------------------------------------------------------------------------

    def terminated(self, rank: Rank) -> None:
        """A rank is asked to end: its group was not well, or nobody wants it as it is."""
        replica = replica_of(rank.id)
        self.stops[replica] += 1
        if isinstance(replica, RunId) or self.jobs.displaced(rank):
            self.jobs.terminated(rank)
            return
        self.availability.terminated(rank)
        if self.well(rank) and not self.is_excused(replica) and not self._better(rank):
            self.violated(f"{rank} on {rank.node} was asked to end, and its group was well")

    def _better(self, rank: Rank) -> bool:
        """Whether it has nothing to do and makes room for a larger group, or one on a faster transport; seldom."""
        attempts = self._world.stored.attempts().get(replica_of(rank.id), ())
        ups = [attempt for attempt in attempts if attempt.cause in UP]
        hour = [up for up in ups if attempts[-1].at - up.at < 3600.0]
        owes = any(r.shim.state.progress.demand for r in (rank, *self._world.group_of(rank)))
        return bool(ups) and ups[-1].epoch > rank.id.epoch and len(hour) <= UP_PER_HOUR_MAX and not owes

    def forgotten(self, machine: Machine, id: RankId) -> None:
        """What is left of a rank is removed."""
        self.pruning.forgotten(id)
        self.jobs.forgotten(id)
        if any(rank.id == id for rank in machine.alive()):
            self.violated(f"the files of {id} on {machine.name} are removed while it lives")

    def well(self, rank: Rank) -> bool:
        """Whether the group of a rank is whole, up, and what is wanted now."""
        world = self._world
        nodes = [r.node for r in (rank, *world.group_of(rank))]
        return world.complete(rank) and suits(world.servable(), rank, nodes)

    def excuse(self, replica: WorkloadId, seconds: float = 0.0) -> None:
        """Something was done to a replica for which its group may have to go."""
        self._unwell[replica] = self._world.loop.now + seconds
        self.availability.befallen(replica, self._unwell[replica])

    def broke_off(self, rank: Rank) -> None:
        """A first completion did not come: a group may go of which so many did not, however well it is."""
        epoch = (replica_of(rank.id), rank.id.epoch)
        self._broken[epoch] += 1
        if self._broken[epoch] >= PROOFS_MAX:
            self.excuse(epoch[0])

    def excuse_on(self, machine: Machine) -> None:
        """The same for those with a rank on a machine."""
        for rank in machine.alive():
            self.excuse(replica_of(rank.id))

    def excuse_unproven_on(self, machine: Machine) -> None:
        """The same for those that never served: nobody can ask them for a first completion."""
        for rank in machine.alive():
            if not self.availability.was_routed(rank):
                self.excuse(replica_of(rank.id))

    def committed(self, before: tuple[Manifest, ...], after: tuple[Manifest, ...]) -> None:
        """A commit may end what it has changed or removed, and nothing else."""
        old, new = ({key_of(manifest): manifest for manifest in each} for each in (before, after))
        changed = {key for key in old.keys() | new.keys() if old.get(key) != new.get(key)}
        for key in old.keys() | new.keys():
            for replica in _concerned(old.get(key), new.get(key), changed):
                self._unwell[replica] = self._world.loop.now
        self.pruning.committed(old.keys(), new.keys())
        self.jobs.committed(changed)
        self.availability.committed()
        self.gateways.committed()
        for kind, name in changed:
            if kind == "Node" and name in self._world.machines:
                self.excuse_on(self._world.machines[name])

    def excuse_all(self, seconds: float = 0.0) -> None:
        """The same for all of them."""
        self.pruning.excuse_all()
        self._revisions_since = self._world.loop.now + seconds

    def is_excused(self, replica: WorkloadId) -> bool:
        """Whether something was done to a workload lately for which its group may have to go."""
        since = max(self._unwell.get(replica, 0.0), self._revisions_since)
        return self._world.loop.now - since < REASONS_KEPT_SECONDS


def _concerned(
    old: Manifest | None, new: Manifest | None, changed: Collection[ObjectKey]
) -> Iterator[WorkloadId]:
    """The replicas of a deployment whose groups may end where this is what has changed."""
    known = [manifest for manifest in (old, new) if isinstance(manifest, ModelDeployment)]
    counts = (
        [each.spec.replicas for each in known] if len(known) == 2 else [0, *(e.spec.replicas for e in known)]
    )
    specs = [each.spec.model_copy(update={"replicas": 0}) for each in known]
    all_replicas = specs[1:] != specs[:-1] or any(
        ObjectKey("Model", each.spec.model) in changed for each in known
    )
    for each in known[:1]:
        for index in range(0 if all_replicas else min(counts), max(counts)):
            yield ReplicaId(DeploymentName(each.metadata.name), index)


def _settings(facts: MachineFacts) -> tuple[object, ...]:
    ports = [(port.receptacle, port.bridged, port.address) for port in facts.ports]
    return (*ports, facts.wired_limit_bytes, facts.sleeps)


def allows(node: Node, argv: tuple[str, ...]) -> bool:
    """Whether a Node lets such a command be run on its machine."""
    repair = node.spec.repair
    allowed = {"ifconfig": repair.network, "sysctl": repair.wired_limit, "pmset": repair.sleep}
    return allowed.get(argv[0], False)


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
        and rank.spec.group == hash_of(deployment.spec, models[spec.model])
        and spec.parallelism.nodes.min <= len(nodes) <= spec.parallelism.nodes.max
        and (len(nodes) == 1 or rank.spec.transport in ("", *spec.transport))
        and all(n in known and not known[n].spec.drain for n in nodes)
    )
