"""Computes the free memory of each host."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace

from reconciler.state import NodeName, WorkloadId

from .gpu_memory import wirable
from .lost_nodes import is_lost
from .memory_needs import RANK_OVERHEAD_BYTES, Needs
from .world import World

Placed = tuple[NodeName, ...]
Charge = tuple[NodeName, int]
"""The node of a rank, and its charge in bytes."""


@dataclass(frozen=True)
class Ledger:
    """Memory by host: the charges of all ranks that live or may live. A value: placing a group gives another one.

    A running group is charged as it was placed, even if its manifests have changed since.
    """

    hosts: Mapping[NodeName, str]
    """The machine behind each node that is wanted or seen."""
    _rooms: Mapping[NodeName, int]
    """Bytes for ranks on the machine behind each node that has reported, by that report."""
    _charged: Mapping[str, int]
    """Bytes by host, of every host."""
    _ranks: Mapping[NodeName, int]
    """Ranks by node, of every node."""
    _own: Mapping[WorkloadId, tuple[Charge, ...]]
    """The charges that each replica gives back when it moves: not those on lost nodes, nor of ranks that nothing ends."""

    @classmethod
    def of(cls, world: World) -> Ledger:
        """Charge everything that runs, or may run, as the pass begins."""
        hosts = {
            name: _host(world, name) for name in world.desired.nodes.keys() | world.observed.nodes.keys()
        }
        charged: Counter[str] = Counter(dict.fromkeys(hosts.values(), 0))
        ranks: Counter[NodeName] = Counter(dict.fromkeys(hosts, 0))
        own: dict[WorkloadId, tuple[Charge, ...]] = {}
        unkillable = {(rank.workload, rank.node) for rank in world.observed.ranks() if rank.unkillable}
        for replica, name, need in _running(world):
            charged[hosts.get(name) or _host(world, name)] += need
            ranks[name] += 1
            if not is_lost(world, name) and (replica, name) not in unkillable:
                own[replica] = (*own.get(replica, ()), (name, need))
        return cls(hosts, _rooms(world, hosts), charged, ranks, own)

    def moved(self, replica: WorkloadId, members: Placed, needs: Needs) -> Ledger:
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

    def without(self, workloads: Collection[WorkloadId]) -> Ledger:
        """Return the same as if the ranks of some workloads were gone already."""
        charged, ranks, own = Counter(self._charged), Counter(self._ranks), dict(self._own)
        for workload in workloads:
            given_back = own.pop(workload, ())
            charged.subtract(self._by_host(given_back))
            ranks.subtract(name for name, _ in given_back)
        return replace(self, _charged=charged, _ranks=ranks, _own=own)

    def overcommitted(self, name: NodeName) -> bool:
        """Return whether more is charged on a node's host than it has: something there is about to leave."""
        host = self.host(name)
        return name in self._rooms and self._charged[host] > self._rooms[name]

    def room(self, name: NodeName) -> int:
        """Return how many bytes ranks may take on a node's host together; 0 of a node that has not reported."""
        return self._rooms.get(name, 0)

    def free(self, name: NodeName, replacing: WorkloadId) -> int:
        """Return how many bytes a node's host has left, as if the ranks of ``replacing`` were gone already; 0 of a node
        that has not reported."""
        if name not in self._rooms:
            return 0
        return next(iter(self.free_by_host((name,), replacing).values()))

    def free_by_host(self, names: Placed, replacing: WorkloadId) -> dict[str, int]:
        """Return the same for the hosts of many nodes, all of which have reported."""
        hosts, rooms, charged = self.hosts, self._rooms, self._charged
        found = {hosts[name]: rooms[name] - charged[hosts[name]] for name in names}
        for host, size in self._by_host(self._own.get(replacing, ())).items():
            if host in found:
                found[host] += size
        return found

    def ranks(self, name: NodeName, replacing: WorkloadId) -> int:
        """Count the ranks on a node, without those of ``replacing``."""
        return self.loads((name,), replacing)[name]

    def loads(self, names: Placed, replacing: WorkloadId) -> dict[NodeName, int]:
        """Count the ranks on each of many nodes, without those of ``replacing``."""
        ranks = self._ranks
        found = {name: ranks[name] for name in names}
        for name, _ in self._own.get(replacing, ()):
            if name in found:
                found[name] -= 1
        return found

    def host(self, name: NodeName) -> str:
        return self.hosts.get(name) or _unreported(name)


def _rooms(world: World, hosts: Mapping[NodeName, str]) -> dict[NodeName, int]:
    """Return how many bytes ranks may take on the machine behind each node that has reported: on a Mac no more than its
    GPU may wire. All nodes of a machine share its memory: the largest reserve counts, and the smallest limit."""
    reserves: dict[str, int] = {}
    limits: dict[str, int] = {}
    for name, node in world.desired.nodes.items():
        host, memory = hosts[name], node.spec.memory
        reserves[host] = max(reserves.get(host, 0), memory.reserve)
        if memory.limit is not None:
            limits[host] = min(limits.get(host, memory.limit), memory.limit)
    found = {}
    for name, seen in world.observed.nodes.items():
        if seen.report is not None:
            room = min(seen.report.memory_bytes - reserves.get(hosts[name], 0), wirable(seen))
            found[name] = min(room, limits.get(hosts[name], room))
    return found


def _running(world: World) -> Iterable[tuple[WorkloadId, NodeName, int]]:
    """Yield every rank that is recorded, or lives without a record, with its charge."""
    for replica, record in world.memory.groups.items():
        for name, need in zip(record.members, record.charges, strict=True):
            yield replica, name, need
    for rank in world.observed.ranks():
        known = world.memory.groups.get(rank.workload)
        if rank.alive and (known is None or rank.report.id.epoch != known.epoch):
            likely = known.rank_bytes if known else RANK_OVERHEAD_BYTES
            yield rank.workload, rank.node, rank.report.memory_bytes or likely


def _host(world: World, name: NodeName) -> str:
    report = world.node(name).report
    return report.host_id if report else _unreported(name)


def _unreported(name: NodeName) -> str:
    """Name the machine behind a node that has not reported: it may be any machine."""
    return f"node/{name}"
