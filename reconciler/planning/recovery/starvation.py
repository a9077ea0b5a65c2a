"""Judges whether a rank may have been killed because memory was short, by the reports of its machine."""

from __future__ import annotations

from reconciler.planning.context.view import Formed
from reconciler.state import NodeName
from reconciler.wire.node import Load

MEASURED_SECONDS = 5.0
"""Greatest age of a machine's report of its memory."""
SPARE = 0.05
"""The share of a machine's memory that is free while memory is not short."""


def possible(view: Formed) -> bool:
    """Return whether memory may have been short where ranks of the group are gone; also if no report says so."""
    charges: dict[NodeName, int] = {}
    for number, (name, size) in enumerate(zip(view.record.members, view.record.charges, strict=True)):
        rank = view.current.get(number)
        if rank is None or not rank.alive:
            charges[name] = charges.get(name, 0) + size
    return any(_short(view, name, size) for name, size in charges.items())


def _short(view: Formed, name: NodeName, charged: int) -> bool:
    """Return whether a machine reports pressure, has ended programs for memory within the hour, or had little left."""
    node = view.world.node(name)
    load = node.report.load if node.report else None
    if node.report is None or load is None or load.memory_free_bytes is None:
        return True
    if load.pressure in ("warn", "critical") or node.facts.memory_kills:
        return True
    given_back = charged if _measured_since(view, name, load) else 0
    return load.memory_free_bytes < given_back + SPARE * node.report.memory_bytes


def _measured_since(view: Formed, name: NodeName, load: Load) -> bool:
    """Return whether a measurement was surely made after the ends: what the ranks held is free in it."""
    ends = (rank.report.exit for rank in view.current.values() if rank.node == name)
    return all(load.clock - MEASURED_SECONDS >= ended.at for ended in ends if ended is not None)
