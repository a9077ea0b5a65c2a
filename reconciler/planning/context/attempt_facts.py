"""The facts that a group was formed under, and which of them have changed since.

Facts that are not known now, or were not known then, count as unchanged: a probe that says nothing is no news.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from reconciler.resources import End
from reconciler.state import NodeName, NodeObservation, PortFacts
from reconciler.state.formed_under import Fact, Facts

from .world import World

BOOT, PEER, ADDRESS = "boot", "peer", "address"
NONE = "none"
MANIFESTS = Fact("the manifests")


def current_facts(
    world: World, members: tuple[NodeName, ...], path: str, generations: str
) -> dict[Fact, str]:
    """Collect every fact about the machines of a group; ``path`` is where the weights are."""
    found = {MANIFESTS: generations}
    for name in members:
        found |= world.once(_of_node, name, path)
    return found


def _of_node(world: World, name: NodeName, path: str) -> dict[Fact, str]:
    node = world.node(name)
    found = {Fact(what, name): value for what, value in _of_machine(node, path) if value}
    for port in node.facts.ports:
        found |= {Fact(what, name, port.receptacle): value for what, value in _of_port(port) if value}
        if port.unusual:
            allowed = End(name, port.receptacle) in world.desired.untested_ends
            found[Fact("RDMA over it is allowed", name, port.receptacle)] = _answer(allowed)
    return found


class Change(NamedTuple):
    """A fact that has another value now."""

    fact: Fact
    before: str
    after: str

    def __str__(self) -> str:
        return f"{self.fact}: {self.before} → {self.after}"


def changes(before: Facts, now: Mapping[Fact, str]) -> list[Change]:
    """List the facts that were known before and have another value now."""
    return [Change(fact, old, now[fact]) for fact, old in before if now.get(fact, old) != old]


def carried(facts: Facts, one: NodeName, other: NodeName) -> bool:
    """Return whether, by these facts, a cable with an address at either end joined the two nodes."""
    then = dict(facts)

    def led(here: NodeName, there: NodeName) -> bool:
        ports = (fact for fact in then if fact.name == PEER and fact.node == here)
        return any(
            then[port].startswith(f"{there}/") and then.get(port._replace(name=ADDRESS), NONE) != NONE
            for port in ports
        )

    return led(one, other) and led(other, one)


def _of_machine(node: NodeObservation, path: str) -> Iterator[tuple[str, str]]:
    facts, report, weights = node.facts, node.report, node.model(path)
    yield BOOT, (report.boot_id if report else facts.boot_id)[:8]
    yield "macOS", ".".join(map(str, facts.version))
    yield "JACCL", _answer(facts.jaccl)
    yield "RDMA", _answer(facts.rdma_enabled)
    yield "RDMA tools", _answer(facts.verbs_answer)
    yield "local network", _answer(facts.launch_context)
    if report is not None:
        yield "memory", str(report.memory_bytes)
        yield "memory of the GPU", str(facts.gpu_bytes or "")
        yield from sorted((report.runtime or {}).items())
    if weights is not None and not weights.examining:
        shape = json.dumps([weights.weights_bytes, weights.config, weights.problem], sort_keys=True)
        yield "weights", hashlib.sha256(shape.encode()).hexdigest()[:8]


def _of_port(port: PortFacts) -> Iterator[tuple[str, str]]:
    yield "cable", _answer(port.connected)
    yield PEER, "/".join(map(str, port.peer)) if port.peer else ""
    yield "Gb/s", str(port.gbps or "")
    yield "link", _answer(port.active)
    yield "RDMA port", _answer(port.verbs_up)
    yield "bridge", _answer(port.bridged)
    yield ADDRESS, port.address or (NONE if port.address == "" else "")
    yield "GID", _answer(port.mapped_gid)
    yield "GID index", "" if port.gid_index is None else str(port.gid_index)


def _answer(fact: bool | None) -> str:
    return {None: "", True: "yes", False: "no"}[fact]
