"""Finds where cables lead. A port names the domain at the other end; only a view of all machines tells whose it is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from reconciler.state import MachineFacts, NodeName, PortFacts

_End = tuple[NodeName, int]


def joined(machines: Mapping[NodeName, MachineFacts]) -> dict[NodeName, MachineFacts]:
    """Return the machines with ``PortFacts.peer`` set for ports that name each other's domain. A single port's view may
    be old or of another cluster's machine, and a domain of two ports is ambiguous."""
    ends: dict[str, list[tuple[_End, PortFacts]]] = {}
    for name, facts in machines.items():
        for port in facts.ports:
            if port.domain:
                ends.setdefault(port.domain, []).append(((name, port.receptacle), port))
    return {name: _with_peers(facts, ends) for name, facts in machines.items()}


def _with_peers(facts: MachineFacts, ends: Mapping[str, list[tuple[_End, PortFacts]]]) -> MachineFacts:
    ports = tuple(replace(port, peer=_peer(port, ends)) if port.domain else port for port in facts.ports)
    return facts if ports == facts.ports else replace(facts, ports=ports)


def _peer(port: PortFacts, ends: Mapping[str, list[tuple[_End, PortFacts]]]) -> _End | None:
    there, here = ends.get(port.peer_domain, ()), ends.get(port.domain, ())
    if len(there) != 1 or len(here) != 1:
        return None
    end, other = there[0]
    return end if other.peer_domain == port.domain and port.peer_domain != port.domain else None
