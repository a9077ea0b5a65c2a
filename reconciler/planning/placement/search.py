"""Searches for sets of nodes with room for the ranks of a group, and assigns the ranks: combinatorics only.

Complete for few nodes: every set is tried and, if ranks need unequal memory, every order. Of many nodes, the
preferred ones are tried, and those that are cabled to one of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations, islice
from math import comb

from reconciler.planning.context.memory_ledger import Placed
from reconciler.planning.context.memory_needs import Needs
from reconciler.state import NodeName

SETS_MAX = 128
"""Most sets of nodes that are tried one by one: four out of nine nodes make 126."""
ORDERED_MAX = 8
"""Most nodes that are tried in every order, if they share hosts and their ranks are unequal."""
RINGS_MAX = 12
"""Most rings through the same nodes that are tried: five nodes have 12."""
SEEDS_MAX = 16
"""Of many nodes, the number that are tried together with those that they are cabled to."""


@dataclass(frozen=True, slots=True)
class FreeMemory:
    """The nodes, the preferred ones first, and how much memory their machines have left."""

    nodes: Placed
    hosts: Mapping[NodeName, str]
    free: Mapping[str, int]
    """Bytes, by host."""
    cables: Mapping[NodeName, Placed] = field(default_factory=dict)
    """The nodes at the other ends of the cables of each node that has any."""
    bounded: Callable[[NodeName], str] = lambda name: ""
    """Says that a node's GPU may wire less than its manifest leaves to ranks; empty if it may wire as much."""

    def cabled(self, name: NodeName) -> Placed:
        return self.cables.get(name, ())

    def fits(self, members: Placed, needs: Needs) -> bool:
        """Return whether each rank has room on its node, in this order."""
        taken: Counter[str] = Counter()
        for name, need in zip(members, needs, strict=True):
            taken[self.hosts[name]] += need
        return all(size <= self.free[host] for host, size in taken.items())

    def arranged(self, members: Placed, needs: Needs) -> Placed | None:
        """Order these nodes so that each rank fits, as they are given if that fits; None if no order does."""
        if self.fits(members, needs):
            return members
        if len(set(needs)) == 1 and len(members) == len(needs):
            return None
        return self._assigned(members, needs)

    def _assigned(self, members: Placed, needs: Needs) -> Placed | None:
        """Let the largest ranks choose first. If every node has a host of its own, any choice is right."""
        order = sorted(range(len(needs)), key=lambda rank: (-needs[rank], rank))
        left = {self.hosts[name]: self.free[self.hosts[name]] for name in members}
        shared = len(left) < len(members) <= ORDERED_MAX
        chosen: dict[int, NodeName] = {}

        def choose(at: int) -> bool:
            if at == len(order):
                return True
            need, tried = needs[order[at]], set()
            for name in members:
                host = self.hosts[name]
                if name in chosen.values() or host in tried or left[host] < need:
                    continue
                tried.add(host)
                chosen[order[at]] = name
                left[host] -= need
                if choose(at + 1):
                    return True
                del chosen[order[at]]
                left[host] += need
                if not shared:
                    return False
            return False

        return tuple(chosen[rank] for rank in range(len(needs))) if choose(0) else None

    def candidates(self, needs: Needs) -> Iterator[Placed]:
        """Yield sets of nodes that have room, each in an order that fits, the preferred ones first."""
        size = len(needs)
        if size > len(self.nodes):
            return
        if comb(len(self.nodes), size) <= SETS_MAX:
            sets: Iterator[Placed] = combinations(self.nodes, size)
        else:
            sets = self._some(needs)
        for chosen in sets:
            placed = self.arranged(tuple(sorted(chosen)), needs)
            if placed is not None:
                yield placed

    def _some(self, needs: Needs) -> Iterator[Placed]:
        first = self._assigned(self.nodes, needs)
        if first is not None:
            yield first
        else:
            roomiest = tuple(sorted(self.nodes, key=lambda name: -self.free[self.hosts[name]]))
            other = self._assigned(roomiest, needs)
            if other is not None:
                yield other
        known = set(self.nodes)
        seeds = (name for name in self.nodes if name in self.cables) if self.cables else iter(())
        for seed in islice(seeds, SEEDS_MAX):
            near = [name for name in self._near(seed, len(needs)) if name in known]
            if len(near) == len(needs):
                yield tuple(near)

    def _near(self, seed: NodeName, size: int) -> list[NodeName]:
        """Collect a node, those that it is cabled to, those that they are cabled to, and so on, up to ``size``."""
        found = [seed]
        for name in found:
            found += [other for other in self.cabled(name) if other not in found]
            if len(found) >= size:
                break
        return found[:size]

    def roomiest(self, size: int) -> FreeMemory:
        """Keep the roomiest machines: for up to ``size`` ranks their memory is as good as that of all."""
        by_host: dict[str, list[NodeName]] = {}
        for name in self.nodes:
            by_host.setdefault(self.hosts[name], []).append(name)
        hosts = sorted(by_host, key=lambda host: (-self.free[host], host))[:size]
        nodes = tuple(name for host in hosts for name in by_host[host][:size])
        return FreeMemory(nodes, self.hosts, self.free)

    def fit(self, needs: Needs) -> bool:
        """Return whether any of the nodes have room for such ranks."""
        return next(self.candidates(needs), None) is not None


def rings(members: Placed, cabled: Callable[[NodeName], Sequence[NodeName]]) -> Iterator[Placed]:
    """Yield the same nodes in every order in which each is cabled to the next, and the last to the first. A ring
    comes once, in one direction."""
    path = [members[0]]

    def go_on() -> Iterator[Placed]:
        if len(path) == len(members):
            if path[0] in cabled(path[-1]) and path[1] < path[-1]:
                yield tuple(path)
            return
        for name in sorted(cabled(path[-1])):
            if name in members and name not in path:
                path.append(name)
                yield from go_on()
                path.pop()

    if len(members) <= ORDERED_MAX:
        yield from islice(go_on(), RINGS_MAX)
