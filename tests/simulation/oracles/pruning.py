"""Nothing is taken away that the manifests have: no object, no group, no agent, and no trace of a newest epoch."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TYPE_CHECKING

from reconciler.resources import Manifest, Node
from reconciler.state import NodeName, ObjectKey, WorkloadId
from reconciler.state.identity import workload_named
from reconciler.wire.launch import RankId

if TYPE_CHECKING:
    from tests.simulation.world.machines import Machine
    from tests.simulation.world.world import World

REASONS_KEPT_SECONDS = 60.0
"""For so long after a wish or a group was not as it should be, its consequences may still arrive."""


class Pruning:
    """Told of every removal as it happens, with the inventory as it was before."""

    def __init__(self, world: World, violated: Callable[[str], None]) -> None:
        self._world = world
        self._violated = violated
        self._inventory: dict[ObjectKey, bool] = {}
        """The objects that the store has, and whether they are leaving."""
        self._groups: dict[WorkloadId, tuple[NodeName, ...]] = {}
        self._lacked: dict[ObjectKey, float] = {}
        """When each object was not in the manifests last."""

    def committed(self, before: Collection[ObjectKey], after: Collection[ObjectKey]) -> None:
        """There are other manifests."""
        for key in set(before) ^ set(after):
            self._lacked[key] = self._world.loop.now

    def excuse_all(self) -> None:
        """Everything was not wanted for a while."""
        self.committed({*map(key_of, self._world.commits[-1])}, ())

    def wanted(self, key: ObjectKey) -> bool:
        """Whether the manifests have an object, and have had it for so long that everybody knows."""
        there = any(key_of(manifest) == key for manifest in self._world.wanted())
        return there and self._world.loop.now - self._lacked.get(key, 0.0) >= REASONS_KEPT_SECONDS

    def stored(self, label: str) -> None:
        """The store was written to."""
        if label in ("_take_over", "apply", "remove"):
            before, self._inventory = self._inventory, self._world.stored.inventory()
            for key in (before.keys() - self._inventory.keys()) if label != "_take_over" else ():
                self._removed(key, leaving=before[key])
        if label in ("_take_over", "allocate", "adopt", "release"):
            groups, self._groups = self._groups, self._world.stored.groups()
            gone = groups.keys() - self._groups.keys() if label == "release" else frozenset()
            for replica in gone:
                if not self._world.oracles.jobs.displaces(replica, groups[replica]):
                    self._released(replica, groups[replica])

    def _removed(self, key: ObjectKey, leaving: bool) -> None:
        if self.wanted(key):
            self._violated(f"{key} is taken out of the inventory, and the manifests have it")
        if not leaving:
            self._violated(f"{key} is taken out of the inventory, and was not leaving")

    def _released(self, replica: WorkloadId, members: tuple[NodeName, ...]) -> None:
        """A group may be let go of whose node is to be empty."""
        kept = {m.metadata.name for m in self._world.wanted() if isinstance(m, Node) and not m.spec.drain}
        served = self.wanted(replica.key) and replica in self._world.expected(self._world.wanted())
        if served and all(name in kept and self.wanted(ObjectKey("Node", name)) for name in members):
            self._violated(f"the group of {replica} is released, and the manifests have it and its nodes")

    def dismissed(self, machine: Machine) -> None:
        """An agent ends because a controller has said so."""
        if self.wanted(ObjectKey("Node", machine.name)):
            self._violated(f"the agent of {machine.name} is ended, and the manifests have the node")

    def forgotten(self, id: RankId) -> None:
        """What is left of a rank is removed: of the newest epoch it is all that a lost store could learn from."""
        replica = replica_of(id)
        newest = max(
            each.epoch
            for machine in self._world.machines.values()
            for each in machine.disk.ranks
            if replica_of(each) == replica
        )
        known = self._world.stored.epochs().get(replica, 0)
        served = self.wanted(replica.key) and replica in self._world.expected(self._world.wanted())
        if served and id.epoch >= max(newest, known):
            self._violated(f"the files of {id} are removed, and nothing newer of it is known")


def replica_of(id: RankId) -> WorkloadId:
    """The replica that a rank belongs to."""
    return workload_named(id.deployment, id.replica)


def key_of(manifest: Manifest) -> ObjectKey:
    """The object that a manifest is of."""
    return ObjectKey(manifest.kind, manifest.metadata.name)
