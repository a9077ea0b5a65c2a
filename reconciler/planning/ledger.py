"""Memory: what each host has left."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from reconciler.state import NodeName, ReplicaId

from .lost import is_lost
from .needs import RANK_OVERHEAD_BYTES, Needs
from .world import World

Placed = tuple[NodeName, ...]


class Ledger:
    """Memory by host: what ranks are charged that live or may live. Lives for one pass.

    What runs is charged as it was placed, whatever the manifests have come to say since.
    """

    def __init__(self, world: World) -> None:
        self._world = world
        self._charged: Counter[str] = Counter()
        """Bytes by host."""
        self._ranks: Counter[NodeName] = Counter()
        self._own: dict[ReplicaId, list[tuple[NodeName, int]]] = {}
        """What each replica is charged: node and bytes of each of its ranks."""
        self._reserves: dict[str, int] = {}
        """The largest reserve that any node of a host asks for: they speak of the same memory."""
        self._limits: dict[str, int] = {}
        """The smallest limit that any node of a host sets, where one does."""
        for name, node in world.desired.nodes.items():
            host, memory = self.host(name), node.spec.memory
            self._reserves[host] = max(self._reserves.get(host, 0), memory.reserve)
            if memory.limit is not None:
                self._limits[host] = min(self._limits.get(host, memory.limit), memory.limit)
        for replica, record in world.memory.groups.items():
            self.charge(replica, record.members, record.charges)
        for rank in world.observed.ranks():
            known = world.memory.groups.get(rank.replica)
            if rank.alive and (known is None or rank.report.id.epoch != known.epoch):
                likely = known.rank_bytes if known else RANK_OVERHEAD_BYTES
                self.charge(rank.replica, (rank.node,), (rank.report.memory_bytes or likely,))

    def charge(self, replica: ReplicaId, members: Placed, needs: Needs) -> None:
        """Add one rank on each of these nodes. What a lost node runs is not given back when its replica moves."""
        for name, need in zip(members, needs, strict=True):
            self._charged[self.host(name)] += need
            self._ranks[name] += 1
            if not is_lost(self._world, name):
                self._own.setdefault(replica, []).append((name, need))

    def move(self, replica: ReplicaId, members: Placed, needs: Needs) -> None:
        """A replica is formed anew: on each host it takes the more of what it has and what it gets, for its new ranks
        do not start before its old ones are gone."""
        before = self._by_host(self._own.get(replica, ()))
        for host, size in self._by_host(zip(members, needs, strict=True)).items():
            self._charged[host] += max(0, size - before[host])
        had = {name for name, _ in self._own.get(replica, ())}
        self._ranks.update(name for name in members if name not in had)

    def _by_host(self, ranks: Iterable[tuple[NodeName, int]]) -> Counter[str]:
        sizes: Counter[str] = Counter()
        for name, size in ranks:
            sizes[self.host(name)] += size
        return sizes

    def free(self, name: NodeName, replacing: ReplicaId) -> int:
        """Bytes of a node's host that are left, as if the ranks of ``replacing`` were gone already."""
        report = self._world.node(name).report
        if report is None:
            return 0
        host = report.host_id
        own = sum(size for node, size in self._own.get(replacing, ()) if self.host(node) == host)
        room = report.memory_bytes - self._reserves.get(host, 0)
        return min(room, self._limits.get(host, room)) - (self._charged[host] - own)

    def ranks(self, name: NodeName, replacing: ReplicaId) -> int:
        """Ranks on a node, but for those of ``replacing``."""
        return self._ranks[name] - sum(node == name for node, _ in self._own.get(replacing, ()))

    def host(self, name: NodeName) -> str:
        """The machine behind a node."""
        report = self._world.node(name).report
        return report.host_id if report else f"node/{name}"
