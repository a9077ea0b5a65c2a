"""Chooses the nodes of a group among those with room: the preferred ones, and of these the best joined."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from typing import Self

from reconciler.planning.context.gpu_memory import bounded_by_gpu
from reconciler.planning.context.memory_ledger import Ledger, Placed
from reconciler.planning.context.memory_needs import Needs
from reconciler.planning.context.world import World
from reconciler.planning.transport import fallback
from reconciler.planning.transport.fallback import Transport
from reconciler.state import NodeName, WorkloadId

from .search import FreeMemory, rings

RING_MIN = 4
"""In smaller rings all nodes are neighbours, in any order."""


@dataclass(frozen=True, slots=True)
class Unjoined:
    """Nodes with room that no wanted transport can join, and the reason, for people."""

    members: Placed
    why: str

    def __str__(self) -> str:
        return f"no transport of spec.transport can join {', '.join(self.members)}: {self.why}"


@dataclass(frozen=True, slots=True)
class Joining:
    """The nodes that could be used for a group, and what it prefers."""

    world: World
    workload: WorkloadId
    transports: Sequence[str]
    """The wanted transports, best first."""
    rooms: FreeMemory
    before: Placed
    """The nodes of the workload's group, or of its last one."""
    load: Mapping[NodeName, int]
    """Ranks of other workloads on each node."""

    @classmethod
    def of(
        cls, world: World, ledger: Ledger, workload: WorkloadId, transports: Sequence[str], usable: Placed
    ) -> Self:
        """Look at the memory and the cables of usable nodes."""
        record = world.memory.groups.get(workload)
        before = record.members if record else ()
        load = ledger.loads(usable, workload)
        kept = sorted(
            (name for name in dict.fromkeys(before) if name in load), key=lambda name: (load[name], name)
        )
        others = [name for name in usable if name not in before] if kept else usable
        nodes = (*kept, *sorted(others, key=load.__getitem__))
        cables = world.once(_cables)
        free = ledger.free_by_host(nodes, workload)
        wired = {} if cables.keys().isdisjoint(usable) else cables
        rooms = FreeMemory(nodes, ledger.hosts, free, wired, partial(bounded_by_gpu, world))
        return cls(world, workload, transports, rooms, before, load)

    def best(self, each: Needs) -> tuple[Placed, Transport] | Unjoined | None:
        """Prefer the nodes that the workload has already, then the least loaded, and of these the best joined. None if
        none have room."""
        candidates = sorted(self.rooms.candidates(each), key=self._preference)
        unjoined: Unjoined | None = None
        for _, alike in groupby(candidates, key=self._preference):
            best: tuple[Placed, Transport] | None = None
            for members in self._candidates(list(alike), each):
                transport = fallback.choose(self.world, self.workload, self.transports, members)
                if isinstance(transport, str):
                    unjoined = unjoined or Unjoined(members, transport)
                elif best is None or self._height(transport) < self._height(best[1]):
                    best = (members, transport)
                if best is not None and self._height(best[1]) == 0:
                    break
            if best is not None:
                return best
        return unjoined

    def _preference(self, members: Placed) -> tuple[int, int]:
        kept = sum(name in self.before for name in members)
        return -kept, sum(self.load[name] for name in members)

    def _candidates(self, candidates: list[Placed], each: Needs) -> Iterator[Placed]:
        """Yield sets of nodes in the orders that make a difference; without cables none does."""
        if not self.rooms.cables:
            candidates = candidates[:1]
        for members in candidates:
            if set(self.before) == set(members) and self.rooms.fits(self.before, each):
                yield self.before
            yield members
            for around in rings(members, self.rooms.cabled) if len(members) >= RING_MIN else ():
                turned = (around[turn:] + around[:turn] for turn in range(len(around)))
                either = (order for turn in turned for order in (turn, turn[::-1]))
                order = next((order for order in either if self.rooms.fits(order, each)), None)
                if order is not None:
                    yield order

    def _height(self, transport: Transport) -> int:
        """Return the place of a transport in the list; 0 for a single rank, which has none."""
        return self.transports.index(transport.name) if transport.name else 0


def _cables(world: World) -> dict[NodeName, Placed]:
    """Return the nodes at the other ends of the cables of each node that has any."""
    found: dict[NodeName, Placed] = {}
    for name, node in world.observed.nodes.items():
        peers = tuple(port.peer[0] for port in node.facts.ports if port.peer)
        if peers:
            found[name] = peers
    return found
