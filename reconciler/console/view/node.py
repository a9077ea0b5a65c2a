"""The page of a machine: its facts, its ranks, its cables, and its conditions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from reconciler.console.snapshot import Snapshot
from reconciler.wire import objects

from .cabling import Picture, picture_of
from .details import Details, details
from .machine import Machine, machines, scale

FACTS = (
    ("model", "Model"),
    ("chip", "Chip"),
    ("macOS", "macOS"),
    ("rdmaEnabled", "RDMA enabled"),
    ("throttled", "Throttled by heat"),
    ("sleeps", "Sleeps when idle"),
    ("fileVault", "FileVault"),
    ("firewall", "Firewall"),
)
"""Facts of ``status.mac`` that people look for first; `reconciler describe node` shows all."""


@dataclass(frozen=True, slots=True)
class Node:
    line: Machine
    watts_scale: int
    facts: tuple[tuple[str, str], ...]
    ranks: tuple[objects.Rank, ...]
    picture: Picture | None
    details: Details


def node(snapshot: Snapshot, name: str) -> Node | None:
    """Return the page of a machine; None if no Node has this name."""
    each = snapshot.node(name)
    if each is None:
        return None
    found = machines(snapshot)
    return Node(
        line=next(line for line in found if line.name == name),
        watts_scale=scale(found),
        facts=tuple(_facts(each)),
        ranks=tuple(rank for rank in snapshot.ranks if rank["node"] == name),
        picture=picture_of(snapshot, name),
        details=details(snapshot, each),
    )


def _facts(each: objects.Node) -> Iterator[tuple[str, str]]:
    status, ssh = each["status"], each["spec"].get("ssh")
    if ssh:
        yield "Address", ssh["host"]
    mac = status.get("mac")
    known = dict(mac) if mac else {}
    for field, text in FACTS:
        if field in known:
            value = known[field]
            yield text, ("yes" if value else "no") if isinstance(value, bool) else str(value)
    if not mac and status.get("system"):
        yield "System", status["system"]
    yield from status.get("runtime", {}).items()
