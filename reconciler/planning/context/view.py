"""Views of one workload within its world; of a replica, wanted or not, with a group or without.

The type of a rule's argument says which replicas the rule is about, so that no rule has to check for missing values.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Generic, Self, TypeVar

from reconciler.resources import Health, Model, ModelDeployment
from reconciler.state import (
    Contact,
    GroupRecord,
    NodeName,
    ObservedRank,
    ReplicaId,
    RunId,
    TransportFailure,
    VerbsAttempts,
    WaitingFor,
)
from reconciler.state.formed_under import Fact
from reconciler.state.identity import ObjectKey
from reconciler.state.subjects import subject_of

from . import attempt_facts
from . import workload as workloads
from .decision import Decision, waiting
from .lost_nodes import is_lost
from .memory_ledger import Ledger
from .target import Hold, Target
from .unseen import report_awaited, unseen
from .workload import Workload
from .world import World

Id = TypeVar("Id", ReplicaId, RunId)


@dataclass(frozen=True, kw_only=True)
class WorkloadView(Generic[Id]):
    """Any workload. Values that several rules need are computed once."""

    world: World
    ledger: Ledger
    id: Id
    record: GroupRecord | None
    """Its group, as the store has it."""
    ranks: tuple[ObservedRank, ...]
    """Its ranks of any epoch, on any node."""

    @cached_property
    def alive(self) -> tuple[ObservedRank, ...]:
        """List the ranks that may live and can be asked to end. Ranks on lost nodes cannot, nor can those that
        SIGKILL has not ended: the quarantine of their nodes keeps new ranks apart from both."""
        return tuple(
            rank
            for rank in self.ranks
            if rank.alive and not rank.unkillable and not is_lost(self.world, rank.node)
        )

    @property
    def members(self) -> tuple[NodeName, ...]:
        """List the nodes of its group, in the order of ranks; empty without a group."""
        return self.record.members if self.record else ()

    @cached_property
    def lost_members(self) -> list[NodeName]:
        return [name for name in self.members if is_lost(self.world, name)]

    @cached_property
    def current(self) -> Mapping[int, ObservedRank]:
        """Map the ranks of the recorded group by their numbers."""
        return self.world.observed.group(self.record) if self.record else {}

    @property
    def in_flight(self) -> bool:
        """Return whether a step about it is being executed."""
        return str(subject_of(self.id)) in self.world.memory.in_flight

    @property
    def unreachable(self) -> list[NodeName]:
        """List the nodes with a rank of it that may live, and that do not answer, in the order of names."""
        return [n for n in self._unseen if self.world.node(n).contact is Contact.UNREACHABLE]

    @cached_property
    def _unseen(self) -> list[NodeName]:
        return unseen(self.world, {rank.node for rank in self.alive} | set(self.members))

    @property
    def report_awaited(self) -> Decision | None:
        """Wait for its nodes that were not seen since the last change to them; None if all were."""
        return report_awaited(self.world, self.id, self._unseen)

    def wait(self, reason: WaitingFor, text: str, until: float | None = None) -> Decision:
        """Say what it waits for; ``until`` in seconds of the controller's clock."""
        return Decision(waiting=(waiting(self.id, reason, text, until),))


@dataclass(frozen=True, kw_only=True)
class View(WorkloadView[ReplicaId]):
    """Any replica."""

    @property
    def replica(self) -> ReplicaId:
        return self.id

    @property
    def health(self) -> Health:
        """Return the bounds of its deployment, or the defaults if the deployment is gone."""
        return Health()


@dataclass(frozen=True, kw_only=True)
class Unwanted(View):
    """A replica that the manifests no longer ask for, with ranks or a record left."""


@dataclass(frozen=True, kw_only=True)
class Wanted(View):
    """A replica that a deployment asks for."""

    target: Target

    @property
    def deployment(self) -> ModelDeployment:
        """Return its deployment, with the spec that it is to be served with now."""
        return self.target.deployment

    @property
    def model(self) -> Model | None:
        return self.target.model

    @property
    def hold(self) -> Hold | None:
        return self.target.hold

    @cached_property
    def workload(self) -> Workload | None:
        """Return the deployment and Model that it is to be served with; None if no manifest has the Model."""
        if self.model is None:
            return None
        return workloads.of(self.world.desired, self.replica, self.deployment, self.model)

    @property
    def health(self) -> Health:
        return self.deployment.spec.health

    @property
    def spec_generations(self) -> str:
        """Return the generations of deployment and Model: they identify the spec that a step is done for."""
        generations = self.world.desired.generations
        keys = (self.replica.key, ObjectKey("Model", self.deployment.spec.model))
        return "/".join(str(generations.get(key, 1)) for key in keys)

    def current_facts(self, members: tuple[NodeName, ...]) -> dict[Fact, str]:
        """Collect the facts that a group on these nodes would be formed under."""
        path = self.workload.path if self.workload else ""
        return attempt_facts.current_facts(self.world, members, path, self.spec_generations)

    def without_transport(self, failed: TransportFailure) -> Self:
        """Return the same view of a world in which a transport has failed this replica."""
        known = self.world.memory.transport_failures
        others = (each for each in known.get(self.replica, ()) if each.transport != failed.transport)
        failures = {**known, self.replica: (*others, failed)}
        return replace(self, world=self.world.decided(transport_failures=failures))

    def with_wasted_verbs(self, wasted: Collection[tuple[NodeName, str]]) -> Self:
        """Return the same view of a world in which one more attempt to set RDMA up has failed on these machines.

        ``wasted`` has the node and the boot id of each.
        """
        verbs = dict(self.world.memory.verbs)
        for name, boot in wasted:
            before = verbs.get(name)
            count = before.count if before and before.boot_id == boot else 0
            verbs[name] = VerbsAttempts(boot, count + 1)
        return replace(self, world=self.world.decided(verbs=verbs)) if wasted else self


@dataclass(frozen=True, kw_only=True)
class Unformed(Wanted):
    """A wanted replica without a group."""

    record: None = None


@dataclass(frozen=True, kw_only=True)
class Formed(Wanted):
    """A wanted replica with a group, whatever its ranks do."""

    record: GroupRecord

    @property
    def up_to_date(self) -> bool:
        """Return whether its group serves what the manifests ask for now."""
        record, workload = self.record, self.workload
        return workload is not None and workload.is_served_by(record.fingerprint, record.context)


def look(
    world: World, ledger: Ledger, replica: ReplicaId, target: Target | None
) -> Unwanted | Unformed | Formed:
    """Look at a replica; ``target`` is the spec to serve it with, None for one that is not wanted."""
    record, ranks = world.memory.groups.get(replica), world.observed.ranks_of(replica)
    if target is None:
        return Unwanted(world=world, ledger=ledger, id=replica, record=record, ranks=ranks)
    if record is None:
        return Unformed(world=world, ledger=ledger, id=replica, ranks=ranks, target=target)
    return Formed(world=world, ledger=ledger, id=replica, record=record, ranks=ranks, target=target)
