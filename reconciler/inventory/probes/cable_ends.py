"""Where cables lead. A port names the domain at the other end; whose that is only who knows all machines can say."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from reconciler.state import MachineFacts, NodeName, PortFacts

_End = tuple[NodeName, int]


def joined(machines: Mapping[NodeName, MachineFacts]) -> dict[NodeName, MachineFacts]:
    """The machines with ``PortFacts.peer`` where two ports name each other's domain: one of them alone may be old,
    or of a machine that is not ours. A domain that two ports have is nobody's."""
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
