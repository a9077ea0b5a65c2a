"""Computes the free memory of each host."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from reconciler.state import NodeName, ReplicaId

from .lost_nodes import is_lost
from .memory_needs import RANK_OVERHEAD_BYTES, Needs
from .world import World

Placed = tuple[NodeName, ...]
Charge = tuple[NodeName, int]
"""The node of a rank, and how many bytes it is charged."""


@dataclass(frozen=True)
class Ledger:
    """Memory by host: what ranks are charged that live or may live. A value: placing a group gives another one.

    What runs is charged as it was placed, whatever the manifests have come to say since.
    """

    _world: World = field(repr=False, compare=False)
    """Where nodes are looked up. Charges do not follow it."""
    _charged: Mapping[str, int]
    """Bytes by host."""
    _ranks: Mapping[NodeName, int]
    """Ranks by node."""
    _own: Mapping[ReplicaId, tuple[Charge, ...]]
    """What each replica gives back when it moves. Ranks on a lost node, or that nothing ends, are not part of it."""
    _reserves: Mapping[str, int]
    """The largest reserve of any node of a host: all its nodes share one memory."""
    _limits: Mapping[str, int]
    """The smallest limit of any node of a host, where one sets a limit."""

    @classmethod
    def of(cls, world: World) -> Ledger:
        """Charge everything that runs, or may run, as the pass begins."""
        charged: Counter[str] = Counter()
        ranks: Counter[NodeName] = Counter()
        own: dict[ReplicaId, tuple[Charge, ...]] = {}
        unkillable = {(rank.replica, rank.node) for rank in world.observed.ranks() if rank.unkillable}
        for replica, name, need in _running(world):
            charged[_host(world, name)] += need
            ranks[name] += 1
            if not is_lost(world, name) and (replica, name) not in unkillable:
                own[replica] = (*own.get(replica, ()), (name, need))
        reserves: dict[str, int] = {}
        limits: dict[str, int] = {}
        for name, node in world.desired.nodes.items():
            host, memory = _host(world, name), node.spec.memory
            reserves[host] = max(reserves.get(host, 0), memory.reserve)
            if memory.limit is not None:
                limits[host] = min(limits.get(host, memory.limit), memory.limit)
        return cls(world, charged, ranks, own, reserves, limits)

    def moved(self, replica: ReplicaId, members: Placed, needs: Needs) -> Ledger:
        """Charge a replica that is formed again. On each host it takes the larger of what it has and what it gets,
        because its new ranks do not start before its old ones are gone."""
        own = self._own.get(replica, ())
        before, charged = self._by_host(own), Counter(self._charged)
        for host, size in self._by_host(zip(members, needs, strict=True)).items():
            charged[host] += max(0, size - before[host])
        had, ranks = {name for name, _ in own}, Counter(self._ranks)
        ranks.update(name for name in members if name not in had)
        return replace(self, _charged=charged, _ranks=ranks)

    def _by_host(self, ranks: Iterable[Charge]) -> Counter[str]:
        sizes: Counter[str] = Counter()
        for name, size in ranks:
            sizes[self.host(name)] += size
        return sizes

    def free(self, name: NodeName, replacing: ReplicaId) -> int:
        """Return how many bytes a node's host has left, as if the ranks of ``replacing`` were gone already."""
        report = self._world.node(name).report
        if report is None:
            return 0
        host = report.host_id
        own = sum(size for node, size in self._own.get(replacing, ()) if self.host(node) == host)
        room = report.memory_bytes - self._reserves.get(host, 0)
        return min(room, self._limits.get(host, room)) - (self._charged.get(host, 0) - own)

    def ranks(self, name: NodeName, replacing: ReplicaId) -> int:
        """Count the ranks on a node, without those of ``replacing``."""
        own = sum(node == name for node, _ in self._own.get(replacing, ()))
        return self._ranks.get(name, 0) - own

    def host(self, name: NodeName) -> str:
        """Name the machine behind a node."""
        return _host(self._world, name)


def _running(world: World) -> Iterable[tuple[ReplicaId, NodeName, int]]:
    """Yield every rank that is recorded or lives beside the records, with its charge."""
    for replica, record in world.memory.groups.items():
        for name, need in zip(record.members, record.charges, strict=True):
            yield replica, name, need
    for rank in world.observed.ranks():
        known = world.memory.groups.get(rank.replica)
        if rank.alive and (known is None or rank.report.id.epoch != known.epoch):
            likely = known.rank_bytes if known else RANK_OVERHEAD_BYTES
            yield rank.replica, rank.node, rank.report.memory_bytes or likely


def _host(world: World, name: NodeName) -> str:
    report = world.node(name).report
    return report.host_id if report else f"node/{name}"
