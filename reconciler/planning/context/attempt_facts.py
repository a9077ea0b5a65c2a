"""The facts that a group was formed under, and which of them have changed since.

Facts that are not known now, or were not known then, count as unchanged: a probe that says nothing is no news.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from typing import NamedTuple

from reconciler.state import NodeName, NodeObservation, PortFacts

from .world import World

BOOT, PEER = "boot", "peer"


def current_facts(world: World, members: tuple[NodeName, ...], path: str, generations: str) -> dict[str, str]:
    """Collect every fact about the machines of a group, by a name for people; ``path`` is where the weights are."""
    found = {"the manifests": generations}
    for name in members:
        found |= world.once(_of_node, name, path)
    return found


def _of_node(world: World, name: NodeName, path: str) -> dict[str, str]:
    node = world.node(name)
    found = {f"{name} {what}": value for what, value in _of_machine(node, path) if value}
    for port in node.facts.ports:
        found |= {f"{name}/{port.receptacle} {what}": value for what, value in _of_port(port) if value}
    return found


def encode(facts: dict[str, str]) -> str:
    """Encode facts as the store keeps them."""
    return json.dumps(facts, sort_keys=True, separators=(",", ":"))


class Change(NamedTuple):
    """A fact that has another value now."""

    subject: str
    """The node, or one of its ports."""
    fact: str
    before: str
    after: str

    def __str__(self) -> str:
        return f"{self.subject} {self.fact}: {self.before} → {self.after}"


def changes(before: str, now: dict[str, str]) -> list[Change]:
    """List the facts that were known before and have another value now."""
    old: dict[str, str] = json.loads(before or "{}")
    names = (name for name in sorted(old.keys() & now.keys()) if old[name] != now[name])
    return [Change(*_parts(name), old[name], now[name]) for name in names]


def _parts(name: str) -> tuple[str, str]:
    """Return what a fact is about, and which one it is. Names of nodes have no spaces."""
    subject, _, fact = name.partition(" ")
    return subject, fact


def carried(facts: str, one: NodeName, other: NodeName) -> bool:
    """Return whether, by these facts, a cable with an address at either end joined the two nodes."""
    then: dict[str, str] = json.loads(facts or "{}")

    def led(here: NodeName, there: NodeName) -> bool:
        ends = (end for end, fact in map(_parts, then) if fact == PEER)
        return any(
            end.startswith(f"{here}/")
            and then[f"{end} {PEER}"].startswith(f"{there}/")
            and then.get(f"{end} address", "none") != "none"
            for end in ends
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
    yield "address", port.address or ("none" if port.address == "" else "")
    yield "GID", _answer(port.mapped_gid)
    yield "GID index", "" if port.gid_index is None else str(port.gid_index)


def _answer(fact: bool | None) -> str:
    return {None: "", True: "yes", False: "no"}[fact]
