"""One replica within its world: what every rule about it asks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from reconciler.resources import Growth, Health, Model, ModelDeployment
from reconciler.state import (
    GroupRecord,
    NodeName,
    ObservedRank,
    ReplicaId,
    TransportFailure,
    VerbsAttempts,
    Waiting,
    WaitingFor,
)
from reconciler.state.identity import ObjectKey

from . import attempt_facts, spec_hash
from .lost_nodes import is_lost
from .memory_ledger import Ledger
from .world import World


@dataclass(frozen=True)
class View:
    """One replica within its world. What every rule asks is found out once."""

    world: World
    ledger: Ledger
    replica: ReplicaId
    deployment: ModelDeployment | None
    """None when the replica is no longer wanted."""
    model: Model | None
    record: GroupRecord | None
    ranks: tuple[ObservedRank, ...]
    """Of any epoch, on any node."""

    @cached_property
    def alive(self) -> tuple[ObservedRank, ...]:
        """Those that may live and can be asked to end: nothing can be done about ranks on lost nodes."""
        return tuple(rank for rank in self.ranks if rank.alive and not is_lost(self.world, rank.node))

    @cached_property
    def lost_members(self) -> list[NodeName]:
        """The nodes of its group that are lost."""
        members = self.record.members if self.record else ()
        return [name for name in members if is_lost(self.world, name)]

    @cached_property
    def current(self) -> Mapping[int, ObservedRank]:
        """The ranks of the recorded group, by rank."""
        return self.world.observed.group(self.record) if self.record else {}

    @cached_property
    def spec_hash(self) -> str:
        """Of the wish. Only where there is one: a deployment with its model."""
        assert self.deployment is not None
        assert self.model is not None
        return spec_hash.compute(self.deployment, self.model)

    @property
    def health(self) -> Health:
        """The bounds of its deployment, or everybody's when that is gone."""
        return self.deployment.spec.health if self.deployment else Health()

    @property
    def growth(self) -> Growth:
        """When it may be formed anew to become better; everybody's when its deployment is gone."""
        return self.deployment.spec.growth if self.deployment else Growth()

    @property
    def spec_generations(self) -> str:
        """Which deployment and which model something is done for: the generations of both."""
        model = self.deployment.spec.model if self.deployment else ""
        generations = self.world.desired.generations
        return "/".join(str(generations.get(key, 1)) for key in (self.replica.key, ObjectKey("Model", model)))

    def without_transport(self, failed: TransportFailure) -> View:
        """The same, in a world in which a transport has failed this replica."""
        memory = self.world.memory
        rungs = {**memory.rungs, self.replica: (*memory.rungs.get(self.replica, ()), failed)}
        return replace(self, world=replace(self.world, memory=replace(memory, rungs=rungs)))

    def with_wasted_verbs(self, vain: Iterable[tuple[NodeName, str]]) -> View:
        """The same, in a world in which RDMA was set up in vain on these machines, in their boots, once more."""
        memory = self.world.memory
        verbs = dict(memory.verbs)
        for name, boot in vain:
            before = verbs.get(name)
            count = before.count if before and before.boot_id == boot else 0
            verbs[name] = VerbsAttempts(boot, count + 1)
        return replace(self, world=replace(self.world, memory=replace(memory, verbs=verbs)))

    def current_facts(self, members: tuple[NodeName, ...]) -> dict[str, str]:
        """The facts that a group on these nodes would be formed under."""
        path = self.model.spec.source.folder if self.model else ""
        return attempt_facts.current_facts(self.world, members, path, self.spec_generations)

    def wait(self, reason: WaitingFor, text: str, until: float | None = None) -> Waiting:
        return Waiting(self.replica.key, reason, f"{self.replica}: {text}", until, self.replica)
