"""Finds the other ends of cables. A port names the domain at the other end; its machine follows only from a view of all
machines."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from reconciler.state import MachineFacts, NodeName, PortFacts

_End = tuple[NodeName, int]


class Cables:
    """The ports of all machines. The cost of a report grows with the machine's own ports, and not with the number of
    machines.

    ``PortFacts.peer`` is set for ports that name each other's domain. A single port's view may be old or of another
    cluster's machine, and a domain of two ports is ambiguous.
    """

    def __init__(self) -> None:
        self._machines: dict[NodeName, MachineFacts] = {}
        self._ends: dict[str, dict[_End, PortFacts]] = {}
        """The ports of each domain; a domain with several is ambiguous."""
        self._naming: dict[str, set[NodeName]] = {}
        """The machines with a port that names a domain as its other end."""
        self._forgotten: set[NodeName] = set()

    def forget(self, name: NodeName) -> None:
        """Forget the ports of a machine. The facts of others change with the next report."""
        self._forgotten.add(name)

    def learn(self, name: NodeName, facts: MachineFacts) -> dict[NodeName, MachineFacts]:
        """Take in the facts of a machine. Return them, and those of all machines whose cables have other ends now."""
        changed = {name}
        for each in sorted(self._forgotten - {name}):
            changed |= self._put(each, MachineFacts())
            del self._machines[each]
        changed |= self._put(name, facts)
        self._forgotten.clear()
        found = {name: self._with_peers(name)}
        for each in sorted(changed & self._machines.keys() - {name}):
            known = self._machines[each]
            if (now := self._with_peers(each)) is not known:
                found[each] = now
        self._machines |= found
        return found

    def _put(self, name: NodeName, facts: MachineFacts) -> set[NodeName]:
        """Replace the ports of a machine. Return the machines with affected ports."""
        before = [port for port in self._machines.get(name, MachineFacts()).ports if port.domain]
        after = [port for port in facts.ports if port.domain]
        self._machines[name] = facts
        for port in before:
            self._ends[port.domain].pop((name, port.receptacle), None)
            self._naming[port.peer_domain].discard(name)
        for port in after:
            self._ends.setdefault(port.domain, {})[name, port.receptacle] = port
            self._naming.setdefault(port.peer_domain, set()).add(name)
        found = set(self._concerned({port.domain for port in (*before, *after)}))
        for port in before:  # each boot has new domains
            if not self._ends.get(port.domain, True):
                del self._ends[port.domain]
            if not self._naming.get(port.peer_domain, True):
                del self._naming[port.peer_domain]
        return found

    def _concerned(self, domains: Iterable[str]) -> Iterable[NodeName]:
        """Yield the machines with a port in one of these domains, or with a cable to one."""
        for domain in domains:
            yield from self._naming.get(domain, ())
            yield from (end[0] for end in self._ends.get(domain, ()))

    def _with_peers(self, name: NodeName) -> MachineFacts:
        facts = self._machines[name]
        ports = tuple(replace(port, peer=self._peer(port)) if port.domain else port for port in facts.ports)
        return facts if ports == facts.ports else replace(facts, ports=ports)

    def _peer(self, port: PortFacts) -> _End | None:
        there, here = self._ends.get(port.peer_domain, {}), self._ends.get(port.domain, {})
        if len(there) != 1 or len(here) != 1:
            return None
        ((end, other),) = there.items()
        return end if other.peer_domain == port.domain and port.peer_domain != port.domain else None
