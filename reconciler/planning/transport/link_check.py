"""Compares declared cables with those that are there: the state of each, with both of its ends.

A cable is there if two ports name each other. Earlier reports of a silent machine no longer count. A cable
in another port than declared is reported once, for the link that lacks it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property

from reconciler.planning.context.world import World
from reconciler.planning.diagnosis import detectors
from reconciler.planning.diagnosis.rdma_path import UNTESTED, RdmaPath, Side, docks, gbps, rdma_path
from reconciler.planning.diagnosis.rules import OTHER_PORT
from reconciler.resources import End, Fabric, Link, link_between
from reconciler.state import NodeName, PortFacts
from reconciler.state.machine.facts import THUNDERBOLT5_GBPS
from reconciler.state.machine.links import Cabling, LinkState, LinkStatus

from . import link_addresses


def compare(world: World) -> Cabling:
    """Return the state of every Fabric. An undeclared cable is reported by the first Fabric that names one of its
    machines."""
    if not world.desired.fabrics:
        return {}
    seen = _ObservedCables(world)
    declared = {link for fabric in world.desired.fabrics.values() for link in fabric.spec.cables}
    allowed = {link for fabric in world.desired.fabrics.values() for link in fabric.spec.untested}
    judged = _LinkCheck(seen, declared, allowed).judge()
    listed: set[Link] = set()
    found: dict[str, tuple[LinkStatus, ...]] = {}
    for name, fabric in sorted(world.desired.fabrics.items()):
        nodes = {end.node for link in fabric.spec.cables for end in link}
        strangers = [
            link
            for link in sorted(judged.undeclared - listed)
            if not nodes.isdisjoint({end.node for end in link})
        ]
        listed.update(strangers)
        rows = [*(judged.found[link] for link in fabric.spec.cables), *map(seen.undeclared, strangers)]
        found[name] = tuple(_with_addresses(fabric, rows))
    return found


def _with_addresses(fabric: Fabric, rows: Iterable[LinkStatus]) -> Iterator[LinkStatus]:
    addresses = link_addresses.fabric_addresses(fabric)
    for row in rows:
        one, other = (str(addresses.get(end, "")) for end in row.link)
        yield replace(row, addresses=(one, other))


# --- what is there -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class _ObservedCables:
    """The ports as the answering machines report them."""

    world: World

    @cached_property
    def ports(self) -> dict[End, PortFacts]:
        return {
            End(name, port.receptacle): port
            for name in sorted(self.world.desired.nodes)
            if self.world.reached(name)
            for port in self.world.node(name).facts.ports
        }

    @cached_property
    def cables(self) -> frozenset[Link]:
        """Return the cables about which both ends say the same."""
        return frozenset(
            link_between(end, end_there)
            for end, end_there in self.peers.items()
            if self.peers.get(end_there) == end
        )

    @cached_property
    def peers(self) -> dict[End, End]:
        return {
            end: End(*port.peer)
            for end, port in self.ports.items()
            if port.peer and port.connected is not False
        }

    def at(self, end: End) -> Link | None:
        there = self.peers.get(end)
        link = link_between(end, there) if there else None
        return link if link in self.cables else None

    def sides(self, link: Link) -> tuple[Side, ...]:
        """Return the ends of a link that are known, each with its machine."""
        return tuple(
            (self.world.node(NodeName(end.node)).facts, self.ports[end]) for end in link if end in self.ports
        )

    def owner(self, domain: str) -> End | None:
        """Return the end whose port has this domain, whatever that end reports."""
        found = self.domains.get(domain, ())
        return found[0] if len(found) == 1 else None

    @cached_property
    def domains(self) -> dict[str, list[End]]:
        found: dict[str, list[End]] = {}
        for end, port in self.ports.items():
            if port.domain:
                found.setdefault(port.domain, []).append(end)
        return found

    def unknown(self, end: End) -> str:
        """Say why it is not known what is at an end; empty if it is."""
        name = NodeName(end.node)
        if not self.world.reached(name):
            return f"{name} does not answer"
        if not self.world.node(name).facts.ports:
            return f"{name} does not report its Thunderbolt ports"
        port = self.ports.get(end)
        return (
            f"it is not known whether anything is plugged in at {end}"
            if port and port.connected is None
            else ""
        )

    def undeclared(self, link: Link) -> LinkStatus:
        text = f"a cable joins {link.one} and {link.other}, and is in no Fabric"
        return self.status(link, LinkState.UNDECLARED, text, "declare it, or take it out")

    def status(
        self, link: Link, state: LinkState, text: str = "", person: str = "", verbs_only: bool = False
    ) -> LinkStatus:
        """Build the status of a link. The speed is given only for a cable that is there."""
        one, other = (self.ports.get(end) for end in link)
        speed = gbps(*self.sides(link)) if link in self.cables else None
        names = (one.interface if one else "", other.interface if other else "")
        return LinkStatus(link, state, text, person, speed, names, verbs_only=verbs_only)


# --- what is wrong -----------------------------------------------------------------------------------


class _LinkCheck:
    """Check all declared links at once: a cable in the wrong port is missing elsewhere."""

    def __init__(self, seen: _ObservedCables, declared: set[Link], allowed: set[Link]) -> None:
        self._seen = seen
        self._declared = declared
        self._allowed = allowed
        self._declared_ends = {end for link in declared for end in link}
        self._strays = set(seen.cables - declared)
        self.found: dict[Link, LinkStatus] = {}

    @property
    def undeclared(self) -> set[Link]:
        """Return the cables that explain no missing link."""
        return self._strays

    def judge(self) -> _LinkCheck:
        absent = []
        for link in sorted(self._declared):
            known = self._unknown(link) or self._joined(link) or self._docked(link)
            if known:
                self.found[link] = known
            else:
                absent.append(link)
        self._find_swaps(absent)
        between: dict[frozenset[str], list[Link]] = {}
        for stray in sorted(self._strays):
            between.setdefault(frozenset(end.node for end in stray), []).append(stray)
        explained: set[Link] = set()
        for link in absent:
            if link not in self.found:
                others = between.get(frozenset(end.node for end in link), [])
                self.found[link] = self._misplaced(link, others, explained) or self._missing(link)
        self._strays -= explained
        return self

    def _unknown(self, link: Link) -> LinkStatus | None:
        why = self._seen.unknown(link.one) or self._seen.unknown(link.other)
        if not why:
            return None
        return self._seen.status(link, LinkState.UNKNOWN, why)

    def _joined(self, link: Link) -> LinkStatus | None:
        """Judge a cable that is where it belongs; None if it is not there."""
        if link not in self._seen.cables:
            return None
        status, (one, other) = self._seen.status, link
        inactive = next((end for end in link if self._seen.ports[end].active is False), None)
        if inactive:
            text = f"the link from {one} to {other} is down: the interface of {inactive} is not active"
            return status(
                link, LinkState.DOWN, text, f"reseat the cable from {one} to {other}, or replace it"
            )
        sides = self._seen.sides(link)
        path, speed, dock = rdma_path(*sides), gbps(*sides), ", ".join(docks(*sides))
        if path is not RdmaPath.DIRECT and not (path in UNTESTED and link in self._allowed):
            return self._refused(link, path, speed, dock)
        without = next((end for end in link if self._verbs_down(end)), None)
        if without:
            text = f"the link from {one} to {other} has no RDMA: its port at {without} is down"
            steps = OTHER_PORT.format(port=without, peer=self._seen.peers[without])
            steps += "; after a move, correct the link in its Fabric"
            return status(link, LinkState.DOWN, text, steps, verbs_only=True)
        if speed is None:
            text = f"the speed of the cable from {one} to {other} is not known"
            return status(link, LinkState.UNKNOWN, text)
        if path is RdmaPath.DIRECT:
            return status(link, LinkState.CONNECTED)
        text = f"through a dock, not tested: {dock}" if dock else f"slow, not tested: {speed} Gb/s"
        return status(link, LinkState.UNTESTED, f"{text} between {one} and {other}")

    def _refused(self, link: Link, path: RdmaPath, speed: int | None, dock: str) -> LinkStatus:
        """Judge a cable that is where it belongs, and over which no group uses RDMA."""
        one, other = link
        if dock:
            state, text = LinkState.THROUGH_DOCK, f"{one} and {other} are joined through {dock}"
            steps = f"join {one} and {other} by one Thunderbolt 5 cable, without {dock} between"
            never = f"and RDMA needs {THUNDERBOLT5_GBPS} Gb/s at both ends"
        else:
            state, text = LinkState.TOO_SLOW, f"the link from {one} to {other} has {speed} Gb/s"
            steps = f"join {one} and {other} by a Thunderbolt 5 cable"
            never = f"and RDMA needs {THUNDERBOLT5_GBPS}"
        if path in UNTESTED:
            text += ": not tested" if dock else ": slow, not tested"
            steps += "; or, to try RDMA as it is, add the link to spec.allowUntested of its Fabric"
        else:
            text += f", {never}"
            steps += "" if dock else "; a machine with Thunderbolt 4 has no RDMA"
        return self._seen.status(link, state, text, steps, verbs_only=True)

    def _verbs_down(self, end: End) -> bool:
        here, there = (self._seen.world.node(NodeName(each.node)) for each in (end, self._seen.peers[end]))
        return detectors.verbs_down(here, there, self._seen.ports[end])

    def _docked(self, link: Link) -> LinkStatus | None:
        """Judge two ends that lead to something, one of them to a dock, and that do not name each other."""
        sides = self._seen.sides(link)
        dock = ", ".join(docks(*sides))
        whole = len(sides) == 2 and all(port.connected for _, port in sides)
        if not dock or not whole or any(map(self._seen.at, link)):
            return None
        text = (
            f"{link.one} and {link.other} are joined through {dock}, if at all: they do not name each other"
        )
        steps = f"join {link.one} and {link.other} by one Thunderbolt 5 cable, without {dock} between"
        return self._seen.status(link, LinkState.THROUGH_DOCK, text, steps, verbs_only=True)

    # --- not joined -----------------------------------------------------------------------------

    def _find_swaps(self, absent: list[Link]) -> None:
        """Find two links whose cables each have one end where an end of the other belongs."""
        by_end: dict[End, list[tuple[int, Link]]] = {}
        for number, link in enumerate(absent):
            for end in link:
                by_end.setdefault(end, []).append((number, link))
        for number, link in enumerate(absent):
            leads_to = self._seen.peers.get(link.one)
            belonging = by_end.get(leads_to, []) if leads_to else []
            for later in [other for at, other in belonging if at > number]:
                crossed = self._crossed(link, later)
                if crossed and not {link, later} & self.found.keys():
                    text = (
                        f"two cables are swapped: {link.one} leads to {self._seen.peers[link.one]} instead of {link.other},"
                        f" and {later.one} to {self._seen.peers[later.one]} instead of {later.other}"
                    )
                    steps = f"exchange the plugs at {crossed[0]} and {crossed[1]}"
                    for each, other in ((link, later), (later, link)):
                        status = self._seen.status(each, LinkState.SWAPPED, text, steps)
                        self.found[each] = replace(status, swapped_with=other)
                        self._strays -= {cable for end in each if (cable := self._seen.at(end))}

    def _crossed(self, link: Link, later: Link) -> tuple[End, End] | None:
        """Return which two plugs to exchange, preferably on one machine; None if the links are not swapped."""
        for here, there in (later, (later.other, later.one)):
            if {link_between(link.one, there), link_between(here, link.other)} <= self._strays:
                pairs = [(link.one, here), (link.other, there)]
                return next((pair for pair in pairs if pair[0].node == pair[1].node), pairs[1])
        return None

    def _misplaced(self, link: Link, between: list[Link], explained: set[Link]) -> LinkStatus | None:
        """Find an end that leads elsewhere, or the cable ``between`` the two machines that is in other ports."""
        for end, other in (link, (link.other, link.one)):
            stray = self._seen.at(end)
            if stray is not None and stray in self._strays:
                explained.add(stray)
                there = self._seen.peers[end]
                text = f"{end} leads to {there} instead of {other}"
                steps = f"move the plug at {there} to {other}"
                return self._seen.status(link, LinkState.WRONG_PORT, text, steps)
        for stray in between:
            if stray not in explained and self._declared_ends.isdisjoint(stray):
                explained.add(stray)
                text = (
                    f"the cable from {link.one} to {link.other} is in {stray.one} and {stray.other} instead"
                )
                steps = f"move its plugs to {link.one} and {link.other}"
                return self._seen.status(link, LinkState.WRONG_PORT, text, steps)
        return None

    def _missing(self, link: Link) -> LinkStatus:
        ends = [self._at(end) for end in link]
        seen = "; ".join(text for text in ends if text)
        text = f"no cable joins {link.one} and {link.other}" + (f": {seen}" if seen else "")
        steps = (
            f"plug a Thunderbolt 5 cable into {link.one} and {link.other}, or reseat the one that is there"
        )
        return self._seen.status(link, LinkState.MISSING, text, steps)

    def _at(self, end: End) -> str:
        """Say what is at an end that should not be; empty if the other end says enough."""
        port = self._seen.ports.get(end)
        if port is None:
            receptacles = [str(each.receptacle) for each in sorted(self._seen.ports) if each.node == end.node]
            return f"{end.node} has no receptacle {end.receptacle}, only {', '.join(receptacles)}"
        if port.connected is False:
            return f"nothing is plugged in at {end}"
        if port.peer is not None:
            return f"{end} leads to {End(*port.peer)}"
        there = self._seen.owner(port.peer_domain)
        if there is None:
            stranger = port.through[0] if port.through else "something other than these machines"
            return f"{end} leads to {stranger}"
        if self._seen.ports[there].connected is False:
            return ""  # probed before the cable was out; the other end says enough
        return f"{end} leads to {there}, which reports otherwise"
