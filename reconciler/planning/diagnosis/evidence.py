"""The typed observations that a group, or a single machine, is judged by."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from reconciler.state import MachineFacts, NodeName, NodeObservation, ObservedRank, PortFacts, Symptom

IDLE_DECAY_SECONDS = 1200.0
"""After some 23 minutes without traffic connections of RDMA have been seen to fail at the next use."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """What there is to see. A machine without a group has neither ranks nor a symptom."""

    nodes: tuple[NodeObservation, ...]
    """In the order of ranks."""
    symptom: Symptom | None = None
    first: ObservedRank | None = None
    """The rank that ended and whose end tells most: the earliest that is no consequence of another's."""
    verbs: bool = False
    """Whether RDMA is used, or would be."""
    cables: bool = False
    """Whether the Thunderbolt cables between the nodes are used, or would be."""
    proven: bool = False
    idle_seconds: float = 0.0
    """For how long nobody had asked for anything before it happened."""
    boots: Mapping[NodeName, str] = field(default_factory=dict)
    """The boot id of each node when the group was formed, where it was known."""
    unstarted: frozenset[NodeName] = frozenset()
    """Nodes whose agent could not be started."""
    returning: frozenset[NodeName] = frozenset()
    """Nodes that are back from a restart for so short a time that the other ends of their cables may tell of before."""
    ring: bool = False
    """Whether only neighbours in the order of ranks are joined, the last with the first; else all with all."""

    def machines(self) -> list[tuple[NodeName, MachineFacts]]:
        """The facts of each machine."""
        return [(node.name, node.facts) for node in self.nodes]

    def links(self) -> Iterator[tuple[NodeObservation, NodeObservation]]:
        """Each pair of nodes that is to be joined, once, by name: of one cable everybody says the same."""
        last = len(self.nodes) - 1
        for at, node in enumerate(self.nodes):
            for behind, other in enumerate(self.nodes[at + 1 :], at + 1):
                if not self.ring or behind == at + 1 or (at, behind) == (0, last):
                    yield (node, other) if node.name < other.name else (other, node)

    def cabled(self) -> Iterator[tuple[NodeObservation, NodeObservation]]:
        """Those of ``links`` of which both ends can have been looked at; none where no cables are used."""
        for node, other in self.links() if self.cables else ():
            if not self.returning & {node.name, other.name}:
                yield node, other

    @property
    def code(self) -> int | None:
        """The exit status that tells most; None where no rank ended, or by a signal."""
        ended = self.first.report.exit if self.first else None
        return ended.code if ended else None

    @property
    def rebooted(self) -> tuple[NodeName, ...]:
        """Nodes that have booted since the group was formed."""
        return tuple(node.name for node in self.nodes if restarted(node, self.boots))


def restarted(node: NodeObservation, boots: Mapping[NodeName, str]) -> bool:
    """Whether a node runs in another boot than in the one that is noted of it, where one is."""
    return node.report is not None and boots.get(node.name, node.report.boot_id) != node.report.boot_id


def opposite(node: NodeObservation, other: NodeObservation) -> PortFacts | None:
    """The other end of the cable from a node to another, as that other node tells of it; None where it does not."""
    port = towards(node, other.name)
    end = port.peer[1] if port and port.peer else None
    return next((port for port in other.facts.ports if port.receptacle == end), None)


def towards(node: NodeObservation, other: NodeName) -> PortFacts | None:
    """The port of a node whose cable leads to another node; None where none is known."""
    return next((port for port in node.facts.ports if port.peer and port.peer[0] == other), None)
