"""The path of RDMA over one cable: whether this project has tested one like it, by what both ends report."""

from __future__ import annotations

from enum import Enum

from reconciler.state import MachineFacts, PortFacts
from reconciler.state.machine.facts import THUNDERBOLT5_GBPS

Side = tuple[MachineFacts, PortFacts]
"""One end of a cable, with its machine."""
_SLOW_GBPS_MIN = 40
"""RDMA was seen to work at this speed (github.com/zhaofengli/RDMAEnabler), and to crash (github.com/ml-explore/mlx issue
4485). Slower links were never reported."""


class RdmaPath(Enum):
    """The path, with the reason why it may not work. An unknown speed is left to others."""

    DIRECT = "direct"
    SLOW = "slow"
    """40 Gb/s between two Macs with Thunderbolt 5: not tested."""
    DOCKED = "docked"
    """Through a dock or a hub, with 80 Gb/s at both ends: not tested."""
    TOO_SLOW = "too slow"
    """Slow, and an end is not known to have Thunderbolt 5."""
    DOCKED_SLOWLY = "docked slowly"
    """Through a dock or a hub, without 80 Gb/s at both ends."""


UNTESTED = (RdmaPath.SLOW, RdmaPath.DOCKED)
"""Paths that a Fabric may allow."""


def rdma_path(*ends: Side) -> RdmaPath:
    """Return the path of a cable, by both of its ends, or by the one that is known."""
    known = [port.gbps for _, port in ends if port.gbps is not None]
    slow, whole = bool(known) and min(known) < THUNDERBOLT5_GBPS, len(known) == 2
    if docks(*ends):
        return RdmaPath.DOCKED if whole and not slow else RdmaPath.DOCKED_SLOWLY
    if not slow:
        return RdmaPath.DIRECT
    thunderbolt5 = all(facts.thunderbolt5 for facts, _ in ends)
    return RdmaPath.SLOW if whole and thunderbolt5 and min(known) >= _SLOW_GBPS_MIN else RdmaPath.TOO_SLOW


def docks(*ends: Side) -> tuple[str, ...]:
    """Return the docks and hubs of a cable: one that a single end reports is there too."""
    return next((port.through for _, port in ends if port.through), ())


def gbps(*ends: Side) -> int | None:
    """Return the lowest speed that an end reports."""
    return min((port.gbps for _, port in ends if port.gbps is not None), default=None)
