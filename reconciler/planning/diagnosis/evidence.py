"""The typed observations that a group, or a single machine, is judged by, and the faults detected in them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import combinations

from reconciler.resources import End
from reconciler.state import Cause, MachineFacts, NodeName, NodeObservation, ObservedRank, PortFacts, Symptom

IDLE_DECAY_SECONDS = 1200.0
"""RDMA connections were seen to fail at the next use after some 23 minutes without traffic."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """The observations. A machine without a group has neither ranks nor a symptom."""

    nodes: tuple[NodeObservation, ...]
    """In the order of ranks."""
    symptom: Symptom | None = None
    first: ObservedRank | None = None
    """The rank whose end says most: the earliest end that no other rank's end caused."""
    verbs: bool = False
    """True if RDMA is used, or would be."""
    cables: bool = False
    """True if the Thunderbolt cables between the nodes are used, or would be."""
    proven: bool = False
    idle_seconds: float = 0.0
    """Seconds without a request before it happened."""
    boots: Mapping[NodeName, str] = field(default_factory=dict)
    """The boot id of each node when the group was formed, if it was known."""
    unkillable: tuple[NodeName, ...] = ()
    """Nodes with a rank of the group that SIGKILL does not end."""
    local: frozenset[NodeName] = frozenset()
    """Nodes on the controller's own machine: the controller starts their agents, and macOS holds it responsible for them."""
    refreshed: frozenset[NodeName] = frozenset()
    """Nodes that the controller restarted within a week, before the group was formed."""
    unstarted: frozenset[NodeName] = frozenset()
    """Nodes whose agent could not be started."""
    returning: frozenset[NodeName] = frozenset()
    """Nodes that came back from a restart so recently that other nodes may still report their cables as before."""
    harmed: Mapping[NodeName, int] = field(default_factory=dict)
    """Recent losses of each node beneath a run of a job, which counts as their cause."""
    ring: bool = False
    """True if only neighbours in the order of ranks are joined, and the last with the first; else all with all."""
    untested: frozenset[End] = frozenset()
    """Ends of links that may carry RDMA although this project has not tested their path."""

    def machines(self) -> list[tuple[NodeName, MachineFacts]]:
        return [(node.name, node.facts) for node in self.nodes]

    def links(self) -> Iterator[tuple[NodeObservation, NodeObservation]]:
        """Yield each pair of nodes that is to be joined, once and sorted by name, so that every report of a cable is
        the same."""
        for one, other in rank_pairs(len(self.nodes), self.ring):
            node, behind = self.nodes[one], self.nodes[other]
            yield (node, behind) if node.name < behind.name else (behind, node)

    def cabled(self) -> Iterator[tuple[NodeObservation, NodeObservation]]:
        """Yield those of ``links`` whose ends have both been probed since any restart; none if no cables are used."""
        for node, other in self.links() if self.cables else ():
            if not self.returning & {node.name, other.name}:
                yield node, other

    @property
    def cause(self) -> Cause | None:
        return self.symptom.cause if self.symptom else None

    @property
    def code(self) -> int | None:
        """Return the exit status that says most; None if no rank ended, or a signal ended it."""
        ended = self.first.report.exit if self.first else None
        return ended.code if ended else None

    @property
    def rebooted(self) -> tuple[NodeName, ...]:
        """List the nodes that have booted since the group was formed."""
        return tuple(node.name for node in self.nodes if restarted(node, self.boots))


@dataclass(frozen=True, slots=True)
class Detection:
    """A detected fault, and the names that the steps for a person mention."""

    text: str
    nodes: tuple[NodeName, ...] = ()
    """The machines to blame, if these are known."""
    port: str = ""
    """``node/receptacle`` or an interface."""
    peer: str = ""
    """The other end of the cable, as ``node/receptacle``."""
    tells_symptom: bool = False
    """True if the text repeats the symptom's."""


def rank_pairs(ranks: int, ring: bool) -> list[tuple[int, int]]:
    """Return the pairs of ranks that exchange tensors, in order: all of them in a mesh, neighbours in a ring."""
    pairs = combinations(range(ranks), 2)
    return [(a, b) for a, b in pairs if not ring or b == a + 1 or (a, b) == (0, ranks - 1)]


def restarted(node: NodeObservation, boots: Mapping[NodeName, str]) -> bool:
    """Return whether a node runs in another boot than the noted one; False if none is noted."""
    return node.report is not None and boots.get(node.name, node.report.boot_id) != node.report.boot_id


def opposite(node: NodeObservation, other: NodeObservation) -> PortFacts | None:
    """Return the other end of the cable from a node to another, as that node reports it; None if it does not."""
    port = towards(node, other.name)
    end = port.peer[1] if port and port.peer else None
    return next((port for port in other.facts.ports if port.receptacle == end), None)


def towards(node: NodeObservation, other: NodeName) -> PortFacts | None:
    """Return the port of a node whose cable leads to another node; None if none is known."""
    return next((port for port in node.facts.ports if port.peer and port.peer[0] == other), None)
