"""The typed observations that a group, or a single machine, is judged by, and what is detected in them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

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
    """The rank whose end tells most: the earliest that is no consequence of another's."""
    verbs: bool = False
    """Whether RDMA is used, or would be."""
    cables: bool = False
    """Whether the Thunderbolt cables between the nodes are used, or would be."""
    proven: bool = False
    idle_seconds: float = 0.0
    """How long there had been no request before it happened."""
    boots: Mapping[NodeName, str] = field(default_factory=dict)
    """The boot id of each node when the group was formed, where it was known."""
    unkillable: tuple[NodeName, ...] = ()
    """Nodes with a rank of the group that SIGKILL does not end."""
    local: frozenset[NodeName] = frozenset()
    """Nodes on the controller's own machine: it starts their agents, and is what macOS holds responsible for them."""
    unstarted: frozenset[NodeName] = frozenset()
    """Nodes whose agent could not be started."""
    returning: frozenset[NodeName] = frozenset()
    """Nodes that are back from a restart for so short a time that other nodes may still report their cables as
    before."""
    ring: bool = False
    """Whether only neighbours in the order of ranks are joined, the last with the first; else all with all."""

    def machines(self) -> list[tuple[NodeName, MachineFacts]]:
        """Return the facts of each machine."""
        return [(node.name, node.facts) for node in self.nodes]

    def links(self) -> Iterator[tuple[NodeObservation, NodeObservation]]:
        """Yield each pair of nodes that is to be joined, once and sorted by name, so that every report of a cable is
        the same."""
        last = len(self.nodes) - 1
        for at, node in enumerate(self.nodes):
            for behind, other in enumerate(self.nodes[at + 1 :], at + 1):
                if not self.ring or behind == at + 1 or (at, behind) == (0, last):
                    yield (node, other) if node.name < other.name else (other, node)

    def cabled(self) -> Iterator[tuple[NodeObservation, NodeObservation]]:
        """Yield those of ``links`` of which both ends can have been looked at; none where no cables are used."""
        for node, other in self.links() if self.cables else ():
            if not self.returning & {node.name, other.name}:
                yield node, other

    @property
    def cause(self) -> Cause | None:
        """Return the cause that the symptom shows; None without a symptom."""
        return self.symptom.cause if self.symptom else None

    @property
    def code(self) -> int | None:
        """Return the exit status that tells most; None where no rank ended, or by a signal."""
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
    """The machines to blame, where these are known."""
    port: str = ""
    """``node/receptacle`` or an interface."""
    peer: str = ""
    """What is at the other end."""


def restarted(node: NodeObservation, boots: Mapping[NodeName, str]) -> bool:
    """Return whether a node runs in another boot than the one noted of it, where one is noted."""
    return node.report is not None and boots.get(node.name, node.report.boot_id) != node.report.boot_id


def opposite(node: NodeObservation, other: NodeObservation) -> PortFacts | None:
    """Return the other end of the cable from a node to another, as that node reports it; None where it does not."""
    port = towards(node, other.name)
    end = port.peer[1] if port and port.peer else None
    return next((port for port in other.facts.ports if port.receptacle == end), None)


def towards(node: NodeObservation, other: NodeName) -> PortFacts | None:
    """Return the port of a node whose cable leads to another node; None where none is known."""
    return next((port for port in node.facts.ports if port.peer and port.peer[0] == other), None)
